//! What travels on the queue. Ids and hints only: the row decides, and a host reads it before
//! it acts.

use crate::ids::{Rev, TaskId, Tenant};
use serde::{Deserialize, Serialize};

/// Tells a host that a task is ready to be claimed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerMessage {
    /// Id of the task.
    pub task: TaskId,
    /// Tenant of the task. Left out by earlier versions, and where the sender has not read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Tenant>,
    /// Its type's declared name.
    pub task_type: String,
    /// Its type's version.
    pub version: u32,
    /// The revision of the task that it tells of; `{task}:{rev}` identifies the message.
    pub rev: Rev,
    /// W3C `traceparent`: of the publication, where the process that has published it records traces;
    /// or else of the submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// The outputs of the steps that have run so far, by step name, for consumers outside
    /// Counterstep. The engine never reads them.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub outputs: serde_json::Map<String, serde_json::Value>,
}

impl WorkerMessage {
    /// `{task}:{rev}`: the same for a redelivery, another one for each dispatch.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}:{}", self.task, self.rev)
    }
}
