//! A task's past as text, for assertions: `a ok, b failed, b undone, a undone, failed`.
//!
//! After a step's name: `ok`, `skipped`, `retries`, `waits`, `signalled`, `falls back`, `failed`,
//! `in doubt`, `result dropped`, `scratch lost`, `rebuilt`, `undone`, `waived`, `undo retries`, `undo in doubt`,
//! `undo failed`; of a probe `found done`, `found not done`, `probe retries`, `probe failed`; of an operator
//! `redriven`, `supplied`, `probe redriven`, `undo redriven`, `undo settled`. A state in which the task comes to rest stands where it did.

use counterstep_kernel::record::{History, TaskRecord};

/// Steps with what became of them, in order, and the state that the task came to rest in.
#[must_use]
pub fn of(record: &TaskRecord, history: &History) -> String {
    let mut words = Vec::new();
    for row in &history.audit {
        let entry = &row.entry;
        let name = entry
            .step
            .and_then(|no| record.steps.iter().find(|step| step.no == no))
            .map_or("", |step| step.name.as_str());
        let said = match entry.event.as_str() {
            "step_succeeded" => "ok",
            "step_skipped" => "skipped",
            "step_retries" => "retries",
            "step_failed" => "failed",
            "step_waits" => "waits",
            "signal_received" => "signalled",
            "step_falls_back" => "falls back",
            "step_in_doubt" => "in doubt",
            "result_dropped" => "result dropped",
            "step_scratch_lost" => "scratch lost",
            "step_rebuilt" => "rebuilt",
            "undo_succeeded" => "undone",
            "undo_waived" => "waived",
            "undo_retries" => "undo retries",
            "undo_in_doubt" => "undo in doubt",
            "undo_failed" => "undo failed",
            "undo_redriven" => "undo redriven",
            "undo_resolved" => "undo settled",
            "step_redriven" => "redriven",
            "step_supplied" => "supplied",
            "step_settled_done" => "found done",
            "step_settled_not_done" => "found not done",
            "probe_retries" => "probe retries",
            "probe_failed" => "probe failed",
            "probe_redriven" => "probe redriven",
            _ => {
                if entry.to.is_at_rest() && entry.from != Some(entry.to) {
                    words.push(entry.to.to_string());
                }
                continue;
            }
        };
        words.push(format!("{name} {said}"));
    }
    words.join(", ")
}
