//! The processes of an installation, one of them, what is under way, and pausing those of a machine.

use crate::{Cx, Refused, Run};
use counterstep_contracts::ProblemCode;
use counterstep_contracts::operation::workers::{
    ListWorkers, MachineName, PauseWorkers, ResumeWorkers, ShowWorker, WorkerId, WorkersQuery,
};
use counterstep_contracts::workers::{
    MachineView, PauseWorkersRequest, WorkerDetails, WorkerState, WorkersView,
};
use counterstep_kernel::admission::SettingError;
use counterstep_kernel::admission::paused_workers::{
    Processes, pause_of, pause_workers, resume_workers,
};
use counterstep_kernel::status::worker_details::worker_details;
use counterstep_kernel::{Engine, status};
use std::collections::BTreeSet;

impl Run for ListWorkers {
    async fn run(cx: Cx, (): (), asked: WorkersQuery) -> Result<WorkersView, Refused> {
        let mut view = status::read(&cx.engine).await?;
        let is_asked = |state| asked.state.is_none_or(|of| of == state);
        view.workers.retain(|worker| is_asked(worker.state));
        Ok(view)
    }
}

impl Run for ShowWorker {
    async fn run(cx: Cx, WorkerId(id): WorkerId, (): ()) -> Result<WorkerDetails, Refused> {
        let found = worker_details(&cx.engine, &id).await?;
        found.ok_or_else(|| {
            let detail = "no process of this id was seen in the last day";
            Refused::new(ProblemCode::NoSuchWorkers, detail)
        })
    }
}

impl Run for PauseWorkers {
    async fn run(
        cx: Cx,
        machine: MachineName,
        input: PauseWorkersRequest,
    ) -> Result<MachineView, Refused> {
        let (actor, note) = cx.decided::<Self>(&input.note, input.actor.as_deref())?;
        let of = processes(machine, &input);
        let paused = pause_workers(&cx.engine, &of, &actor, &note).await;
        named(&cx.engine, &of, paused).await?;
        view(&cx.engine, of).await
    }
}

impl Run for ResumeWorkers {
    async fn run(
        cx: Cx,
        machine: MachineName,
        input: PauseWorkersRequest,
    ) -> Result<MachineView, Refused> {
        let (actor, note) = cx.decided::<Self>(&input.note, input.actor.as_deref())?;
        let of = processes(machine, &input);
        let resumed = resume_workers(&cx.engine, &of, &actor, &note).await;
        named(&cx.engine, &of, resumed).await?;
        view(&cx.engine, of).await
    }
}

fn processes(MachineName(machine): MachineName, input: &PauseWorkersRequest) -> Processes {
    Processes {
        machine,
        role: input.role.clone(),
    }
}

/// What has become of a pause. Where the machine has no such processes, the refusal names the roles of those that it has.
async fn named<T>(
    engine: &Engine,
    of: &Processes,
    done: Result<T, SettingError>,
) -> Result<T, Refused> {
    let error = match done {
        Ok(done) => return Ok(done),
        Err(error @ SettingError::Unknown(_)) => error,
        Err(error) => return Err(error.into()),
    };
    let found = engine.ports.store.workers().await?;
    let its = found.rows.iter();
    let its = its.filter(|seen| seen.row.machine == of.machine && !seen.row.queues.is_empty());
    let roles: BTreeSet<_> = its.map(|seen| format!("`{}`", seen.role())).collect();
    if roles.is_empty() {
        return Err(error.into());
    }
    let roles: Vec<_> = roles.into_iter().collect();
    let detail = format!(
        "no process of this role takes tasks on this machine; there are processes of the role {}: name it in `role`, of a \
         command with --role",
        roles.join(" and ")
    );
    Err(Refused::new(ProblemCode::NoSuchWorkers, detail).at("role"))
}

/// From the rows of the processes, and the pause itself: it outlasts what is known of them.
async fn view(engine: &Engine, of: Processes) -> Result<MachineView, Refused> {
    let found = engine.ports.store.workers().await?;
    let its = found.rows.iter().filter(|seen| {
        let is_it = (&seen.row.machine, seen.role()) == (&of.machine, &*of.role);
        is_it && seen.state(found.now) == WorkerState::Alive
    });
    let running: Vec<_> = its.map(|seen| u64::from(seen.row.running_count)).collect();
    Ok(MachineView {
        paused: pause_of(engine, &of).await?.map(|pause| pause.view()),
        machine: of.machine,
        role: of.role,
        processes: running.len() as u64,
        running_count: running.iter().sum(),
    })
}
