//! The row of a task beside what its journal folds to.

use crate::record::TaskRow;
use std::fmt::Debug;

/// Each column that is another one in the task's row than in the fold of its journal, in words. What was handed in stands in
/// the journal only.
pub(super) fn differences(row: &TaskRow, folded: &TaskRow) -> Vec<String> {
    let mut found = Vec::new();
    macro_rules! columns {
        ($($column:ident)+) => {
            $(if row.$column != folded.$column {
                found.push(said(stringify!($column), &row.$column, &folded.$column));
            })+
        };
    }
    columns! {
        id tenant task_type version definition_hash status waiting host queue rev epoch lease_owner due_at deadline_at
        cancel_requested_at goal recovery_attempts audit_seq audit_seal failure residue traceparent created_at updated_at
        finished_at change_id
    }
    // The row's is computed from the time at which the task was read, and a sweep may put it off.
    if row.sweep_at.is_some() != folded.sweep_at.is_some() {
        found.push(said("sweep_at", &row.sweep_at, &folded.sweep_at));
    }
    // A heartbeat leaves no row in the journal: only that there is a lease can be compared.
    if row.lease_expires_at.is_some() != folded.lease_expires_at.is_some() {
        found.push(said("lease_expires_at", &row.lease_expires_at, &folded.lease_expires_at));
    }
    found
}

fn said(column: &str, row: &dyn Debug, folded: &dyn Debug) -> String {
    format!("{column} is {} in the task's row and {} in its journal", short(row), short(folded))
}

fn short(value: &dyn Debug) -> String {
    /// Signs of a value that are shown.
    const MOST: usize = 200;
    let text = format!("{value:?}");
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
