//! How long tasks that have ended stay, as a plan and its execution: what the policy says of a type
//! and an end, the archive, the purge of the rows, and the objects after them. Only the database's
//! clock says how long ago an end was.
//!
//! Not a change of a task: nothing happens to a task that has ended, and its purge needs the
//! revision that was archived. Where a sweep has raised that meanwhile, the next pass archives and
//! purges it.

use counterstep_contracts::overrides::OTHERS;
use counterstep_contracts::retention::ENDED;
use counterstep_contracts::{AuditSeq, Keep, Retention, TaskId, TaskStatus};
use counterstep_kernel::Engine;
use counterstep_kernel::ports::{EndedTask, Find, ObjectError, PurgeOp, Store, StoreError};
use counterstep_kernel::record::TaskRecord;
use counterstep_kernel::status::task_log;
use counterstep_steps::cancel::CancelToken;
use counterstep_steps::keys::task_prefix;
use counterstep_steps::task::Registry;
use counterstep_steps::times::{DbTime, rfc3339};
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt};
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

mod archive_line;

use archive_line::archive_line;
pub use archive_line::encrypted_archive_line;

/// Maximum number of tasks of one purge, and of one object of the archive: a transaction that deletes their
/// rows must be short.
const BATCH: usize = 100;
/// Maximum number of tasks whose objects are deleted at a time: the object store's answers are what takes
/// long.
const AT_ONCE: usize = 16;

/// The declared bucket of the archive. No setting: `objects` maps it to a real one, as each declared bucket.
const ARCHIVE_BUCKET: &str = "archive";

/// What the settings say of retention.
#[derive(Debug, Clone, Default)]
pub struct RetentionSettings {
    /// By the declared name of a type, or `*`.
    pub types: BTreeMap<String, Retention>,
    /// Which tasks are put off.
    pub put_off: PutOff,
}

/// Behind which tasks the next plan begins, by type and end: those before them could not be archived and filled a pass. The
/// process forgets the place once it has come to the last task, and tries them again.
#[derive(Debug, Clone, Default)]
pub struct PutOff(Arc<Mutex<BTreeMap<(String, TaskStatus), TaskId>>>);

impl PutOff {
    fn places(&self) -> MutexGuard<'_, BTreeMap<(String, TaskStatus), TaskId>> {
        self.0.lock()
    }

    fn behind(&self, task_type: &str, status: TaskStatus) -> Option<TaskId> {
        self.places().get(&(task_type.to_owned(), status)).copied()
    }

    fn set(&self, task_type: &str, status: TaskStatus, last: Option<TaskId>) {
        let of = (task_type.to_owned(), status);
        match last {
            Some(last) => drop(self.places().insert(of, last)),
            None => drop(self.places().remove(&of)),
        }
    }
}

/// Tasks of one type that ended in one way, and what becomes of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgeGroup {
    /// Declared name of their type.
    pub task_type: String,
    /// How they ended.
    pub status: TaskStatus,
    /// What becomes of them.
    pub keep: Keep,
    /// Which, the first to end first.
    pub tasks: Vec<EndedTask>,
}

/// What a pass is going to purge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PurgePlan {
    /// Tasks whose objects are deleted next; their rows are deleted already.
    pub tombstoned: Vec<EndedTask>,
    /// Tasks whose retention has ended.
    pub groups: Vec<PurgeGroup>,
}

impl PurgePlan {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tombstoned.is_empty() && self.groups.is_empty()
    }
}

/// What became of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Purged {
    /// Tasks that were written to the archive, some of them perhaps once more.
    pub archived: u64,
    /// Tasks whose rows were deleted.
    pub deleted: u64,
    /// Objects of such tasks that were deleted.
    pub objects: u64,
    /// What did not work; the next pass tries again.
    pub failed: Vec<String>,
}

