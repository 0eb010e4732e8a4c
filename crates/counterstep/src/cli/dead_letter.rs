//! A parked task as people read it: its request, its attempts with their errors, who ran them.

use super::table::Look;
use counterstep_contracts::dead_letter::DeadLetterView;
use counterstep_contracts::http::AttemptView;
use counterstep_contracts::operation::shown::{Cell, Table};
use counterstep_kernel::audit::one_line;

pub(super) fn one(found: &DeadLetterView, look: &Look) -> String {
    let letter = &found.letter;
    let mut text = format!(
        "{} {} version {}: {}\n",
        letter.task_id, letter.task_type, letter.version, letter.status
    );
    if let Some(failure) = &letter.failure {
        let step = failure.step.as_deref().unwrap_or("no step");
        let message = one_line(&failure.message);
        text += &format!("failure: {message} ({}), {step}\n", failure.class);
        if let Some(by) = &failure.blocked_by {
            text += &format!("blocked by: {}\n", one_line(&by.message));
        }
    }
    text += &format!("cause: {}\n", one_line(&letter.cause.to_string()));
    text += &format!("group: {}\n", found.group);
    text.extend(found.trace_id.iter().map(|id| format!("trace: {id}\n")));
    let worker = found.worker.iter();
    text.extend(worker.map(|worker| format!("last attempt by: {worker}\n")));
    text += &format!("request: {}\n", found.request);
    for earlier in &found.earlier_requests {
        text += &format!("earlier request: {earlier}\n");
    }
    let row = |attempt: &AttemptView| {
        vec![
            Cell::of(&attempt.step),
            Cell::of(&attempt.direction),
            Cell::of(&attempt.attempt),
            attempt.outcome.as_ref().map_or(Cell::NONE, Cell::of),
            Cell::text(attempt.worker.as_deref()),
            Cell::Time(attempt.started_at.clone()),
            Cell::text(attempt.error.as_deref()),
        ]
    };
    let heads = ["step", "way", "try", "outcome", "by", "started", "error"];
    let table = Table::of("attempts", &heads, found.attempts.iter().map(row));
    text + &look.plain(&table)
}
