//! A reason with nothing but its code and its words, to which others add what they know; and the steps in a state.

use crate::record::TaskRecord;
use counterstep_contracts::StepStatus;
use counterstep_contracts::operator::{WhyCode, WhyReason};

pub(super) fn reason(code: WhyCode, detail: String) -> WhyReason {
    WhyReason {
        code,
        detail,
        until: None,
        owner: None,
        owner_state: None,
        queue: None,
        steps: Vec::new(),
        tasks: Vec::new(),
        waiting_for: None,
    }
}

pub(super) fn steps(record: &TaskRecord, of: impl Fn(StepStatus) -> bool) -> Vec<String> {
    record
        .steps
        .iter()
        .filter(|row| of(row.status))
        .map(|row| row.name.clone())
        .collect()
}
