//! The processes of an installation, one of them, what is under way, and pausing those of a machine.

use super::command::{Flag, NOTE, Takes, flag};
use super::examples::{CHANGED, MADE, OTHER, TASK};
use super::shown::{Cell, Shown, Table, View};
use super::{
    About, Access, Chapter, GateMove, Ids, Operation, Param, WHOLE_LIST, text, text_target,
};
use crate::gate::GateKind;
use crate::queue::PauseView;
use crate::workers::{
    FailureShare, KeptView, MachineView, NeighboursView, PauseWorkersRequest, RecentTurnView,
    RunningTaskView, StatusView, TaskCountView, TurnOutcome, WorkerDetails, WorkerState,
    WorkerType, WorkerView, WorkersView,
};
use crate::{ProblemCode, TaskStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const ROLE: Flag = flag("role", "--role", Takes::Text);

/// The name of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineName(pub String);

text_target!(MachineName, "machine", "The name of the machine", "w1");

/// The id of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerId(pub String);

text_target!(
    WorkerId,
    Param {
        name: "worker_id",
        about: "The id of the process",
        schema: text,
        example: "worker:08a4bd91a6db",
        ids: Some(&Ids {
            of: "process",
            length: 19,
            // The role is before the colon.
            signs: "-:_ghijklmnopqrstuvwxyz",
            list: ListWorkers::ABOUT.id,
            field: "id",
            shown: &["machine", "state"],
            looks: WHOLE_LIST,
        }),
    }
);

/// Show what is under way, and the processes.
#[derive(Debug)]
pub struct ListWorkers;
/// Look at a process.
#[derive(Debug)]
pub struct ShowWorker;
/// Which processes.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct WorkersQuery {
    /// In this state only
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<WorkerState>,
}

/// Pause the processes of a machine.
#[derive(Debug)]
pub struct PauseWorkers;
/// Resume the processes of a machine.
#[derive(Debug)]
pub struct ResumeWorkers;

impl Operation for ListWorkers {
    type Target = ();
    type Input = WorkersQuery;
    type Output = WorkersView;
    const ABOUT: About = About::get("listWorkers", "/api/workers", Access::Installation)
        .summary(
            Chapter::Process,
            "Show what is under way, and the processes",
        )
        .answers(200, "The processes, the last seen first")
        .command(["workers", "list"], &[])
        .of_group();

    fn example() -> (WorkersQuery, WorkersView) {
        let query = WorkersQuery {
            state: Some(WorkerState::Alive),
        };
        let running = TaskCountView {
            status: TaskStatus::Running,
            queue: "file-processing".to_owned(),
            count: 1,
        };
        let view = WorkersView {
            status: StatusView {
                tasks: vec![running],
                oldest_running_seconds: Some(2),
                workers_alive: 1,
                ..StatusView::default()
            },
            workers: vec![worker()],
        };
        (query, view)
    }
}

impl Operation for ShowWorker {
    type Target = WorkerId;
    type Input = ();
    type Output = WorkerDetails;
    const ABOUT: About = About::get(
        "showWorker",
        "/api/workers/{worker_id}",
        Access::Installation,
    )
    .summary(
        Chapter::Process,
        "Look at a process: what it runs, what it ran last, and how often attempts failed there and elsewhere",
    )
    .answers(200, "The process, as it was seen last")
    .problems(&[ProblemCode::NoSuchWorkers])
    .command(["workers", "show"], &[]);

    fn example() -> ((), WorkerDetails) {
        let running = RunningTaskView {
            task_id: TASK,
            task_type: Some("CreateZipFromFiles".to_owned()),
            step: Some("upload_zip".to_owned()),
            since: Some(CHANGED.to_owned()),
        };
        let recent = RecentTurnView {
            task_id: OTHER,
            task_type: "CreateZipFromFiles".to_owned(),
            outcome: TurnOutcome::Completed,
            failed_attempts: 1,
            ended_at: CHANGED.to_owned(),
            took_millis: 2_140,
        };
        let share = |failed, turns| FailureShare { failed, turns };
        let details = WorkerDetails {
            worker: worker(),
            running: vec![running],
            recent: vec![recent],
            failures: share(1, 1),
            neighbours: NeighboursView {
                processes: 2,
                failures: share(3, 180),
            },
        };
        ((), details)
    }
}

