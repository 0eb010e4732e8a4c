//! The check of a whole database: each journal is folded, its events are judged again, and the
//! result is compared with the task's row and, where that is asked for, with the objects that are
//! there. Reads page by page, beside those who write, and changes nothing.

mod again;
mod outputs;
mod places;
mod row;

use crate::audit::{Check, Damage, Finding, Part, Scope, Verified};
use counterstep_contracts::{StepStatus, TaskId};
use counterstep_kernel::change::intents::{self, IntentState};
use counterstep_kernel::journal::{Fold, JournalError, JournalWalk};
use counterstep_kernel::payloads::{decrypt_record, is_encrypted};
use counterstep_kernel::ports::{ChainRow, LoadFor, ObjectError, Objects, Store, StoreError};
use counterstep_kernel::record::{StepRow, TaskRecord, TaskRow};
use counterstep_steps::keys::{ObjectKey, task_prefix};
use counterstep_steps::task::Registry;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};

/// What was checked, and how it came out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// The chains, and all findings.
    #[serde(flatten)]
    pub verified: Verified,
    /// Objects that outputs refer to; 0 where they were not looked for.
    pub objects: u64,
    /// Tasks that this program cannot read, for want of a key or because a newer one has written to
    /// them: only their chains were checked.
    pub newer: u64,
    /// Tasks of a type, version or definition that this program does not have: their events were
    /// not judged again.
    pub not_judged: u64,
}

/// The check could not go on.
#[derive(Debug, Clone, thiserror::Error)]
pub enum FsckError {
    /// The database does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The object store does not answer.
    #[error("the objects cannot be listed: {0}")]
    Objects(#[from] ObjectError),
}

/// Checks every task, or one, and hands over what is wrong as it is found, some tasks at a
/// time. `registry`: what events are judged by. `objects`: where outputs have their objects;
/// `None`: they are not looked for.
///
/// # Errors
/// [`FsckError`]; what was found by then was handed over.
pub fn fsck<'a>(
    store: &'a Store,
    registry: &'a Registry,
    objects: Option<&'a dyn Objects>,
    scope: &'a Scope,
    found: &'a mut (dyn FnMut(Finding) + Send),
) -> BoxFuture<'a, Result<Checked, FsckError>> {
    Box::pin(async move {
        let mut check = Check::of(store, scope, found);
        let mut fsck = Fsck {
            store,
            registry,
            objects,
            found: Vec::new(),
            checked: Checked::default(),
        };
        let (mut task, mut ended) = (None::<Folded>, Vec::new());
        while let Some(row) = check.next().await? {
            if task.as_ref().is_none_or(|task| task.name != row.task) {
                ended.extend(task.take());
                task = Folded::begin(&row);
                if ended.len() >= TOGETHER {
                    let compared = fsck.compare(std::mem::take(&mut ended)).await;
                    fsck.hand_over(&mut check);
                    compared?;
                }
            }
            if let Some(task) = &mut task {
                fsck.push(task, &row);
                // Before the next read, which may fail.
                fsck.hand_over(&mut check);
            }
        }
        ended.extend(task);
        let compared = fsck.compare(ended).await;
        fsck.hand_over(&mut check);
        compared?;
        Ok(Checked {
            verified: check.finish().await?,
            ..fsck.checked
        })
    })
}

/// How many tasks are compared with their rows at a time.
const TOGETHER: usize = 16;

/// A task whose rows are being read.
struct Folded {
    /// Its id, as it stands in its rows.
    name: String,
    id: TaskId,
    fold: Fold,
    /// A row could not be applied: there is nothing to compare.
    is_over: bool,
}

impl Folded {
    /// `None`: what stands in the row is no id of a task, which the check of the chains finds.
    fn begin(row: &ChainRow) -> Option<Self> {
        let id = row.task.parse().ok()?;
        Some(Self {
            name: row.task.clone(),
            id,
            fold: Fold::with_history(id),
            is_over: false,
        })
    }
}

struct Fsck<'a> {
    store: &'a Store,
    registry: &'a Registry,
    objects: Option<&'a dyn Objects>,
    found: Vec<Finding>,
    checked: Checked,
}

