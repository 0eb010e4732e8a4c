//! A bulk operation as a document: what is to be done with which tasks, its progress, and when a process may
//! continue it. Must not change a task.

use crate::audit::one_line;
use crate::client::RunAgain;
use crate::client::request_edit::RequestEdit;
use crate::dead_letters::Selection;
use crate::documents::{read_document, write_document};
use crate::ports::{Document, DocumentChange, DocumentKind, DocumentWrite, StoreError};
use crate::record::DbTime;
use crate::times::rfc3339;
use counterstep_contracts::SettledAs;
use counterstep_contracts::bulk::{BulkAction, BulkFailure, BulkFilter, BulkStatus, BulkView};
use counterstep_contracts::{Rev, TaskId, Tenant};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

pub(super) const KIND: DocumentKind = DocumentKind::Bulk;

/// How long no other process continues an operation after one has begun a slice of it. After that the process
/// counts as stopped.
pub(super) const CLAIM: Duration = Duration::from_secs(60);

/// How long an operation is listed after its end.
pub(super) const LISTED: Duration = Duration::from_secs(30 * 86_400);

/// About how many tasks on which no process could decide yet an operation keeps.
const MOST_UNDECIDED: usize = 1_000;

/// How long after the start of an operation its tasks on which no process could decide wait for a process
/// that can: a program that knows their version existed when they were submitted, and may be on its way to
/// the other hosts.
const DEPLOYED: Duration = Duration::from_secs(15 * 60);

/// Minimum of that wait, counted from when only such tasks were left: other processes may have them in work.
const HANDED_OVER: Duration = Duration::from_secs(60);

/// Maximum number of failures that are kept with their reason.
const MOST_FAILURES: usize = 20;

/// Maximum characters of a reason.
const LONGEST_REASON: usize = 300;

/// What a person asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkSpec {
    /// With each task.
    pub action: BulkAction,
    /// What has become of each task, with [`BulkAction::Resolve`].
    pub settled: Option<SettledAs>,
    /// What is to be different in the request of each, as a merge patch, with [`BulkAction::Redrive`] and
    /// [`BulkAction::RunAgain`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<Value>,
    /// The step from which each runs, with [`BulkAction::RunAgain`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Which tasks.
    pub selection: Selection,
    /// Reason, for the audit.
    pub note: String,
    /// Who, as the audits are to say it.
    pub actor: String,
}

impl BulkSpec {
    /// What is ordered of each task, with [`BulkAction::RunAgain`].
    pub(super) fn to_run_again(&self) -> RunAgain {
        RunAgain {
            from: self.from.clone(),
            edit: self.patch.clone().map(RequestEdit::Patch),
            actor: self.actor.clone(),
            note: self.note.clone(),
            key: None,
            traceparent: None,
            bulk: None,
        }
    }
}

/// A task of a slice, and the revision at which it was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Chosen {
    pub(super) task: TaskId,
    pub(super) rev: Rev,
}

/// What became of one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// Another writer has changed it.
    Skipped,
    /// A new task has run it again before, which is none of this operation.
    AlreadyRunAgain,
    /// The operation had cancelled it with a task below it, before it was chosen itself, and counted it then.
    Counted,
    /// This process cannot decide on it, and others may: why.
    Undecided(String),
    Failed(String),
}

impl Outcome {
    /// Why this process has not decided.
    pub(super) fn undecided(&self) -> Option<&str> {
        match self {
            Self::Undecided(why) => Some(why),
            Self::Done
            | Self::Skipped
            | Self::AlreadyRunAgain
            | Self::Counted
            | Self::Failed(_) => None,
        }
    }

    /// No other process has come that could decide.
    pub(super) fn give_up(&mut self) {
        if let Self::Undecided(why) = self {
            *self = Self::Failed(std::mem::take(why));
        }
    }
}

/// The body of the document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Operation {
    pub(super) spec: BulkSpec,
    pub(super) status: BulkStatus,
    pub(super) created_at: DbTime,
    /// `None`: too many to count.
    total: Option<u64>,
    /// Tasks from this one on have been chosen.
    pub(super) before: Option<TaskId>,
    /// There are no further ones.
    pub(super) is_last: bool,
    /// Those that are being worked on, or were when the process that did it ended.
    pub(super) slice: Vec<Chosen>,
    /// Who works on them.
    pub(super) owner: Option<String>,
    /// Those on which no process could decide yet: of another version than it knows, or with a key that it has not.
    /// They come again at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    undecided: Vec<Chosen>,
    /// Since when there is nothing else to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    undecided_since: Option<DbTime>,
    done: u64,
    failed: u64,
    skipped: u64,
    #[serde(default)]
    already_run_again: u64,
    failures: Vec<BulkFailure>,
}

