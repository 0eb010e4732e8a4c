//! Queues: which there are, pausing one and resuming it.

use super::command::NOTE;
use super::examples::CHANGED;
use super::shown::{Cell, Shown, Table, View};
use super::{About, Access, Chapter, GateMove, Operation, text_target};
use crate::gate::GateKind;
use crate::http::Page;
use crate::queue::{PauseView, QueueRequest, QueueView};
use crate::{ProblemCode, QueueName, TaskStatus};
use std::collections::BTreeMap;

text_target!(QueueName, "name", "The name of the queue", "bookings");

/// List the queues.
#[derive(Debug)]
pub struct ListQueues;
/// Pause a queue.
#[derive(Debug)]
pub struct PauseQueue;
/// Resume a queue.
#[derive(Debug)]
pub struct ResumeQueue;

impl Operation for ListQueues {
    type Target = ();
    type Input = ();
    type Output = Page<QueueView>;
    const ABOUT: About = About::get("listQueues", "/api/queues", Access::Installation)
        .summary(
            Chapter::Types,
            "List the queues, what waits on them, and which are paused",
        )
        .answers(200, "All of them")
        .command(["queues", "list"], &[]);
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(|it| rows(&it.items)));

    fn example() -> ((), Page<QueueView>) {
        let open = QueueView {
            empty_in_seconds: Some(160),
            ..queue([(TaskStatus::Dispatched, 12), (TaskStatus::Running, 3)])
        };
        ((), Page::whole(vec![open]))
    }
}

impl Operation for PauseQueue {
    type Target = QueueName;
    type Input = QueueRequest;
    type Output = QueueView;
    const ABOUT: About = About::post(
        "pauseQueue",
        "/api/queues/{name}/pause",
        Access::Installation,
    )
    .summary(
        Chapter::Types,
        "Claim no more tasks of a queue, in any process",
    )
    .answers(
        200,
        "Within a few seconds no task of it is claimed. What runs goes on",
    )
    .problems(&[ProblemCode::NoSuchQueue])
    .command(["queues", "pause"], &[NOTE])
    .of_gate(GateMove::Set, GateKind::Queue)
    .more("what runs goes on");
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(row));

    fn example() -> (QueueRequest, QueueView) {
        let paused = PauseView {
            since: CHANGED.to_owned(),
            by: "operator:kim".to_owned(),
            note: "the bank moves".to_owned(),
        };
        let stopped = QueueView {
            paused: Some(paused),
            ..queue([(TaskStatus::Dispatched, 15)])
        };
        (request("the bank moves"), stopped)
    }
}

impl Operation for ResumeQueue {
    type Target = QueueName;
    type Input = QueueRequest;
    type Output = QueueView;
    const ABOUT: About = About::post(
        "resumeQueue",
        "/api/queues/{name}/resume",
        Access::Installation,
    )
    .summary(Chapter::Types, "Claim tasks of a queue again")
    .answers(200, "Tasks of it are claimed")
    .problems(&[ProblemCode::NoSuchQueue])
    .command(["queues", "resume"], &[NOTE])
    .of_gate(GateMove::Reset, GateKind::Queue);
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(row));

    fn example() -> (QueueRequest, QueueView) {
        let open = queue([(TaskStatus::Dispatched, 12), (TaskStatus::Running, 3)]);
        (request("the bank has moved"), open)
    }
}

fn request(note: &str) -> QueueRequest {
    QueueRequest {
        note: note.to_owned(),
        actor: Some("kim".to_owned()),
    }
}

fn queue<const N: usize>(tasks: [(TaskStatus, u64); N]) -> QueueView {
    let tasks = BTreeMap::from(tasks);
    QueueView {
        name: "bookings".to_owned(),
        paused: None,
        depth: tasks[&TaskStatus::Dispatched],
        tasks,
        oldest_seconds: Some(41),
        in_per_minute: 20.0,
        out_per_minute: 24.5,
        empty_in_seconds: None,
    }
}

fn rows(queues: &[QueueView]) -> View {
    let row = |queue: &QueueView| {
        let tasks = queue.tasks.iter();
        let tasks = tasks.map(|(status, count)| format!("{count} {status}"));
        let pause = queue.paused.as_ref();
        vec![
            Cell::name(&queue.name),
            tasks.collect::<Vec<_>>().join(", ").into(),
            Cell::number(queue.depth),
            queue.oldest_seconds.map_or(Cell::NONE, Cell::Seconds),
            Cell::of(&queue.in_per_minute),
            Cell::of(&queue.out_per_minute),
            queue.empty_in_seconds.map_or(Cell::NONE, Cell::Seconds),
            Cell::time(pause.map(|it| &*it.since)),
            Cell::text(pause.map(|it| &*it.by)),
            Cell::text(pause.map(|it| &*it.note)),
        ]
    };
    let heads = [
        "queue",
        "tasks",
        "depth",
        "oldest",
        "in/min",
        "out/min",
        "empty in",
        "paused since",
        "by",
        "reason",
    ];
    View::Table(Table {
        spare: &["in/min", "out/min", "by", "paused since"],
        ..Table::of("queues", &heads, queues.iter().map(row))
    })
}

fn row(queue: &QueueView) -> View {
    rows(std::slice::from_ref(queue))
}