/// What holds for tasks of a type that ended like this: what the settings say of the type, what it
/// declares, what the settings say of all others, in this order.
fn keeps(
    registry: &Registry,
    settings: &RetentionSettings,
    task_type: &str,
    status: TaskStatus,
) -> Keep {
    let types = &settings.types;
    let set = types.get(task_type).and_then(|set| set.of(status));
    let declared = || {
        registry
            .retention_of(task_type)
            .and_then(|declared| declared.of(status))
    };
    let others = || types.get(OTHERS).and_then(|set| set.of(status));
    set.or_else(declared).or_else(others).unwrap_or_default()
}

/// Plans what is to be purged: at most `limit` tasks, or one of each type and end where that
/// is more. Each type and end has its share of the limit, and what others leave of theirs.
/// Changes nothing.
///
/// # Errors
/// When the store does not answer.
pub fn plan<'a>(
    engine: &'a Engine,
    settings: &'a RetentionSettings,
    limit: u32,
) -> BoxFuture<'a, Result<PurgePlan, StoreError>> {
    Box::pin(async move {
        let store = &engine.ports.store;
        let mut plan = PurgePlan::default();
        let registry = &engine.registry;
        let names: BTreeSet<&str> = registry.iter().map(|known| known.decl.name).collect();
        let keeps = |name, status| (name, status, keeps(registry, settings, name, status));
        let rules: Vec<_> = names
            .into_iter()
            .flat_map(|name| ENDED.map(|status| keeps(name, status)))
            .filter_map(|(name, status, keep)| Some((name, status, keep, keep.after()?)))
            .collect();
        plan.tombstoned = store.purge(&PurgeOp::OldestTombstones { limit }).await?;
        let mut left = limit;
        let mut more = Vec::new();
        for (n, &(name, status, keep, before)) in rules.iter().enumerate() {
            let share = (left / u32::try_from(rules.len() - n).unwrap_or(u32::MAX)).max(1);
            let after = settings.put_off.behind(name, status);
            let tasks = ended(store, name, status, before, after, share).await?;
            left = left.saturating_sub(count(&tasks));
            if count(&tasks) == share {
                more.push((plan.groups.len(), before));
            } else {
                settings.put_off.set(name, status, None);
            }
            if !tasks.is_empty() {
                plan.groups.push(PurgeGroup {
                    task_type: name.to_owned(),
                    status,
                    keep,
                    tasks,
                });
            }
        }
        for (n, before) in more {
            let Some(first) = plan.groups.get_mut(n).filter(|_| left > 0) else {
                break;
            };
            let last = first.tasks.last().map(|last| last.task);
            let tasks = ended(store, &first.task_type, first.status, before, last, left).await?;
            left = left.saturating_sub(count(&tasks));
            first.tasks.extend(tasks);
        }
        Ok(plan)
    })
}

async fn ended(
    store: &Store,
    task_type: &str,
    status: TaskStatus,
    before: Duration,
    after: Option<TaskId>,
    limit: u32,
) -> Result<Vec<EndedTask>, StoreError> {
    let ended = Find::Ended {
        task_type: task_type.to_owned(),
        status,
        before,
        after,
    };
    let found = store.find(&ended, limit).await?;
    Ok(found.into_iter().map(EndedTask::from).collect())
}

/// Executes a plan, batch by batch: the archive is durable before any row is deleted, and the
/// tombstones stay until nothing is left of the objects. `shutdown` breaks it off, and the next
/// one goes on.
///
/// # Errors
/// When the store does not answer. What the object store refuses stands in the result.
pub fn run<'a>(
    engine: &'a Engine,
    settings: &'a RetentionSettings,
    plan: PurgePlan,
    shutdown: &'a CancelToken,
) -> BoxFuture<'a, Result<Purged, StoreError>> {
    Box::pin(async move {
        let mut done = Purged::default();
        delete_objects(engine, plan.tombstoned, shutdown, &mut done).await?;
        for group in plan.groups {
            purge_group(engine, settings, group, shutdown, &mut done).await?;
        }
        Ok(done)
    })
}

