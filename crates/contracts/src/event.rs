//! The events about a task that other services receive: one event for each audit entry, in the envelope of
//! CloudEvents 1.0.
//!
//! States, names and labels only. Requests, outputs, error texts and operators' notes stay in the database:
//! who may subscribe to a subject is decided elsewhere than who may read a task.

use crate::ids::{Attempt, AuditSeq, Epoch, StepNo, TaskId, Tenant};
use crate::labels::Labels;
use crate::state::{StepStatus, TaskStatus};
use serde::{Deserialize, Serialize};

/// One event of a task. Also the `data` of its CloudEvent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskEvent {
    /// Id of the task.
    pub task: TaskId,
    /// Its type's declared name.
    pub task_type: String,
    /// Its type's version.
    pub version: u32,
    /// Tenant that owns it.
    pub tenant: Tenant,
    /// Its place among the task's events, from 1, without gaps. They may arrive in another order,
    /// and more than once.
    pub seq: AuditSeq,
    /// The event's stable name, as in the audit.
    pub event: String,
    /// The task's states.
    pub status: StatusChange,
    /// The step concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepChange>,
    /// The attempt concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Attempt>,
    /// The lease's fence number after the event.
    pub epoch: Epoch,
    /// Who caused it: `client`, an operator, or the id of a process.
    pub actor: String,
    /// What it was labelled with when it was submitted.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// W3C `traceparent` of the request that submitted the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

/// A task's states around an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusChange {
    /// Before; `None` for the first event.
    pub from: Option<TaskStatus>,
    /// State after the change.
    pub to: TaskStatus,
}

/// A step's states around an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepChange {
    /// Number of the step.
    pub no: StepNo,
    /// Name of the step.
    pub name: String,
    /// State before the change.
    pub from: Option<StepStatus>,
    /// State after the change.
    pub to: Option<StepStatus>,
}

impl TaskEvent {
    /// `{task}/{seq}`: the same each time that the event is published.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}/{}", self.task, self.seq)
    }
}

/// A [`TaskEvent`] as it is published: CloudEvents 1.0, structured mode, JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloudEvent {
    /// `1.0`.
    pub specversion: String,
    /// [`TaskEvent::id`].
    pub id: String,
    /// `/counterstep/{task type}`.
    pub source: String,
    /// `counterstep.task.{event}`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The task's id.
    pub subject: String,
    /// When the change was committed, by the database's clock; RFC 3339.
    pub time: String,
    /// `application/json`.
    pub datacontenttype: String,
    /// W3C trace context, as the extension for distributed tracing has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// What happened.
    pub data: TaskEvent,
}

impl CloudEvent {
    /// The envelope of an event that was committed at `time`, an RFC 3339 text.
    #[must_use]
    pub fn new(event: TaskEvent, time: String) -> Self {
        Self {
            specversion: "1.0".to_owned(),
            id: event.id(),
            source: format!("/counterstep/{}", event.task_type),
            kind: format!("counterstep.task.{}", event.event),
            subject: event.task.to_string(),
            time,
            datacontenttype: "application/json".to_owned(),
            traceparent: event.traceparent.clone(),
            data: event,
        }
    }
}
