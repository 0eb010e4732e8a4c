//! The row of a task beside what its journal folds to.

use counterstep_contracts::TaskStatus;
use counterstep_kernel::record::TaskRow;
use counterstep_steps::times::{DbTime, rfc3339};
use serde::Serialize;

/// Each column that is another one in the task's row than in the fold of its journal, as text.
/// What was handed in stands in the journal only.
pub(super) fn differences(row: &TaskRow, folded: &TaskRow) -> Vec<String> {
    let mut found = Vec::new();
    macro_rules! columns {
        ($shown:ident: $($column:ident)+) => {
            $(if row.$column != folded.$column {
                found.push(said(stringify!($column), &$shown(&row.$column), &$shown(&folded.$column)));
            })+
        };
    }
    columns! { value: id tenant task_type version definition_hash status waiting host queue rev epoch lease_owner }
    columns! { value: goal recovery_attempts audit_seq failure residue traceparent labels change_id }
    columns! { moment: created_at updated_at }
    columns! { time: deadline_at cancel_requested_at finished_at }
    // The end of a task that it has submitted wakes a task, and that leaves no row in the journal:
    // it may be due earlier.
    let sleeps = matches!(row.status, TaskStatus::Waiting | TaskStatus::Compensating);
    let was_woken = sleeps && row.lease_owner.is_none();
    if row.due_at != folded.due_at && !(was_woken && row.due_at < folded.due_at) {
        found.push(said("due_at", &time(&row.due_at), &time(&folded.due_at)));
    }
    let seal = |row: &TaskRow| {
        row.audit_seal
            .as_ref()
            .map_or_else(nothing, ToString::to_string)
    };
    if row.audit_seal != folded.audit_seal {
        found.push(said("audit_seal", &seal(row), &seal(folded)));
    }
    // The row's is computed from the time at which the task was read, and a sweep may put it off.
    if row.sweep_at.is_some() != folded.sweep_at.is_some() {
        found.push(said(
            "sweep_at",
            &time(&row.sweep_at),
            &time(&folded.sweep_at),
        ));
    }
    // A heartbeat leaves no row in the journal: only that there is a lease can be compared.
    if row.lease_expires_at.is_some() != folded.lease_expires_at.is_some() {
        found.push(said(
            "lease_expires_at",
            &time(&row.lease_expires_at),
            &time(&folded.lease_expires_at),
        ));
    }
    found
}

fn said(column: &str, row: &str, folded: &str) -> String {
    format!(
        "{column} is {} in the task's row and {} in its journal",
        short(row),
        short(folded)
    )
}

fn nothing() -> String {
    "nothing".to_owned()
}

/// As JSON.
fn value(value: &impl Serialize) -> String {
    match serde_json::to_string(value) {
        Ok(text) if text != "null" => text,
        _ => nothing(),
    }
}

fn moment(time: &DbTime) -> String {
    rfc3339(*time)
}

fn time(time: &Option<DbTime>) -> String {
    time.map_or_else(nothing, rfc3339)
}

fn short(text: &str) -> String {
    /// Maximum characters of a value that are shown.
    const MOST: usize = 200;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