/// The tasks of one type and end. Those that cannot be archived stay, and as many others take
/// their turn: they are the first again in each pass, and must not block the others. Where others cannot be archived either,
/// the next pass goes on behind them.
async fn purge_group(
    engine: &Engine,
    settings: &RetentionSettings,
    group: PurgeGroup,
    shutdown: &CancelToken,
    done: &mut Purged,
) -> Result<(), StoreError> {
    let PurgeGroup {
        task_type,
        status,
        keep,
        mut tasks,
    } = group;
    let mut are_others = false;
    loop {
        let mut stay = Vec::new();
        for batch in tasks.chunks(BATCH) {
            if shutdown.is_cancelled() {
                return Ok(());
            }
            let mut batch = batch.to_vec();
            if let Keep::ThenArchive(_) = keep {
                // Reads and one upload. Half an upload is no object, and rows stay until there
                // is one.
                let archived = shutdown
                    .run_until_cancelled(archive(engine, &task_type, batch))
                    .await;
                let Some(archived) = archived else {
                    return Ok(());
                };
                match archived {
                    Ok(archived) => {
                        batch = archived.written;
                        stay.extend(archived.unreadable);
                    }
                    Err(error) => {
                        done.failed
                            .push(format!("the archive of {task_type}: {error}"));
                        return Ok(());
                    }
                }
                done.archived += u64::from(count(&batch));
            }
            if batch.is_empty() {
                continue;
            }
            let purged = engine.ports.store.purge(&PurgeOp::Purge(batch)).await?;
            done.deleted += u64::from(count(&purged));
            tracing::info!(task_type, %status, tasks = purged.len(), "deleted tasks whose time is over");
            delete_objects(engine, purged, shutdown, done).await?;
        }
        let (Some(before), Some(last)) = (keep.after(), stay.last().map(|(task, _)| *task)) else {
            return Ok(());
        };
        let instead = u32::try_from(stay.len()).unwrap_or(u32::MAX);
        done.failed.extend(
            stay.into_iter()
                .map(|(task, why)| format!("the archive of task {task}: {why}")),
        );
        if are_others {
            settings.put_off.set(&task_type, status, Some(last));
            return Ok(());
        }
        are_others = true;
        let store = &engine.ports.store;
        tasks = ended(store, &task_type, status, before, Some(last), instead).await?;
        if count(&tasks) < instead {
            settings.put_off.set(&task_type, status, None);
        }
    }
}

/// Deletes what tasks without rows have stored, and then their tombstones.
async fn delete_objects(
    engine: &Engine,
    purged: Vec<EndedTask>,
    shutdown: &CancelToken,
    done: &mut Purged,
) -> Result<(), StoreError> {
    let mut empty = Vec::with_capacity(purged.len());
    let mut emptied = stream::iter(purged)
        .map(|EndedTask { task, tenant, .. }| {
            let objects = engine.ports.objects.clone();
            async move {
                (
                    task,
                    objects.delete_prefix(&task_prefix(&tenant, task)).await,
                )
            }
        })
        .buffer_unordered(AT_ONCE);
    while let Some(Some((task, result))) = shutdown.run_until_cancelled(emptied.next()).await {
        match result {
            Ok(objects) => {
                done.objects += objects;
                empty.push(task);
            }
            Err(error) => done
                .failed
                .push(format!("objects of the deleted task {task}: {error}")),
        }
    }
    drop(emptied);
    engine.ports.store.purge(&PurgeOp::Forget(empty)).await?;
    Ok(())
}

