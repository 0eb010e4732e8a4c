//! A reason with nothing but its code and its words, to which others add what they know; and the steps in a state.

use crate::record::TaskRecord;
use counterstep_contracts::StepStatus;
use counterstep_contracts::operator::{OperatorMove, Why, WhyCode, WhyReason};
use counterstep_contracts::retry::format_duration;
use std::time::Duration;

/// How long it has been so, in whole seconds: the rest is of no use to a person.
pub(super) fn lasted(time: Duration) -> String {
    match time.as_secs() {
        0 => "less than a second".to_owned(),
        seconds => format_duration(Duration::from_secs(seconds)),
    }
}

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

/// A wait for another task: what that one waits for first, until when, and what ends it.
pub(super) fn with_other(
    mut reason: WhyReason,
    other: Option<&Why>,
) -> (WhyReason, Option<OperatorMove>) {
    let Some((why, first)) = other.and_then(|why| Some((why, why.because.first()?))) else {
        return (reason, None);
    };
    reason.detail += &format!("; {} is {}: {}", why.task_id, why.status, first.detail);
    if !reason.tasks.contains(&why.task_id) {
        reason.tasks.push(why.task_id);
    }
    reason.until = reason.until.or_else(|| first.until.clone());
    (reason, first_move(why).cloned())
}

/// What ends the first reason of a task; `None`: time does, or work.
pub(super) fn first_move(why: &Why) -> Option<&OperatorMove> {
    let first = why.because.first()?.code;
    why.operator_can.iter().find(|can| can.ends == Some(first))
}
