//! What stands before a submission. Which types are disabled is remembered for a moment, so that a
//! submission of a type that is not costs no question of its own.

use super::judge::{Admission, admit};
use crate::client::SubmitError;
use crate::documents::TypedDocuments;
use crate::engine::Engine;
use crate::ports::{StoreError, TypeRow};
use crate::task::TaskType;
use counterstep_contracts::TaskId;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

/// What was read is believed for so long. A type that another process has disabled takes
/// submissions here until then.
const BELIEVED: Duration = Duration::from_secs(1);

/// Which types were disabled when they were last read.
#[derive(Debug, Default)]
pub(crate) struct Gate(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// By the monotonic clock.
    at: Option<Duration>,
    disabled: BTreeSet<String>,
}

impl Gate {
    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        // Nothing is left half-done under this lock: a set is replaced whole.
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Whether it is disabled, as far as is known; `None`: the caller has to read the types.
    fn remembers(&self, name: &str, now: Duration) -> Option<bool> {
        let mut seen = self.seen();
        let known = seen.at.is_some_and(|at| now.saturating_sub(at) < BELIEVED);
        if known {
            return Some(seen.disabled.contains(name));
        }
        // The others go by what was known before, and do not all ask the same; at the start nothing
        // is.
        if seen.at.is_some() {
            seen.at = Some(now);
        }
        None
    }

    fn learn(&self, rows: &[TypeRow], now: Duration) {
        let disabled = rows
            .iter()
            .filter(|row| row.disabled.is_some())
            .map(|row| row.name.clone())
            .collect();
        *self.seen() = Seen {
            at: Some(now),
            disabled,
        };
    }

    /// The types have to be read again.
    pub(super) fn forget(&self) {
        self.seen().at = None;
    }
}

/// Why a task type takes no submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The type's declared name.
    pub task_type: String,
    /// Why it is disabled.
    pub reason: String,
    /// Who did it.
    pub by: String,
    /// Until the next submission is taken as a probe, as far as that is known.
    pub retry_after: Option<Duration>,
    /// Whether a probe is under way.
    pub probing: bool,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is disabled by {}: {}",
            self.task_type, self.by, self.reason
        )?;
        match self {
            Self { probing: true, .. } => {
                write!(f, "; a probe is under way: what becomes of it decides")
            }
            Self {
                retry_after: Some(_),
                ..
            } => write!(f, "; after its cooldown one task is taken as a probe"),
            Self {
                retry_after: None, ..
            } => write!(f, "; it takes tasks again once an operator enables it"),
        }
    }
}

impl Engine {
    /// Whether a type takes the task of this id. A probe is written down before its first byte is
    /// taken.
    pub(crate) async fn admit(
        &self,
        task_type: &TaskType,
        task: TaskId,
    ) -> Result<Option<TypeRow>, SubmitError> {
        let name = task_type.decl.name;
        loop {
            let now = self.ports.clock.monotonic();
            match self.gate.remembers(name, now) {
                Some(false) => return Ok(None),
                Some(true) => {}
                None => {
                    let read = self
                        .ports
                        .store
                        .types()
                        .await
                        .inspect_err(|_| self.gate.forget())?;
                    self.gate.learn(&read.rows, now);
                    if read
                        .rows
                        .iter()
                        .all(|row| row.name != name || row.disabled.is_none())
                    {
                        return Ok(None);
                    }
                }
            }
            // What follows is about one row as it is now. A probe that has come to rest decides
            // first.
            let Some((row, now)) = self.settled_row(task_type).await? else {
                self.gate.forget();
                return Ok(None);
            };
            match admit(&row, task, now) {
                Admission::Open => {
                    self.gate.forget();
                    return Ok(None);
                }
                Admission::Closed {
                    retry_after,
                    probing,
                } => {
                    let TypeRow {
                        name, reason, by, ..
                    } = row;
                    let refusal = Refusal {
                        task_type: name,
                        reason,
                        by,
                        retry_after,
                        probing,
                    };
                    return Err(SubmitError::Disabled(refusal));
                }
                Admission::AsProbe(row) => {
                    if self.ports.store.put_type(&row).await? {
                        tracing::info!(task_type = name, %task, "a disabled task type takes a probe");
                        return Ok(Some(row));
                    }
                    // Another writer was faster: read what it wrote.
                }
            }
        }
    }

    /// The same for a request that took its time to arrive: the type may have been disabled
    /// meanwhile, or another probe taken in place of this one. Returns the row of the probe that it
    /// is then.
    pub(crate) async fn admit_late(
        &self,
        task_type: &TaskType,
        task: TaskId,
        probe: Option<TypeRow>,
    ) -> Result<Option<TypeRow>, SubmitError> {
        let Some(probe) = probe else {
            return self.admit(task_type, task).await;
        };
        let now = self
            .ports
            .store
            .types()
            .await?
            .rows
            .into_iter()
            .find(|row| row.name == probe.name);
        let is_still = |row: &TypeRow| {
            row.disabled
                .is_none_or(|disabled| disabled.probe.is_some_and(|(probe, _)| probe == task))
        };
        if now.as_ref().is_none_or(is_still) {
            Ok(Some(probe))
        } else {
            self.admit(task_type, task).await
        }
    }

    /// A probe that came to nothing before it was a task: the next submission may be one. Best
    /// effort: a probe that is not there is given up after a while.
    pub(crate) async fn give_up_probe(&self, mut row: TypeRow) {
        if let Some(disabled) = &mut row.disabled {
            disabled.probe = None;
        }
        row.rev = row.rev.next();
        let written: Result<bool, StoreError> = self.ports.store.put_type(&row).await;
        if let Err(error) = written {
            tracing::warn!(task_type = row.name, %error, "a probe that came to nothing was not given up yet");
        }
    }
}
