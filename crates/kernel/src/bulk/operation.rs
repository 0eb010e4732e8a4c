//! A bulk operation as a document: what is to be done with which tasks, its progress, and when a process may
//! continue it. Must not change a task.

use super::decided::Tasks;
use super::error::BulkError;
use super::outcome::{Chosen, Outcome, short};
use super::pacing::Pacing;
use crate::client::RunAgain;
use crate::client::request_edit::RequestEdit;
use crate::dead_letters::Selection;
use crate::documents::{read_document, write_document};
use crate::ports::{
    Document, DocumentChange, DocumentKind, DocumentQuery, DocumentWrite, Store, StoreError,
};
use crate::record::DbTime;
use crate::times::rfc3339;
use counterstep_contracts::SettledAs;
use counterstep_contracts::bulk::{BulkAction, BulkFilter, BulkStatus, BulkView};
use counterstep_contracts::pace::{BulkFailure, Pace, PausedFor};
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
    /// How fast it goes, and where it pauses by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
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
    /// Where it stands at its pace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pacing: Option<Pacing>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    paused_for: Option<PausedFor>,
    /// When it was started or last resumed, and how many tasks had had their turn then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    goes_since: Option<(DbTime, u64)>,
    #[serde(default)]
    pub(super) tasks: Tasks,
}

/// One operation, and the time at which it was read.
pub(super) async fn find(
    store: &Store,
    tenant: &Tenant,
    id: &str,
) -> Result<(Document, Operation, DbTime), BulkError> {
    let query = DocumentQuery::Named {
        kind: KIND,
        tenant: tenant.clone(),
        names: vec![id.to_owned()],
    };
    let found = store.documents(&query).await?;
    let document = found.rows.into_iter().next().ok_or(BulkError::Gone)?;
    let operation = Operation::read(&document)?;
    Ok((document, operation, found.now))
}

