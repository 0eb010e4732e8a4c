//! Intents in the stores: which of them a sweep may take, and what it writes before and after it
//! deletes objects.

use counterstep_contracts::TaskId;
use counterstep_kernel::Engine;
use counterstep_kernel::change::intents::{
    self, AttemptKey, AttemptRef, AttemptState, AttemptStates, Intent, IntentState,
};
use counterstep_kernel::change::transition::AttemptWrite;
use counterstep_kernel::draft;
use counterstep_kernel::ports::{CommitError, Find, LoadFor, PurgeOp, ReceiveOp, StoreError};
use counterstep_kernel::record::TaskRecord;
use counterstep_steps::times::DbTime;
use futures::{StreamExt, stream};
use std::collections::{BTreeMap, BTreeSet};

/// Tasks that are read at a time.
const READ_AT_ONCE: usize = 128;

/// Tasks that are changed at a time.
const AT_ONCE: usize = 16;

/// Maximum tries on a revision conflict; the next sweep takes the rest.
const TRIES: u32 = 8;

/// What a look has found.
pub(super) struct Look {
    pub(super) now: DbTime,
    pub(super) intents: Vec<Intent>,
    /// Tasks that cannot be read.
    pub(super) unreadable: Vec<(TaskId, String)>,
    /// Tasks of newer programs.
    pub(super) newer: Vec<TaskId>,
}

/// For the given attempts of a task: those that are decided already or with this change, and the writes for it.
type Decide = fn(&TaskRecord, &[AttemptKey]) -> (Vec<AttemptKey>, Vec<AttemptWrite>);

/// At most `limit` intents that a sweep may take, the longest overdue first.
pub(super) async fn overdue(engine: &Engine, limit: u32) -> Result<Look, StoreError> {
    let receives = engine
        .ports
        .store
        .receives(&ReceiveOp::Overdue { limit })
        .await?;
    let mut look = Look {
        now: receives.now,
        intents: Vec::new(),
        unreadable: Vec::new(),
        newer: Vec::new(),
    };
    look.intents.extend(
        receives
            .rows
            .iter()
            .filter_map(|row| intents::overdue_receive(row, receives.now)),
    );
    let found = engine.ports.store.find(&Find::ToSweep, limit).await?;
    let tasks: Vec<TaskId> = found.into_iter().map(|found| found.task).collect();
    for (task, record) in records(engine, &tasks).await? {
        match record {
            Ok(record) => {
                let overdue = intents::overdue(&record);
                // Or it would come before the others in every sweep.
                let is_due = intents::sweep_at(&record.marks).is_none_or(|at| at <= record.now);
                if overdue.is_empty() && is_due && record.task.lease_owner.is_none() {
                    look.unreadable
                        .push((task, "its attempts are of no step that it has".to_owned()));
                }
                look.intents.extend(overdue);
            }
            Err(StoreError::Corrupt(why)) => look.unreadable.push((task, why)),
            Err(StoreError::Unsupported(_)) => look.newer.push(task),
            Err(error) => return Err(error),
        }
    }
    look.intents.sort_by(|one, other| {
        other
            .overdue
            .cmp(&one.overdue)
            .then_with(|| one.prefix.cmp(&other.prefix))
    });
    look.intents
        .truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(look)
}

/// Condemns these: no success can keep them any more. Returns those of which that is true: only
/// they may be deleted.
pub(super) async fn condemn(
    engine: &Engine,
    intents: Vec<Intent>,
) -> Result<Vec<Intent>, StoreError> {
    let (receives, attempts) = parted(&intents);
    let condemned = match receives.is_empty() {
        true => Vec::new(),
        false => {
            engine
                .ports
                .store
                .receives(&ReceiveOp::Condemn(receives))
                .await?
                .rows
        }
    };
    let condemned: BTreeSet<TaskId> = condemned.into_iter().map(|row| row.task).collect();
    let done = write_intents(engine, attempts, intents::condemn).await?;
    let is = |intent: &Intent| match intent.of {
        None => condemned.contains(&intent.task),
        Some(which) => done.contains(&(intent.task, which)),
    };
    Ok(intents.into_iter().filter(is).collect())
}

/// Writes that what these had stored is deleted.
pub(super) async fn have_swept(engine: &Engine, intents: &[Intent]) -> Result<(), StoreError> {
    let (receives, attempts) = parted(intents);
    if !receives.is_empty() {
        engine
            .ports
            .store
            .receives(&ReceiveOp::Swept(receives))
            .await?;
    }
    write_intents(engine, attempts, intents::swept)
        .await
        .map(drop)
}

