//! One process as people read it: what it is, what it runs, what it ran last, and how often attempts failed in that.

use super::table::Look;
use super::times::spaced;
use super::workers::of_note;
use counterstep_contracts::operation::shown::{Cell, Table, View};
use counterstep_contracts::workers::{FailureShare, WorkerDetails, WorkerView};
use counterstep_kernel::audit::one_line;
use counterstep_node::Exit;
use std::slice;

/// The process, above the turns that it ran last: `--columns` chooses among theirs.
pub(super) fn shown(found: &WorkerDetails, look: &Look) -> Result<String, Exit> {
    let mut text = facts(&found.worker) + &of_note(slice::from_ref(&found.worker));
    text += &compared(found);
    if !found.running.is_empty() {
        text.push('\n');
        text += &look.plain(&running(found));
    }
    text.push('\n');
    Ok(text + &look.text(&View::Table(recent(found)))?)
}

fn facts(worker: &WorkerView) -> String {
    let mut facts = vec![
        ("process", worker.id.clone()),
        ("state", worker.state.to_string()),
        ("machine", worker.machine.clone()),
        ("program", worker.program.clone()),
        ("since", worker.started_at.clone()),
        ("seen", worker.seen_at.clone()),
    ];
    if !worker.queues.is_empty() {
        let free = worker.concurrency.saturating_sub(worker.running_count);
        facts.push(("queues", worker.queues.join(", ")));
        facts.push((
            "runs",
            format!("{} of {}", worker.running_count, worker.concurrency),
        ));
        facts.push(("free slots", free.to_string()));
    }
    if let Some(bytes) = worker.memory_bytes {
        facts.push(("memory", format!("{} MiB", bytes >> 20)));
    }
    let lines = facts.iter();
    let lines = lines.map(|(what, text)| format!("{what}: {}\n", one_line(text)));
    lines.collect()
}

/// Failures, here and elsewhere, as numbers: of few turns no share says anything.
fn compared(found: &WorkerDetails) -> String {
    let of = |it: FailureShare| format!("{} of {}", it.failed, it.turns);
    let (own, others) = (found.failures, found.neighbours);
    if own.turns == 0 {
        return String::new();
    }
    format!(
        "turns with a failed attempt: {}; in {} other processes with the same task types {}\n",
        of(own),
        others.processes,
        of(others.failures)
    )
}

fn running(found: &WorkerDetails) -> Table {
    let rows = found.running.iter().map(|it| {
        vec![
            Cell::task(Some(&it.task_id)),
            Cell::text(it.task_type.as_deref()),
            Cell::text(it.step.as_deref()),
            Cell::time(it.since.as_deref()),
        ]
    });
    Table::of("tasks", &["runs", "task type", "step", "since"], rows)
}

fn recent(found: &WorkerDetails) -> Table {
    let rows = found.recent.iter().map(|it| {
        let took = match it.took_millis {
            millis @ 0..1_000 => format!("{millis} ms"),
            millis => spaced(millis / 1_000),
        };
        vec![
            Cell::task(Some(&it.task_id)),
            Cell::of(&it.task_type),
            Cell::of(&it.outcome),
            Cell::number(it.failed_attempts),
            took.into(),
            Cell::time(Some(&it.ended_at)),
        ]
    });
    let heads = ["ran", "task type", "outcome", "failed", "took", "ended"];
    Table::of("turns", &heads, rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn details() -> WorkerDetails {
        let task = "01930d2c-6c4b-7d5e-8f00-0123456789ab";
        serde_json::from_value(json!({
            "worker": {
                "id": "worker:1", "role": "worker", "state": "alive", "machine": "w1", "program": "0.1.0",
                "queues": ["files"], "task_types": [], "concurrency": 8, "running_count": 3, "running": [],
                "heavy": 2, "heavy_count": 1, "abandoned_count": 0, "memory_bytes": 73_400_320,
                "started_at": "2026-11-23T10:00:00Z", "seen_at": "2026-11-23T10:00:00Z",
            },
            "running": [{"task_id": task, "task_type": "Zip", "step": "upload", "since": "2026-11-23T10:00:00Z"}, {"task_id": task}],
            "recent": [{
                "task_id": task, "task_type": "Zip", "outcome": "given_back", "failed_attempts": 2,
                "ended_at": "2026-11-23T10:00:00Z", "took_millis": 2140,
            }],
            "failures": {"failed": 3, "turns": 4},
            "neighbours": {"processes": 2, "failures": {"failed": 4, "turns": 180}},
        }))
        .expect("a view")
    }

    #[test]
    fn a_process_is_shown_with_its_slots_its_turns_and_what_failed_elsewhere() {
        let look = Look {
            width: None,
            ..Look::here()
        };
        let shown = super::shown(&details(), &look).expect("a text");
        for part in [
            "runs: 3 of 8\nfree slots: 5\nmemory: 70 MiB\n",
            "turns with a failed attempt: 3 of 4; in 2 other processes with the same task types 4 of 180\n",
            "\tZip\tupload\t2026-11-23T10:00:00Z\n",
            "\tZip\tgiven_back\t2\t2 s\t2026-11-23T10:00:00Z\n",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }

    #[test]
    fn a_process_that_ran_nothing_yet_has_no_failures() {
        let mut found = details();
        (found.running, found.recent) = (Vec::new(), Vec::new());
        found.failures = FailureShare::default();
        let shown = super::shown(&found, &Look::here()).expect("a text");
        assert!(
            !shown.contains("failed attempt") && shown.ends_with("\nNo turns\n"),
            "{shown}"
        );
    }
}