impl Fsck<'_> {
    fn report(&mut self, task: &Folded, rev: Option<i64>, damage: Damage, says: String) {
        self.found.push(Finding {
            task: task.name.clone(),
            rev,
            damage,
            says,
        });
    }

    fn hand_over(&mut self, check: &mut Check<'_>) {
        self.found
            .drain(..)
            .for_each(|finding| check.report(finding));
    }

    /// Applies the next row of a task, and judges its events again.
    fn push(&mut self, task: &mut Folded, row: &ChainRow) {
        if task.is_over {
            return;
        }
        let Some(row) = row.journal_row() else {
            task.is_over = true;
            return self.report(
                task,
                Some(row.rev),
                Damage::Illegal(Part::Text),
                "its columns are none of a row".to_owned(),
            );
        };
        let before = again::Before::of(task.fold.record());
        match task.fold.push(&row) {
            Ok(()) => {}
            Err(JournalError::Newer { .. }) => {
                (task.is_over, self.checked.newer) = (true, self.checked.newer + 1);
                return;
            }
            Err(error) => {
                task.is_over = true;
                return self.report(
                    task,
                    Some(row.rev.0),
                    Damage::Illegal(Part::Text),
                    error.to_string(),
                );
            }
        }
        let events = task.fold.take_audit();
        let replaced = task.fold.take_replaced_outputs();
        if let Some(known) = self.registry.of(&*task.fold.record().task) {
            for says in again::illegal(known.decl, &before, task.fold.record(), &events) {
                self.report(task, Some(row.rev.0), Damage::Illegal(Part::State), says);
            }
            for says in outputs::not_lost(known.decl, &before, &events, &replaced) {
                self.report(task, Some(row.rev.0), Damage::Illegal(Part::Output), says);
            }
        }
    }

    /// Compares what tasks' rows were folded to with the rows of these tasks. They may have gone on
    /// meanwhile.
    async fn compare(&mut self, tasks: Vec<Folded>) -> Result<(), FsckError> {
        let ids: Vec<TaskId> = tasks
            .iter()
            .filter(|task| !task.is_over)
            .map(|task| task.id)
            .collect();
        if ids.is_empty() {
            return Ok(());
        }
        let rows = self.store.records(&ids, LoadFor::State).await?;
        let mut rows: HashMap<TaskId, _> = rows.into_iter().collect();
        let read: Vec<TaskRow> = rows
            .values()
            .filter_map(|record| Some(TaskRow::clone(&record.as_ref().ok()?.task)))
            .collect();
        for (task, says) in places::differences(self.store, &read).await? {
            self.finds(task.to_string(), Damage::RowDiffers(Part::Fields), says);
        }
        for mut task in tasks.into_iter().filter(|task| !task.is_over) {
            match rows.remove(&task.id) {
                // Retention has removed it meanwhile. Rows of a task that was never there are found
                // with the chains.
                None => {}
                Some(Err(StoreError::Unsupported(_))) => self.checked.newer += 1,
                Some(Err(StoreError::Corrupt(why))) => {
                    let says = format!("its row cannot be read with its journal: {why}");
                    self.report(&task, None, Damage::RowDiffers(Part::Fields), says);
                }
                Some(Err(error)) => return Err(error.into()),
                Some(Ok(record)) => {
                    self.catch_up(&mut task, &record).await?;
                    if !task.is_over {
                        self.compare_one(task, record).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Applies the rows that were written since, up to where the task's row was read.
    async fn catch_up(&mut self, task: &mut Folded, record: &TaskRecord) -> Result<(), StoreError> {
        let mut rows = JournalWalk::behind(self.store, task.id, task.fold.record().task.rev);
        while !task.is_over && task.fold.record().task.rev < record.task.rev {
            match rows.next().await? {
                Some(row) => self.push(task, &row),
                // Its end is cut off, which the check of the chains finds.
                None => task.is_over = true,
            }
        }
        Ok(())
    }

    async fn compare_one(&mut self, task: Folded, record: TaskRecord) -> Result<(), FsckError> {
        if self.registry.of(&*record.task).is_none() {
            self.checked.not_judged += 1;
        }
        let Folded { name, fold, .. } = task;
        let (mut record, mut folded) = (record.task, fold.into_record(record.now));
        match decrypt_record(self.store.payload_codec(), &mut folded) {
            Ok(()) => {}
            Err(StoreError::Unsupported(_)) => {
                self.checked.newer += 1;
                return Ok(());
            }
            Err(StoreError::Corrupt(why)) => {
                self.finds(name, Damage::Illegal(Part::Text), why);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
        if let Some(objects) = self.objects {
            self.objects_of(objects, &name, &folded).await?;
        }
        // A text whose key is gone was encrypted once for the row and once for the journal.
        if let (Some(row), Some(journal)) = (&mut record.failure, &mut folded.task.failure) {
            for (row, journal) in row.messages_mut().zip(journal.messages_mut()) {
                if is_encrypted(row) {
                    row.clone_from(journal);
                }
            }
        }
        let says = row::differences(&record, &folded.task);
        if !says.is_empty() {
            self.finds(name, Damage::RowDiffers(Part::Fields), says.join("; "));
        }
        Ok(())
    }

    fn finds(&mut self, task: String, damage: Damage, says: String) {
        self.found.push(Finding {
            task,
            rev: None,
            damage,
            says,
        });
    }

    async fn objects_of(
        &mut self,
        objects: &dyn Objects,
        name: &str,
        record: &TaskRecord,
    ) -> Result<(), FsckError> {
        let id = record.task.id;
        let mut missing = referenced_keys(record);
        missing.retain(|key| is_to_be_there(record, key));
        if missing.is_empty() {
            return Ok(());
        }
        self.checked.objects += missing.len() as u64;
        let mut listed = objects.list(&task_prefix(&record.task.tenant, id));
        while let Some(object) = listed.next().await.transpose()? {
            missing.remove(&object.key);
        }
        if missing.is_empty() {
            return Ok(());
        }
        // An undo may have deleted them since, or retention.
        let now = self.store.records(&[id], LoadFor::State).await?;
        let stands = |now: &(TaskId, Result<TaskRecord, StoreError>)| {
            now.1
                .as_ref()
                .is_ok_and(|now| now.task.rev == record.task.rev)
        };
        if now.first().is_some_and(stands) {
            for key in missing {
                let says = format!("an output names `{key}`, and it is not there");
                self.finds(name.to_owned(), Damage::ObjectMissing, says);
            }
        }
        Ok(())
    }
}

/// Whether an object of this key was kept by an attempt of the task, and no undo of its step may
/// have deleted it. What an output says of other places is none of the task's objects.
fn is_to_be_there(record: &TaskRecord, key: &str) -> bool {
    let Some(of) = ObjectKey::parse(key).filter(|of| of.task == record.task.id) else {
        return false;
    };
    let is_undone = |step: &StepRow| {
        use StepStatus::{Compensated, Compensating, CompensationFailed, Resolved};
        step.name == of.step
            && matches!(
                step.status,
                Compensating | Compensated | CompensationFailed | Resolved
            )
    };
    intents::standing(record, &of.prefix) == IntentState::Kept
        && !record.steps.iter().any(is_undone)
}

/// Keys of the objects to which the outputs of a task refer, without those of steps that were
/// undone.
#[must_use]
pub fn referenced_keys(record: &TaskRecord) -> BTreeSet<String> {
    fn walk(value: &Value, keys: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) => {
                match (map.get("bucket"), map.get("key").and_then(Value::as_str)) {
                    (Some(_), Some(key)) => {
                        keys.insert(key.to_owned());
                    }
                    _ => map.values().for_each(|inner| walk(inner, keys)),
                };
            }
            Value::Array(list) => list.iter().for_each(|inner| walk(inner, keys)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut keys = BTreeSet::new();
    for row in &record.steps {
        if !matches!(row.status, StepStatus::Compensated | StepStatus::Resolved) {
            row.output.iter().for_each(|output| walk(output, &mut keys));
        }
    }
    keys
}