impl Operation {
    pub(super) fn new(spec: BulkSpec, total: Option<u64>, created_at: DbTime) -> Self {
        Self {
            spec,
            status: BulkStatus::Running,
            created_at,
            total,
            before: None,
            is_last: false,
            slice: Vec::new(),
            owner: None,
            undecided: Vec::new(),
            undecided_since: None,
            done: 0,
            failed: 0,
            skipped: 0,
            already_run_again: 0,
            failures: Vec::new(),
        }
    }

    pub(super) fn read(document: &Document) -> Result<Self, StoreError> {
        read_document(KIND, &document.body)
    }

    /// As a write over a revision; 0: its first.
    pub(super) fn write(
        &self,
        id: &str,
        over: Rev,
        due_at: DbTime,
    ) -> Result<DocumentWrite, StoreError> {
        Ok(DocumentWrite {
            kind: KIND,
            tenant: self.tenant().clone(),
            name: id.to_owned(),
            expected: Some(over),
            change: DocumentChange::Put {
                body: write_document(KIND, self)?,
                due_at: Some(due_at),
            },
        })
    }

    pub(super) const fn tenant(&self) -> &Tenant {
        &self.spec.selection.tenant
    }

    /// Counts what became of the tasks of the slice, and ends it.
    pub(super) fn count(&mut self, outcomes: &[(Chosen, Outcome)]) {
        for (chosen, outcome) in outcomes {
            match outcome {
                Outcome::Done => self.done += 1,
                Outcome::Skipped => self.skipped += 1,
                Outcome::AlreadyRunAgain => self.already_run_again += 1,
                Outcome::Counted => {}
                Outcome::Undecided(_) => self.undecided.push(*chosen),
                Outcome::Failed(reason) => {
                    self.failed += 1;
                    if self.failures.len() < MOST_FAILURES {
                        let reason = one_line(reason);
                        let reason = reason.chars().take(LONGEST_REASON).collect();
                        self.failures.push(BulkFailure {
                            task_id: chosen.task,
                            reason,
                        });
                    }
                }
            }
        }
        self.slice.clear();
        self.owner = None;
        self.status = match self.status {
            BulkStatus::Stopping => BulkStatus::Stopped,
            BulkStatus::Running if self.is_last && self.undecided.is_empty() => BulkStatus::Done,
            status => status,
        };
        if !self.is_at_undecided() {
            self.undecided_since = None;
        }
    }

    /// Whether those come next on which no process could decide yet: there are no others, or the document has no room
    /// for more of them.
    pub(super) const fn is_at_undecided(&self) -> bool {
        let is_full = self.undecided.len() >= MOST_UNDECIDED;
        is_full || (self.is_last && !self.undecided.is_empty())
    }

    /// Makes the first of them the next slice.
    pub(super) fn take_undecided(&mut self, most: usize, now: DbTime) {
        self.undecided_since.get_or_insert(now);
        let most = most.min(self.undecided.len());
        self.slice = self.undecided.drain(..most).collect();
    }

    /// Whether tasks on which a process cannot decide wait for another one.
    pub(super) fn waits(&self, now: DbTime) -> bool {
        self.undecided_since.is_none_or(|since| {
            let deployed = self.created_at.later(DEPLOYED);
            now < deployed.max(since.later(HANDED_OVER))
        })
    }

    /// When a process that does not execute it reads it again.
    pub(super) fn due(&self, now: DbTime) -> DbTime {
        if self.status.has_ended() {
            now.later(LISTED)
        } else {
            now
        }
    }

    pub(super) fn view(&self, document: &Document) -> BulkView {
        let Selection {
            tenant: _,
            task_type,
            statuses,
            labels,
            failure,
            group,
            since,
            until,
        } = self.spec.selection.clone();
        let time = |millis: u64| rfc3339(DbTime(i64::try_from(millis * 1_000).unwrap_or(i64::MAX)));
        let gone = self.done + self.failed + self.skipped + self.already_run_again;
        let runs_again = self.spec.action == BulkAction::RunAgain;
        let left = self.total.map(|total| total.saturating_sub(gone));
        BulkView {
            id: document.name.clone(),
            action: self.spec.action,
            settled: self.spec.settled,
            patch: self.spec.patch.clone(),
            from: self.spec.from.clone(),
            group,
            filter: BulkFilter {
                q: None,
                task_type,
                status: statuses,
                labels,
                failure_class: failure.class,
                failure_text: failure.text,
                since: since.map(time),
                until: until.map(time),
            },
            note: self.spec.note.clone(),
            actor: self.spec.actor.clone(),
            status: self.status,
            done: self.done,
            failed: self.failed,
            skipped: self.skipped,
            already_run_again: runs_again.then_some(self.already_run_again),
            left: if self.status == BulkStatus::Done {
                Some(0)
            } else {
                left
            },
            failures: self.failures.clone(),
            created_at: rfc3339(self.created_at),
            updated_at: rfc3339(document.seen_at),
        }
    }
}
