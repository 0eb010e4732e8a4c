//! What a task sleeps for before it starts or goes on, as data: the places of a key ask for it before its claim, breakers and
//! limits before a step. Decides nothing, and asks nothing.

use crate::admission::limits::LimitKey;
use crate::record::TaskRow;
use counterstep_contracts::{Limit, WaitReason};
use serde_json::{Value, json};
use std::time::Duration;

/// What holds a task back, in the order in which it is asked.
// Few tasks beside it are asked for after its place, and room for heavy steps between its breakers and its limits. They are no gates:
// a task that lacks them stays in the queue, and nothing is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Another submission of its key may come, and replace it. By the name of the limit of its type.
    Debounce(String),
    /// As many tasks of its key are under way as may be.
    Place {
        /// The name of the limit of its type.
        limit: String,
        at_once: u32,
    },
    /// What the breaker of this key stands for is down.
    Breaker(String),
    /// Other attempts use up the limit of this record.
    Limit(String),
}

/// A task, or one of its steps, is held back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) gate: Gate,
    /// Until the gate is asked again.
    pub(crate) left: Duration,
}

impl Hold {
    /// By a limit.
    pub(crate) fn of_limit(limit: &Limit, task: &TaskRow, left: Duration) -> Self {
        let gate = Gate::Limit(LimitKey::of(limit, task).to_string());
        Self { gate, left }
    }

    /// How the journal has it.
    pub(crate) fn written(&self) -> (WaitReason, Value) {
        match &self.gate {
            Gate::Debounce(limit) => (WaitReason::Debounce, json!({"limit": limit})),
            Gate::Place { limit, at_once } => (
                WaitReason::Concurrency,
                json!({"limit": limit, "at_once": at_once}),
            ),
            Gate::Breaker(key) => (WaitReason::Breaker, json!({"breaker": key})),
            Gate::Limit(key) => (WaitReason::Limit, json!({"limit": key})),
        }
    }
}