impl Operation {
    pub(super) fn new(spec: BulkSpec, total: Option<u64>, created_at: DbTime) -> Self {
        Self {
            pacing: spec.pace.map(Pacing::new),
            paused_for: None,
            goes_since: Some((created_at, 0)),
            tasks: Tasks::default(),
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
        let mut operation: Self = read_document(KIND, &document.body)?;
        if let (Some(pacing), Some(pace)) = (&mut operation.pacing, operation.spec.pace) {
            pacing.pace = pace;
        }
        Ok(operation)
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

    /// The pages of its tasks that are to be written with it.
    pub(super) fn take_pages(&mut self, id: &str) -> Result<Vec<DocumentWrite>, StoreError> {
        let has_ended = self.status.has_ended();
        self.tasks
            .take_pages(&self.spec.selection.tenant, id, has_ended)
    }

    pub(super) const fn tenant(&self) -> &Tenant {
        &self.spec.selection.tenant
    }

    /// Counts what became of the tasks of the slice, and ends it.
    pub(super) fn count(&mut self, outcomes: &[(Chosen, Outcome)]) {
        self.tasks.add(outcomes);
        if let Some(pacing) = &mut self.pacing {
            pacing.count(self.slice.len(), outcomes);
        }
        for (chosen, outcome) in outcomes {
            match outcome {
                Outcome::Done { .. } => self.done += 1,
                Outcome::Skipped => self.skipped += 1,
                Outcome::AlreadyRunAgain => self.already_run_again += 1,
                Outcome::Counted => {}
                Outcome::Undecided(_) => self.undecided.push(*chosen),
                Outcome::Failed(reason) => {
                    self.failed += 1;
                    if self.failures.len() < MOST_FAILURES {
                        self.failures.push(BulkFailure {
                            task_id: chosen.task,
                            reason: short(reason),
                        });
                    }
                }
            }
        }
        self.slice.clear();
        self.owner = None;
        self.status = match self.status {
            BulkStatus::Stopping => BulkStatus::Stopped,
            BulkStatus::Running | BulkStatus::Paused
                if self.is_last && self.undecided.is_empty() =>
            {
                BulkStatus::Done
            }
            status => status,
        };
        if self.status.has_ended() {
            self.paused_for = None;
        }
        self.pause_where_it_should();
        if !self.is_at_undecided() {
            self.undecided_since = None;
        }
    }

    /// Pauses it after its sample, or where too many tasks have failed.
    pub(super) fn pause_where_it_should(&mut self) {
        let why = self.pacing.as_ref().and_then(Pacing::pauses_for);
        // Also where a person has paused it before its slice had ended: that is what they resume.
        let is_open = matches!(self.status, BulkStatus::Running | BulkStatus::Paused);
        if let Some(why) = why.filter(|_| is_open) {
            self.pause(why);
        }
    }

    pub(super) fn stop(&mut self) {
        self.paused_for = None;
        self.status = match self.slice.is_empty() {
            true => BulkStatus::Stopped,
            false => BulkStatus::Stopping,
        };
    }

    pub(super) fn pause(&mut self, why: PausedFor) {
        self.status = BulkStatus::Paused;
        self.paused_for = Some(why);
        if let Some(pacing) = &mut self.pacing {
            pacing.waits_for = None;
        }
    }

    pub(super) fn resume(&mut self, now: DbTime) {
        self.status = BulkStatus::Running;
        self.paused_for = None;
        self.goes_since = Some((now, self.gone()));
        // Other processes had no look at them while it was paused.
        self.undecided_since = None;
        if let Some(pacing) = &mut self.pacing {
            pacing.resume();
        }
    }

    /// Maximum number of tasks of the next slice, where there is no other bound.
    pub(super) fn most(&self, of_action: usize) -> usize {
        let paced = self.pacing.as_ref().map_or(usize::MAX, Pacing::slice);
        of_action.min(paced)
    }

    /// Tasks that have had their turn.
    const fn gone(&self) -> u64 {
        self.done + self.failed + self.skipped + self.already_run_again
    }

    fn left(&self) -> Option<u64> {
        match self.status {
            BulkStatus::Done => Some(0),
            _ => self.total.map(|total| total.saturating_sub(self.gone())),
        }
    }

    /// When it will have ended, by its pace, or as it has gone so far.
    fn expected_end(&self, now: DbTime) -> Option<DbTime> {
        let left = u32::try_from(self.left()?).ok()?;
        let waits = self
            .pacing
            .as_ref()
            .is_some_and(|it| it.waits_for.is_some());
        if self.status != BulkStatus::Running || waits {
            return None;
        }
        if let Some(rate) = self.pacing.as_ref().and_then(|it| it.pace.per_minute) {
            return Some(now.later(Duration::from_secs(60) * left / rate));
        }
        let (since, before) = self.goes_since?;
        let gone = u32::try_from(self.gone() - before).ok()?;
        let took = Duration::from_micros(u64::try_from(now.0 - since.0).ok()?);
        let each = took.checked_div(gone)?;
        Some(now.later(each.saturating_mul(left)))
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
        match self.status {
            // One that no person resumes is stopped then.
            BulkStatus::Stopped | BulkStatus::Done | BulkStatus::Paused => now.later(LISTED),
            BulkStatus::Running | BulkStatus::Stopping => {
                self.pacing.as_ref().map_or(now, |pacing| pacing.next(now))
            }
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
        let runs_again = self.spec.action == BulkAction::RunAgain;
        let waits_for = self.pacing.as_ref().and_then(|it| it.waits_for.clone());
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
            pace: self.spec.pace,
            status: self.status,
            paused_for: self.paused_for,
            gone_wrong: self.pacing.as_ref().map(|it| it.failures),
            waits_for: waits_for.filter(|_| self.status == BulkStatus::Running),
            expected_end: self.expected_end(document.seen_at).map(rfc3339),
            done: self.done,
            failed: self.failed,
            skipped: self.skipped,
            already_run_again: runs_again.then_some(self.already_run_again),
            left: self.left(),
            failures: self.failures.clone(),
            results: None,
            created_at: rfc3339(self.created_at),
            updated_at: rfc3339(document.seen_at),
        }
    }
}