/// Writes what `decide` finds of attempts, task by task. Returns those of which it is true by
/// then.
async fn write_intents(
    engine: &Engine,
    attempts: BTreeMap<TaskId, Vec<AttemptKey>>,
    decide: Decide,
) -> Result<BTreeSet<(TaskId, AttemptKey)>, StoreError> {
    let each = attempts.into_iter().map(|(task, asked)| async move {
        let done = write_intents_of(engine, task, &asked, decide).await?;
        Ok::<_, StoreError>(done.into_iter().map(move |which| (task, which)))
    });
    let mut each = stream::iter(each).buffer_unordered(AT_ONCE);
    let (mut all, mut failed) = (BTreeSet::new(), None);
    // To the end: a change that was sent is looked after.
    while let Some(done) = each.next().await {
        match done {
            Ok(done) => all.extend(done),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(all), Err)
}

async fn write_intents_of(
    engine: &Engine,
    task: TaskId,
    asked: &[AttemptKey],
    decide: Decide,
) -> Result<Vec<AttemptKey>, StoreError> {
    for _ in 0..TRIES {
        let record = match engine.ports.store.load(task).await {
            Ok(Some(record)) => record,
            Ok(None) | Err(StoreError::Corrupt(_) | StoreError::Unsupported(_)) => {
                return Ok(Vec::new());
            }
            Err(error) => return Err(error),
        };
        let (done, writes) = decide(&record, asked);
        if writes.is_empty() {
            return Ok(done);
        }
        let (guard, transition) = draft::sweep(&record, writes, engine.new_change_id(), &engine.id);
        match engine.ports.store.commit(guard, transition).await {
            Ok(_) => return Ok(done),
            Err(CommitError::Store(StoreError::Corrupt(_) | StoreError::Unsupported(_))) => {
                return Ok(Vec::new());
            }
            Err(CommitError::Store(error)) => return Err(error),
            // A revision conflict.
            Err(_) => {}
        }
    }
    Ok(Vec::new())
}

/// Tasks without what was handed in, a bounded number at a time.
async fn records(
    engine: &Engine,
    tasks: &[TaskId],
) -> Result<Vec<(TaskId, Result<TaskRecord, StoreError>)>, StoreError> {
    let mut records = Vec::with_capacity(tasks.len());
    for some in tasks.chunks(READ_AT_ONCE) {
        let read = engine.ports.store.records(some, LoadFor::State);
        records.extend(read.await?);
    }
    Ok(records)
}

/// What is known of these attempts.
pub(super) async fn standing(
    engine: &Engine,
    asked: &[AttemptRef],
) -> Result<AttemptStates, StoreError> {
    let mut of: Vec<Option<AttemptState>> = vec![None; asked.len()];
    let mut by_task: BTreeMap<TaskId, Vec<usize>> = BTreeMap::new();
    for (at, one) in asked.iter().enumerate() {
        by_task.entry(one.task).or_default().push(at);
    }
    // Receives first: one that is gone by then is a task by now. Tombstones last: a task that
    // is gone by then has one.
    let tasks: Vec<TaskId> = by_task.keys().copied().collect();
    let receives = engine
        .ports
        .store
        .receives(&ReceiveOp::Of(tasks.clone()))
        .await?;
    for (task, record) in records(engine, &tasks).await? {
        let record = match record {
            Ok(record) => Ok(record),
            Err(StoreError::Corrupt(why) | StoreError::Unsupported(why)) => Err(why),
            Err(error) => return Err(error),
        };
        for at in by_task.remove(&task).unwrap_or_default() {
            of[at] = Some(match &record {
                Ok(record) => AttemptState {
                    task_type: Some(record.task.task_type.clone()),
                    intent: intents::standing(record, &asked[at].prefix),
                },
                Err(why) => AttemptState {
                    task_type: None,
                    intent: IntentState::Unreadable(why.clone()),
                },
            });
        }
    }
    let gone = by_task;
    let tombstones = match gone.is_empty() {
        true => Vec::new(),
        false => {
            engine
                .ports
                .store
                .purge(&PurgeOp::TombstonesOf(gone.keys().copied().collect()))
                .await?
        }
    };
    for (task, places) in gone {
        let receive = receives.rows.iter().find(|row| row.task == task);
        let purged = tombstones.iter().any(|tombstone| tombstone.task == task);
        for at in places {
            let prefix = || asked[at].prefix.clone();
            let overdue = receive.and_then(|row| intents::overdue_receive(row, receives.now));
            let intent = match overdue {
                Some(intent) => IntentState::Overdue(Intent {
                    prefix: prefix(),
                    ..intent
                }),
                None if purged || receive.is_some() => IntentState::Live,
                None => IntentState::Missing,
            };
            of[at] = Some(AttemptState {
                task_type: None,
                intent,
            });
        }
    }
    let missing = AttemptState {
        task_type: None,
        intent: IntentState::Missing,
    };
    Ok(AttemptStates {
        now: receives.now,
        of: of
            .into_iter()
            .map(|one| one.unwrap_or(missing.clone()))
            .collect(),
    })
}

/// The tasks of receives, and the attempts by task.
fn parted(intents: &[Intent]) -> (Vec<TaskId>, BTreeMap<TaskId, Vec<AttemptKey>>) {
    let mut attempts: BTreeMap<TaskId, Vec<AttemptKey>> = BTreeMap::new();
    let mut receives = BTreeSet::new();
    for intent in intents {
        match intent.of {
            None => drop(receives.insert(intent.task)),
            Some(which) => attempts.entry(intent.task).or_default().push(which),
        }
    }
    (receives.into_iter().collect(), attempts)
}
