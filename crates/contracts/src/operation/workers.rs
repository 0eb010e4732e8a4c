//! The processes of an installation, and what is under way.

use super::examples::{CHANGED, MADE, TASK};
use super::{About, Access, Chapter, Operation};
use crate::TaskStatus;
use crate::workers::{
    KeptView, StatusView, TaskCountView, WorkerState, WorkerType, WorkerView, WorkersView,
};
use std::collections::BTreeMap;

/// Show what is under way, and the processes.
#[derive(Debug)]
pub struct ListWorkers;

impl Operation for ListWorkers {
    type Target = ();
    type Input = ();
    type Output = WorkersView;
    const ABOUT: About = About::get("listWorkers", "/api/workers", Access::Installation)
        .summary(
            Chapter::Process,
            "Show what is under way, and the processes",
        )
        .answers(200, "The processes, the last seen first");

    fn example() -> ((), WorkersView) {
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
        ((), view)
    }
}

fn worker() -> WorkerView {
    WorkerView {
        id: "08a4bd91a6db".to_owned(),
        role: "worker".to_owned(),
        state: WorkerState::Alive,
        machine: "w1".to_owned(),
        program: "0.1.0".to_owned(),
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