impl Operation for PauseWorkers {
    type Target = MachineName;
    type Input = PauseWorkersRequest;
    type Output = MachineView;
    const ABOUT: About = About::post(
        "pauseWorkers",
        "/api/workers/{machine}/pause",
        Access::Installation,
    )
    .summary(
        Chapter::Process,
        "Let the processes of a machine take no more tasks, until they are resumed",
    )
    .answers(
        200,
        "Within a few seconds they claim no task. What runs there goes on",
    )
    .problems(&[ProblemCode::NoSuchWorkers])
    .command(["workers", "pause"], &[ROLE, NOTE])
    .of_gate(GateMove::Set, GateKind::Workers)
    .more("what runs there goes on");
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(machine));

    fn example() -> (PauseWorkersRequest, MachineView) {
        let paused = PauseView {
            since: CHANGED.to_owned(),
            by: "operator:kim".to_owned(),
            note: "a disk is changed".to_owned(),
        };
        let view = MachineView {
            paused: Some(paused),
            ..w1()
        };
        (request("a disk is changed"), view)
    }
}

impl Operation for ResumeWorkers {
    type Target = MachineName;
    type Input = PauseWorkersRequest;
    type Output = MachineView;
    const ABOUT: About = About::post(
        "resumeWorkers",
        "/api/workers/{machine}/resume",
        Access::Installation,
    )
    .summary(
        Chapter::Process,
        "Let the processes of a machine take tasks again",
    )
    .answers(200, "They claim tasks")
    .problems(&[ProblemCode::NoSuchWorkers])
    .command(["workers", "resume"], &[ROLE, NOTE])
    .of_gate(GateMove::Reset, GateKind::Workers);
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(machine));

    fn example() -> (PauseWorkersRequest, MachineView) {
        (request("the disk is changed"), w1())
    }
}

fn request(note: &str) -> PauseWorkersRequest {
    PauseWorkersRequest {
        role: "worker".to_owned(),
        note: note.to_owned(),
        actor: Some("kim".to_owned()),
    }
}

fn w1() -> MachineView {
    MachineView {
        machine: "w1".to_owned(),
        role: "worker".to_owned(),
        paused: None,
        processes: 1,
        running_count: 3,
    }
}

fn machine(of: &MachineView) -> View {
    let pause = of.paused.as_ref();
    let row = vec![
        Cell::name(&of.machine),
        Cell::of(&of.role),
        Cell::of(&of.processes),
        Cell::of(&of.running_count),
        Cell::time(pause.map(|it| &*it.since)),
        Cell::text(pause.map(|it| &*it.by)),
        Cell::text(pause.map(|it| &*it.note)),
    ];
    let heads = [
        "machine",
        "role",
        "processes",
        "tasks",
        "paused since",
        "by",
        "reason",
    ];
    View::Table(Table::of("machines", &heads, [row]))
}

fn worker() -> WorkerView {
    WorkerView {
        id: "worker:08a4bd91a6db".to_owned(),
        role: "worker".to_owned(),
        state: WorkerState::Alive,
        machine: "w1".to_owned(),
        program: "0.1.0".to_owned(),
        paused: None,
        queues: vec!["file-processing".to_owned()],
        task_types: vec![WorkerType {
            name: "CreateZipFromFiles".to_owned(),
            version: 1,
            definition: "9b1d6c0c7d3f8a52".to_owned(),
        }],
        concurrency: 8,
        running_count: 1,
        running: vec![TASK],
        heavy: 2,
        heavy_count: 0,
        permits: BTreeMap::from([("bank".to_owned(), 1)]),
        abandoned_count: 0,
        memory_bytes: Some(73_400_320),
        started_at: MADE.to_owned(),
        seen_at: CHANGED.to_owned(),
        stopped_at: None,
        kept: Some(KeptView {
            results: 0,
            bytes: 0,
            oldest_seconds: None,
        }),
        fetch_errors: Vec::new(),
        last_pass: None,
    }
}
