//! The spans of a task: which there are, and that all of them are in the task's trace, whichever
//! process they are of. The parent of the first is the `traceparent` in the task's row. Must not
//! decide anything about the task.
//!
//! Spans hold names, ids and classes. What clients and steps hand in, texts of errors included, is
//! for those who may read the task, and a collector is read by others.

use crate::change::transition::Transition;
use crate::context::Execution;
use crate::engine::Engine;
use crate::error::StepResult;
use crate::ports::QueueError;
use crate::record::TaskRow;
use crate::task::{TaskFacts, trace_id};
use counterstep_contracts::{Direction, Outcome, QueueName, TaskStatus, WorkerMessage};
use counterstep_steps::traces::TRACES;
use serde_json::Value;
use tracing::field::Empty;
use tracing::{Instrument, Span};

impl Engine {
    /// What is stored with a task that is submitted here: the trace of the span in which the caller
    /// runs, and where there is none, the one that the client has given.
    #[must_use]
    pub fn traceparent_of_submission(&self, given: Option<String>) -> Option<String> {
        self.traces.current().or(given)
    }

    /// Puts a span, before it is entered, into the trace of a task. One of a task without a trace is
    /// in that of the caller.
    fn join(&self, span: &Span, task: Option<&str>, sender: Option<&str>) {
        let (false, Some(task)) = (span.is_disabled(), task) else {
            return;
        };
        let caller = self.traces.current();
        if let Some(parent) = parent_of(task, caller.as_deref(), sender) {
            self.traces.set_parent(span, parent);
        }
    }

    /// Publishes a message that carries the trace of its publication.
    pub(crate) async fn publish_in_span(
        &self,
        queue: &QueueName,
        message: &WorkerMessage,
    ) -> Result<(), QueueError> {
        let span = tracing::debug_span!(
            target: TRACES,
            "publish",
            otel.name = format_args!("publish {queue}"),
            otel.kind = "producer",
            otel.status_code = Empty,
            task = %message.task,
            task_type = message.task_type,
            messaging.system = Empty,
            messaging.destination.name = %queue,
            "messaging.operation.type" = "send",
            messaging.message.id = message.id(),
        );
        self.join(&span, message.traceparent.as_deref(), None);
        let Some(traceparent) = self.traces.traceparent(&span) else {
            return self.ports.queue.publish(queue, message).await;
        };
        let message = WorkerMessage {
            traceparent: Some(traceparent),
            ..message.clone()
        };
        let publish = self.ports.queue.publish(queue, &message);
        let published = publish.instrument(span.clone()).await;
        if published.is_err() {
            span.record("otel.status_code", "error");
        }
        published
    }

    /// The span of a turn from its claim on; `message`: what offered the task, where a message did.
    pub(crate) fn turn_span(&self, task: &TaskRow, message: Option<&WorkerMessage>) -> Span {
        let span = tracing::debug_span!(
            target: TRACES,
            "turn",
            otel.name = format_args!("turn {}", task.task_type),
            otel.kind = "consumer",
            otel.status_code = Empty,
            task = %task.id,
            task_type = task.task_type,
            engine = %self.id,
            messaging.destination.name = task.queue,
            "messaging.operation.type" = "process",
            messaging.message.id = message.map(WorkerMessage::id),
            end = Empty,
            status = Empty,
        );
        let sender = message.and_then(|message| message.traceparent.as_deref());
        self.join(&span, task.traceparent.as_deref(), sender);
        span
    }

    /// The span of an execution of a step or its undo. Where it is part of a trace, `facts` get its
    /// `traceparent`: what the code calls is below it.
    pub(crate) fn attempt_span(&self, execution: &Execution, facts: &mut TaskFacts) -> Span {
        let Execution {
            task,
            step,
            direction,
            attempt,
            ..
        } = execution;
        let verb = match direction {
            Direction::Forward => "run",
            Direction::Undo => "undo",
        };
        let span = tracing::debug_span!(
            target: TRACES,
            "attempt",
            otel.name = format_args!("{verb} {step}"),
            otel.status_code = Empty,
            %task,
            task_type = facts.task_type,
            step,
            %direction,
            attempt = attempt.0,
            outcome = Empty,
            "error.type" = Empty,
        );
        self.enter_trace(span, facts)
    }

