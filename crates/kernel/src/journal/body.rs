//! The two texts of a row in the journal, as they are written and read: form 3, and what
//! rows of older forms have in common with it. Must not interpret what they say.

use super::patch::{Shift, StepPatch, TaskPatch, some};
use crate::change::transition::{AttemptWrite, ObjectsFate};
use crate::record::{SignalRow, StepFailure};
use counterstep_contracts::{
    Attempt, AuditSeq, Direction, Epoch, Outcome, StepNo, StepStatus, TaskStatus,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// What happened.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Body {
    /// Events in the order in which they happened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) events: Vec<EventBody>,
    /// In order, after those that events say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) attempts: Vec<AttemptBody>,
    /// Fields of the task that neither events nor attempts imply.
    #[serde(default, skip_serializing_if = "TaskPatch::is_empty")]
    pub(super) task: TaskPatch,
    /// Fields of steps that neither events nor attempts imply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) steps: Vec<StepBody>,
    /// The lease; absent: it stays. `null`: released.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some"
    )]
    pub(super) lease: Option<Option<LeaseBody>>,
    /// When it goes on.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some"
    )]
    pub(super) due: Shift,
    /// After this no forward step starts.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some"
    )]
    pub(super) deadline: Shift,
    /// A cancel was accepted; counts once.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some"
    )]
    pub(super) cancel_requested: Shift,
    /// It came to a terminal state.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some"
    )]
    pub(super) finished: Shift,
    /// Lower-case hexadecimal SHA-256 of the row's `data`; absent: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<String>,
    /// The id of the payload key that the row was written with; absent: with none. From the first row with one on, the data of
    /// the task are encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<String>,
}

/// What one event did. The first of a row says its number and the state before it; of the others
/// these follow from the event before, and actor and epoch are those of the row, unless one says
/// otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct EventBody {
    pub(super) event: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) seq: Option<AuditSeq>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some"
    )]
    pub(super) from: Option<Option<TaskStatus>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) to: Option<TaskStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) step: Option<StepNo>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some"
    )]
    pub(super) step_from: Option<Option<StepStatus>>,
    /// Absent: as the event's name implies.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some"
    )]
    pub(super) step_to: Option<Option<StepStatus>>,
    /// Absent: as the event's name implies.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some"
    )]
    pub(super) attempt: Option<Option<Attempt>>,
    /// The attempt starts with it, with the intent of its objects: microseconds after the time of
    /// the row; from then on a sweep may condemn what no success has kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sweep_after: Option<u64>,
    /// The attempt succeeds with it, and what becomes of its objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) kept: Option<ObjectsFate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) epoch: Option<Epoch>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) actor: Option<String>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(super) details: Value,
}

/// Who holds the task, and for how many microseconds without a heartbeat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct LeaseBody {
    /// Absent: the actor of the row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) owner: Option<String>,
    pub(super) ttl: u64,
}

/// Which attempt of which step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Which {
    pub(super) step: StepNo,
    pub(super) attempt: Attempt,
    #[serde(default = "forward", skip_serializing_if = "is_forward")]
    pub(super) direction: Direction,
}

const fn forward() -> Direction {
    Direction::Forward
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
const fn is_forward(direction: &Direction) -> bool {
    matches!(direction, Direction::Forward)
}

/// What became of an attempt, where no event of the row says it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AttemptBody {
    /// It started: the intent of its objects.
    Start {
        #[serde(flatten)]
        which: Which,
        /// Microseconds after the time of the row; from then on a sweep may condemn what no success
        /// has kept.
        sweep_after: u64,
        /// Absent: that of the row.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        epoch: Option<Epoch>,
    },
    /// It ended.
    End {
        #[serde(flatten)]
        which: Which,
        outcome: Outcome,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<StepFailure>,
        kept: ObjectsFate,
    },
    /// Its objects are an output after all.
    Keep(Which),
    /// What the attempts of a step kept is open to the sweep again.
    Release { step: StepNo },
    /// No success can keep its objects any more.
    Condemn(Which),
    /// Its prefix is empty.
    Swept(Which),
}

impl AttemptBody {
    /// The write that it records, in a row of this epoch.
    pub(super) fn write(self, row: Epoch) -> AttemptWrite {
        match self {
            Self::Start {
                which:
                    Which {
                        step,
                        attempt,
                        direction,
                    },
                sweep_after,
                epoch,
            } => {
                let (epoch, sweep_after) =
                    (epoch.unwrap_or(row), Duration::from_micros(sweep_after));
                AttemptWrite::Start {
                    step,
                    direction,
                    attempt,
                    epoch,
                    sweep_after,
                }
            }
            Self::End {
                which:
                    Which {
                        step,
                        attempt,
                        direction,
                    },
                outcome,
                error,
                kept,
            } => AttemptWrite::End {
                step,
                direction,
                attempt,
                outcome,
                error,
                kept,
            },
            Self::Keep(Which { step, attempt, .. }) => AttemptWrite::Keep { step, attempt },
            Self::Release { step } => AttemptWrite::Release { step },
            Self::Condemn(Which {
                step,
                attempt,
                direction,
            }) => AttemptWrite::Condemn {
                step,
                direction,
                attempt,
            },
            Self::Swept(Which {
                step,
                attempt,
                direction,
            }) => AttemptWrite::Swept {
                step,
                direction,
                attempt,
            },
        }
    }
}

/// Fields of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct StepBody {
    pub(super) no: StepNo,
    #[serde(flatten)]
    pub(super) patch: StepPatch,
    /// Its output does not count any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) output_gone: bool,
    /// Its signal does not count any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) signal_gone: bool,
}

/// What clients and steps handed in.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Data {
    /// In a row behind the first: the one that takes the place of the request before.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some"
    )]
    pub(super) request: Option<Value>,
    /// The client's `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client_key: Option<String>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some"
    )]
    pub(super) response: Option<Value>,
    /// By step.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) outputs: BTreeMap<StepNo, Value>,
    /// By step.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) signals: BTreeMap<StepNo, SignalRow>,
    /// Details of the events at these places of the row, which say what was handed in.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) details: BTreeMap<usize, Value>,
}

/// What a check of the chain needs of the entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Named {
    /// The number of its first event, and the state before that; `None`: there is no event.
    pub first: Option<(i64, Option<String>)>,
    /// The number of its last event.
    pub last: Option<i64>,
    /// The state in which the row leaves the task; `None`: as it was before it.
    pub status: Option<String>,
    /// The digest of its data.
    pub data: Option<String>,
    /// The payload key that it was written with.
    pub key: Option<String>,
}

/// Reads what a check of the chain needs; `None`: the entries cannot be read.
#[must_use]
pub fn named(entries: &str) -> Option<Named> {
    let body: Body = serde_json::from_str(entries).ok()?;
    let last = body.events.iter().rev().find_map(|event| event.to);
    let word = |status: TaskStatus| status.as_str().to_owned();
    let status = body.task.status.or(last).map(word);
    let (mut number, mut first) = (None, None);
    for event in &body.events {
        let seq = event
            .seq
            .map(|seq| seq.0)
            .or(number.map(|before: i64| before.saturating_add(1)))?;
        number = Some(seq);
        if first.is_none() {
            first = Some((seq, event.from?.map(word)));
        }
    }
    Some(Named {
        first,
        last: number,
        status,
        data: body.data,
        key: body.key,
    })
}