/// Writes tasks to the archive, a line each, and returns those that are in it as they are, and
/// those that cannot be read. Its name holds a number of its own: two reconcilers, or two
/// tries, write two objects and never half of one.
async fn archive(
    engine: &Engine,
    task_type: &str,
    batch: Vec<EndedTask>,
) -> Result<Archived, ObjectError> {
    let mut rest = batch.into_iter();
    let mut archived = Archived::default();
    // The first readable task gives the date of the archive object. Without one there is nothing to write.
    let (first, now) = loop {
        let Some(ended_task) = rest.next() else {
            return Ok(archived);
        };
        match line(&engine.ports.store, &ended_task).await {
            Ok(Some(read)) => {
                archived.written.push(ended_task);
                break read;
            }
            // Another writer has taken it.
            Ok(None) => {}
            Err(StoreError::Corrupt(why) | StoreError::Unsupported(why)) => {
                archived.unreadable.push((ended_task.task, why))
            }
            Err(error) => return Err(ObjectError::Source(error.to_string())),
        }
    };
    let day = rfc3339(now)[..10].to_owned();
    let name = format!(
        "tasks/{task_type}/{day}/{:032x}.jsonl",
        engine.ports.random.bits()
    );
    let archived = Arc::new(Mutex::new(archived));
    let (store, noted) = (engine.ports.store.clone(), archived.clone());
    // Task by task while it is sent: however many there are, one is in memory.
    let others = stream::iter(rest)
        .then(move |ended_task| {
            let (store, noted) = (store.clone(), noted.clone());
            async move {
                let read = line(&store, &ended_task).await;
                let mut noted = noted.lock();
                match read {
                    Ok(Some((line, _))) => {
                        noted.written.push(ended_task);
                        Ok(Some(bytes::Bytes::from(line)))
                    }
                    Ok(None) => Ok(None),
                    Err(StoreError::Corrupt(why) | StoreError::Unsupported(why)) => {
                        noted.unreadable.push((ended_task.task, why));
                        Ok(None)
                    }
                    Err(error) => Err(std::io::Error::other(error)),
                }
            }
        })
        .filter_map(|line: std::io::Result<_>| async { line.transpose() });
    let lines = stream::iter([Ok(bytes::Bytes::from(first))]).chain(others);
    engine
        .ports
        .objects
        .put_aside(ARCHIVE_BUCKET, &name, lines.boxed())
        .await?;
    let archived = std::mem::take(&mut *archived.lock());
    tracing::info!(
        task_type,
        name,
        tasks = archived.written.len(),
        "archived tasks whose time is over"
    );
    Ok(archived)
}

/// What became of a batch in the archive, in its order.
#[derive(Debug, Default)]
struct Archived {
    written: Vec<EndedTask>,
    /// And why.
    unreadable: Vec<(TaskId, String)>,
}

fn count(tasks: &[EndedTask]) -> u32 {
    u32::try_from(tasks.len()).unwrap_or(u32::MAX)
}

/// A task as a line of the archive, and the time; `None`: it is gone, or not what was planned for.
async fn line(
    store: &Store,
    ended_task: &EndedTask,
) -> Result<Option<(String, DbTime)>, StoreError> {
    let planned = |record: &TaskRecord| record.task.rev == ended_task.rev;
    let Some(record) = store.load(ended_task.task).await?.filter(planned) else {
        return Ok(None);
    };
    let history = store.history(ended_task.task).await?;
    let last = history.audit.last().map_or(AuditSeq(0), |row| row.seq);
    if last != record.task.audit_seq {
        // Another sweep may have purged it in between: a line without its past would look like the
        // whole task.
        return match store.load(ended_task.task).await?.filter(planned) {
            None => Ok(None),
            Some(_) => {
                let why = format!(
                    "its audit ends at entry {}, and the task says {}",
                    last.0, record.task.audit_seq.0
                );
                Err(StoreError::Corrupt(why))
            }
        };
    }
    let log = task_log::read(store, ended_task.task, None, usize::MAX).await?;
    let line = archive_line(store.payload_codec(), &record, &history, &log.lines)?;
    Ok(Some((format!("{line}\n"), record.now)))
}
