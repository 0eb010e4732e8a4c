//! The processes as people read them: which are there, what they run, and how long tasks wait.

use super::table::Look;
use super::times::spaced;
use counterstep_contracts::operation::shown::{Cell, Table, View};
use counterstep_contracts::workers::{StatusView, WorkerView, WorkersView};
use counterstep_kernel::audit::one_line;
use counterstep_node::Exit;

/// The processes, below what is under way.
pub(super) fn shown(found: &WorkersView, look: &Look) -> Result<String, Exit> {
    let rows = look.text(&View::Table(table(found)))?;
    Ok(above(found) + &rows)
}

/// What stands above the processes.
fn above(found: &WorkersView) -> String {
    status(&found.status) + &of_note(&found.workers)
}

/// What else is to be known of these processes.
pub(super) fn of_note(workers: &[WorkerView]) -> String {
    pauses(workers) + &kept(workers) + &fetch_errors(workers)
}

fn table(found: &WorkersView) -> Table {
    let heads = [
        "process",
        "state",
        "machine",
        "program",
        "queues",
        "runs",
        "heavy",
        "permits",
        "seen",
        "task types",
    ];
    let row = |worker: &WorkerView| {
        let takes = !worker.queues.is_empty();
        let of = |used: u32, all: u32| match takes {
            true => format!("{used} of {all}"),
            false => String::new(),
        };
        let mut runs = of(worker.running_count, worker.concurrency);
        if worker.abandoned_count > 0 {
            runs.push_str(&format!(", {} abandoned", worker.abandoned_count));
        }
        let permits = worker.permits.iter();
        let permits = permits.map(|(limit, held)| format!("{held} of {limit}"));
        let types = worker.task_types.iter();
        let types = types.map(|of| format!("{} {}", of.name, of.version));
        vec![
            Cell::name(&worker.id),
            match &worker.paused {
                Some(_) => format!("{}, paused", worker.state).into(),
                None => Cell::of(&worker.state),
            },
            Cell::of(&worker.machine),
            Cell::of(&worker.program),
            worker.queues.join(", ").into(),
            runs.into(),
            of(worker.heavy_count, worker.heavy).into(),
            permits.collect::<Vec<_>>().join(", ").into(),
            Cell::Time(worker.seen_at.clone()),
            types.collect::<Vec<_>>().join(", ").into(),
        ]
    };
    let status = &found.status;
    Table {
        // Processes that a filter has left out are counted all the same.
        is_filtered: status.workers_alive + status.workers_lost > 0,
        spare: &["task types"],
        ..Table::of("processes", &heads, found.workers.iter().map(row))
    }
}

/// Processes that keep results.
fn kept(workers: &[WorkerView]) -> String {
    let mut text = String::new();
    for worker in workers {
        let Some(kept) = worker.kept.filter(|kept| kept.results > 0) else {
            continue;
        };
        let age = spaced(kept.oldest_seconds.unwrap_or_default());
        text.push_str(&format!(
            "kept by {}: {} results, {} bytes, the oldest for {age}\n",
            worker.id, kept.results, kept.bytes
        ));
    }
    text
}

/// Processes that take no tasks because a person says so.
fn pauses(workers: &[WorkerView]) -> String {
    let mut text = String::new();
    for worker in workers {
        if let Some(pause) = &worker.paused {
            text.push_str(&format!(
                "{} is paused since {} by {}: {}\n",
                worker.id,
                pause.since,
                one_line(&pause.by),
                one_line(&pause.note)
            ));
        }
    }
    text
}

/// Queues whose messages do not reach a process.
fn fetch_errors(workers: &[WorkerView]) -> String {
    let mut text = String::new();
    for worker in workers {
        for error in &worker.fetch_errors {
            text.push_str(&format!(
                "{} cannot fetch from {}: {}\n",
                worker.id,
                one_line(&error.queue),
                one_line(&error.message)
            ));
        }
    }
    text
}

fn status(status: &StatusView) -> String {
    let mut text = format!(
        "processes: {} alive, {} lost\n",
        status.workers_alive, status.workers_lost
    );
    let tasks: Vec<_> = status
        .tasks
        .iter()
        .map(|tasks| format!("{} {} on {}", tasks.count, tasks.status, tasks.queue))
        .collect();
    text.push_str(&format!(
        "tasks: {}\n",
        if tasks.is_empty() {
            "none".to_owned()
        } else {
            tasks.join(", ")
        }
    ));
    for (what, age) in [
        ("running without a change", status.oldest_running_seconds),
        ("waiting for a host", status.oldest_due_seconds),
        ("event unpublished", status.oldest_unpublished_seconds),
    ] {
        if let Some(age) = age {
            text.push_str(&format!("longest {what}: {}\n", spaced(age)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_process_is_shown_with_its_slots_permits_and_types() {
        let found: WorkersView = serde_json::from_value(json!({
            "status": {"tasks": [], "workers_alive": 1, "workers_lost": 0, "oldest_running_seconds": 0},
            "workers": [{
                "id": "worker:1", "role": "worker", "state": "alive", "machine": "w1", "program": "0.1.0",
                "queues": ["files"], "task_types": [{"name": "Zip", "version": 2, "definition": "9b"}],
                "concurrency": 8, "running_count": 3, "running": [], "heavy": 2, "heavy_count": 1,
                "permits": {"bank/acme": 2}, "abandoned_count": 1,
                "fetch_errors": [{"queue": "files", "message": "not connected\n"}],
                "started_at": "2026-11-23T10:00:00Z", "seen_at": "2026-11-23T10:00:00Z",
            }],
        }))
        .expect("a view");
        let look = |width| Look {
            width,
            ..Look::here()
        };
        let shown = super::shown(&found, &look(None)).expect("a text");
        for part in [
            "longest running without a change: 0 s",
            "3 of 8, 1 abandoned",
            "1 of 2",
            "2 of bank/acme",
            "Zip 2",
            "worker:1 cannot fetch from files: not connected",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        let narrow = super::shown(&found, &look(Some(80))).expect("a text");
        assert!(!narrow.contains("Zip 2"), "{narrow}");
        assert!(
            narrow.contains("left out at this width: task types"),
            "{narrow}"
        );
    }
}
