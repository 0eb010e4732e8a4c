//! The processes of an installation, what is under way, and pausing those of a machine.

use crate::{Cx, Refused, Run, note};
use counterstep_contracts::operation::workers::{
    ListWorkers, MachineName, PauseWorkers, ResumeWorkers,
};
use counterstep_contracts::workers::{MachineView, PauseWorkersRequest, WorkerState, WorkersView};
use counterstep_kernel::admission::paused_workers::{
    Processes, pause_of, pause_workers, resume_workers,
};
use counterstep_kernel::{Engine, status};

impl Run for ListWorkers {
    async fn run(cx: Cx, (): (), (): ()) -> Result<WorkersView, Refused> {
        Ok(status::read(&cx.engine).await?)
    }
}

impl Run for PauseWorkers {
    async fn run(
        cx: Cx,
        machine: MachineName,
        input: PauseWorkersRequest,
    ) -> Result<MachineView, Refused> {
        let (actor, note) = (cx.actor::<Self>(), why(&input)?);
        let of = processes(machine, &input);
        pause_workers(&cx.engine, &of, (&actor, &note)).await?;
        view(&cx.engine, of).await
    }
}

impl Run for ResumeWorkers {
    async fn run(
        cx: Cx,
        machine: MachineName,
        input: PauseWorkersRequest,
    ) -> Result<MachineView, Refused> {
        let (actor, note) = (cx.actor::<Self>(), why(&input)?);
        let of = processes(machine, &input);
        resume_workers(&cx.engine, &of, (&actor, &note)).await?;
        view(&cx.engine, of).await
    }
}

fn why(input: &PauseWorkersRequest) -> Result<String, Refused> {
    Ok(note(&input.note, input.actor.as_deref())?.to_string())
}

fn processes(MachineName(machine): MachineName, input: &PauseWorkersRequest) -> Processes {
    Processes {
        machine,
        role: input.role.clone(),
    }
}

async fn view(engine: &Engine, of: Processes) -> Result<MachineView, Refused> {
    let found = status::read(engine).await?.workers.into_iter();
    let its = found.filter(|it| (&it.machine, &it.role) == (&of.machine, &of.role));
    let mut view = MachineView {
        machine: of.machine.clone(),
        role: of.role.clone(),
        // Also of processes that have not been seen for long.
        paused: pause_of(engine, &of).await?.map(|pause| pause.view()),
        processes: 0,
        running_count: 0,
    };
    for process in its {
        if process.state == WorkerState::Alive {
            view.processes += 1;
            view.running_count += u64::from(process.running_count);
        }
    }
    Ok(view)
}