    /// The span of a probe.
    pub(crate) fn probe_span(&self, execution: &Execution, facts: &mut TaskFacts) -> Span {
        let span = tracing::debug_span!(
            target: TRACES,
            "probe",
            otel.name = format_args!("probe {}", execution.step),
            task = %execution.task,
            task_type = facts.task_type,
            step = execution.step,
            attempt = execution.attempt.0,
            found = Empty,
        );
        self.enter_trace(span, facts)
    }

    fn enter_trace(&self, span: Span, facts: &mut TaskFacts) -> Span {
        self.join(&span, facts.traceparent.as_deref(), None);
        if let Some(traceparent) = self.traces.traceparent(&span) {
            facts.traceparent = Some(traceparent);
        }
        span
    }
}

/// What a span of a task is below: the span in which the caller runs (`None`: it is that already), or
/// else that of the sender of a message, or else that of the submission. A caller and a sender of
/// another trace are not followed: a client that cancels, a message that another program wrote.
fn parent_of<'a>(task: &'a str, caller: Option<&str>, sender: Option<&'a str>) -> Option<&'a str> {
    let same = |other: &&str| trace_id(other) == trace_id(task);
    match caller.filter(same) {
        Some(_) => None,
        None => Some(sender.filter(same).unwrap_or(task)),
    }
}

/// Notes in the span of an execution how it has ended.
pub(crate) fn attempt_ended(span: &Span, outcome: Outcome, result: &StepResult<Value>) {
    span.record("outcome", outcome.as_str());
    if let Err(error) = result {
        span.record("error.type", error.class.as_str());
        span.record("otel.status_code", "error");
    }
}

/// The entries of a change that was committed, as events of the span that has brought it about: a
/// retry, a wait, the beginning of an undo. Of their details the class of an error and the delay.
pub(crate) fn change(engine: &Engine, transition: &Transition) {
    if !tracing::event_enabled!(target: TRACES, tracing::Level::DEBUG) {
        return;
    }
    let row = transition.task.as_ref().map(|write| &*write.row);
    let decl = row.and_then(|row| engine.registry.of(row));
    for entry in &transition.audit {
        let step = entry.step.zip(decl).and_then(|(no, task_type)| {
            let mut steps = task_type.decl.steps.iter();
            steps.find(|step| step.no == no).map(|step| step.name)
        });
        tracing::debug!(
            target: TRACES,
            task = %transition.task_id,
            from = entry.from.map(TaskStatus::as_str),
            to = entry.to.as_str(),
            step,
            attempt = entry.attempt.map(|attempt| attempt.0),
            "error.type" = entry.details["class"].as_str(),
            delay_ms = entry.details["delay_ms"].as_u64(),
            "{}",
            entry.event
        );
    }
}

#[cfg(test)]
mod tests {
    use super::parent_of;

    const TASK: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const SAME: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
    const OTHER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn neither_a_caller_nor_a_message_takes_a_task_out_of_its_trace() {
        for (caller, sender, parent) in [
            (None, None, Some(TASK)),
            (None, Some(SAME), Some(SAME)),
            (None, Some(OTHER), Some(TASK)),
            (Some(OTHER), None, Some(TASK)),
            (Some(OTHER), Some(SAME), Some(SAME)),
            (Some(SAME), None, None),
            (Some(SAME), Some(SAME), None),
        ] {
            assert_eq!(
                parent_of(TASK, caller, sender),
                parent,
                "{caller:?} {sender:?}"
            );
        }
    }
}
