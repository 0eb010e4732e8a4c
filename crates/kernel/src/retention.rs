//! How long tasks that have ended stay, as a plan and its execution: what the policy says of a type and an end, the
//! archive, the burial of the rows, and the objects after them. Only the database's clock says how long ago an end was.
//!
//! Not a change of a task: a task that has ended never changes again, and its burial needs the revision that was archived.

use crate::engine::Engine;
use crate::keys::task_prefix;
use crate::ports::{Leaving, ObjectError, RetireOp, Store, StoreError};
use crate::record::{AttemptRow, DbTime, History, StepRow, TaskRecord, TaskRow};
use crate::task::{DistributedTask, Registry};
use crate::times::rfc3339;
use counterstep_contracts::retention::ENDED;
use counterstep_contracts::{Keep, Retention, TaskId, TaskStatus};
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// In the settings: all types that have no entry of their own.
const OTHERS: &str = "*";
/// Tasks of one burial, and of one object of the archive: a transaction that deletes their rows is soon over.
const BATCH: usize = 100;

/// What the settings say of retention.
#[derive(Debug, Clone)]
pub struct RetentionSettings {
    /// By the declared name of a type, or `*`.
    pub types: BTreeMap<String, Retention>,
    /// The declared bucket of the archive.
    pub bucket: String,
}

impl Default for RetentionSettings {
    fn default() -> Self {
        Self { types: BTreeMap::new(), bucket: "archive".to_owned() }
    }
}

impl RetentionSettings {
    /// Whether every entry names a type of the registry.
    ///
    /// # Errors
    /// Which does not, and what there is.
    pub fn check(&self, registry: &Registry) -> Result<(), String> {
        if !crate::keys::is_bucket_name(&self.bucket) {
            return Err(format!("setting `archive_bucket`: `{}` is no bucket's name", self.bucket.escape_debug()));
        }
        let known: BTreeSet<&str> = registry.iter().map(|known| known.decl.name).collect();
        match self.types.keys().find(|name| *name != OTHERS && !known.contains(name.as_str())) {
            None => Ok(()),
            Some(name) => Err(format!(
                "setting `retention.{name}`: no such task type: known are {}, and \"*\" for all others",
                known.into_iter().collect::<Vec<_>>().join(", ")
            )),
        }
    }
}

impl Registry {
    /// Says what becomes of the tasks of a type, all its versions, after they have ended. Without a word they stay for ever.
    #[must_use]
    pub fn retention<T: DistributedTask>(mut self, retention: Retention) -> Self {
        self.retention.insert(T::task_type().decl.name.to_owned(), retention);
        self
    }
}

/// Tasks of one type that ended in one way, and what becomes of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retire {
    /// Declared name of their type.
    pub task_type: String,
    /// How they ended.
    pub status: TaskStatus,
    /// What becomes of them.
    pub keep: Keep,
    /// Which, the first to end first.
    pub tasks: Vec<Leaving>,
}

/// What a pass is going to retire.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RetirePlan {
    /// Whose objects are to go: their rows are deleted already.
    pub buried: Vec<Leaving>,
    /// Whose time is over.
    pub retire: Vec<Retire>,
}

impl RetirePlan {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buried.is_empty() && self.retire.is_empty()
    }
}

/// What became of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retired {
    /// Tasks that were written to the archive, some of them perhaps once more.
    pub archived: u64,
    /// Tasks whose rows were deleted.
    pub deleted: u64,
    /// Objects of such tasks that were deleted.
    pub objects: u64,
    /// What did not work; the next pass tries again.
    pub failed: Vec<String>,
}

impl Engine {
    /// What holds for tasks of a type that ended like this.
    #[must_use]
    pub fn keeps(&self, task_type: &str, status: TaskStatus) -> Keep {
        let types = &self.settings.retention.types;
        let set = types.get(task_type).and_then(|set| set.of(status));
        let declared = || self.registry.retention.get(task_type).and_then(|declared| declared.of(status));
        let others = || types.get(OTHERS).and_then(|set| set.of(status));
        set.or_else(declared).or_else(others).unwrap_or_default()
    }

    /// Plans what is to be retired: at most `limit` tasks. Changes nothing.
    ///
    /// # Errors
    /// When the store does not answer.
    pub fn plan_retention(&self, limit: u32) -> BoxFuture<'_, Result<RetirePlan, StoreError>> {
        Box::pin(async move {
            let store = &self.ports.store;
            let mut plan = RetirePlan::default();
            let names: BTreeSet<&str> = self.registry.iter().map(|known| known.decl.name).collect();
            let rules: Vec<_> = names
                .into_iter()
                .flat_map(|name| ENDED.map(|status| (name, status, self.keeps(name, status))))
                .filter_map(|(name, status, keep)| Some((name, status, keep, keep.after()?)))
                .collect();
            plan.buried = store.retire(&RetireOp::Buried { limit }).await?;
            let mut left = limit;
            for (name, status, keep, before) in rules {
                if left == 0 {
                    break;
                }
                let task_type = name.to_owned();
                let ended = RetireOp::Ended { task_type: task_type.clone(), status, before, limit: left };
                let tasks = store.retire(&ended).await?;
                left = left.saturating_sub(u32::try_from(tasks.len()).unwrap_or(u32::MAX));
                if !tasks.is_empty() {
                    plan.retire.push(Retire { task_type, status, keep, tasks });
                }
            }
            Ok(plan)
        })
    }

    /// Executes a plan, batch by batch: the archive is durable before any row is deleted, and the tombstones stay until
    /// nothing is left of the objects. It may be broken off anywhere: the next one goes on.
    ///
    /// # Errors
    /// When the store does not answer. What the object store refuses stands in the result.
    pub fn retire(&self, plan: RetirePlan) -> BoxFuture<'_, Result<Retired, StoreError>> {
        Box::pin(async move {
            let mut done = Retired::default();
            self.empty_graves(plan.buried, &mut done).await?;
            for Retire { task_type, status, keep, tasks } in plan.retire {
                for batch in tasks.chunks(BATCH) {
                    let mut batch = batch.to_vec();
                    if let Keep::ThenArchive(_) = keep {
                        match self.archive(&task_type, batch).await {
                            Ok(archived) => batch = archived,
                            Err(error) => {
                                done.failed.push(format!("the archive of {task_type}: {error}"));
                                break;
                            }
                        }
                        done.archived += u64::try_from(batch.len()).unwrap_or(0);
                    }
                    let buried = self.ports.store.retire(&RetireOp::Bury(batch)).await?;
                    done.deleted += u64::try_from(buried.len()).unwrap_or(0);
                    tracing::info!(task_type, %status, tasks = buried.len(), "deleted tasks whose time is over");
                    self.empty_graves(buried, &mut done).await?;
                }
            }
            Ok(done)
        })
    }

    /// Deletes what tasks without rows have stored, and then their tombstones.
    async fn empty_graves(&self, buried: Vec<Leaving>, done: &mut Retired) -> Result<(), StoreError> {
        let mut empty = Vec::with_capacity(buried.len());
        for Leaving { task, tenant, .. } in buried {
            match self.ports.objects.delete_prefix(&task_prefix(&tenant, task)).await {
                Ok(objects) => {
                    done.objects += objects;
                    empty.push(task);
                }
                Err(error) => done.failed.push(format!("objects of the deleted task {task}: {error}")),
            }
        }
        if !empty.is_empty() {
            self.ports.store.retire(&RetireOp::Forget(empty)).await?;
        }
        Ok(())
    }

    /// Writes tasks to the archive, a line each, and returns those that are in it as they are. Its name holds a number of
    /// its own: two reconcilers, or two tries, write two objects and never half of one.
    async fn archive(&self, task_type: &str, batch: Vec<Leaving>) -> Result<Vec<Leaving>, ObjectError> {
        let Some(first) = batch.first() else { return Ok(batch) };
        let now = match self.ports.store.load(first.task).await {
            Ok(Some(record)) => record.now,
            // Somebody else was faster with all of it, or with the first: the next plan says.
            Ok(None) => return Ok(Vec::new()),
            Err(error) => return Err(ObjectError::Source(error.to_string())),
        };
        let day = rfc3339(now)[..10].to_owned();
        let name = format!("tasks/{task_type}/{day}/{:032x}.jsonl", self.ports.random.bits());
        let written = Arc::new(Mutex::new(Vec::with_capacity(batch.len())));
        let (store, noted) = (self.ports.store.clone(), written.clone());
        // Task by task while it is sent: however many there are, one is in memory.
        let lines = stream::iter(batch)
            .then(move |task| {
                let (store, noted) = (store.clone(), noted.clone());
                async move {
                    let line = line(store.as_ref(), &task).await.map_err(std::io::Error::other)?;
                    Ok(line.map(|line| {
                        noted.lock().unwrap_or_else(PoisonError::into_inner).push(task);
                        bytes::Bytes::from(line)
                    }))
                }
            })
            .filter_map(|line: std::io::Result<_>| async { line.transpose() });
        self.ports.objects.put_aside(&self.settings.retention.bucket, &name, lines.boxed()).await?;
        let written = std::mem::take(&mut *written.lock().unwrap_or_else(PoisonError::into_inner));
        tracing::info!(task_type, name, tasks = written.len(), "archived tasks whose time is over");
        Ok(written)
    }
}

/// A task as a line of the archive; `None`: it is gone, or not what was planned for.
async fn line(store: &dyn Store, leaving: &Leaving) -> Result<Option<String>, StoreError> {
    let Some(record) = store.load(leaving.task).await?.filter(|record| record.task.rev == leaving.rev) else {
        return Ok(None);
    };
    let history = store.history(leaving.task).await?;
    Ok(Some(format!("{}\n", told(&record, &history))))
}

/// All rows of a task as JSON. Times are RFC 3339, by the database's clock.
fn told(record: &TaskRecord, history: &History) -> Value {
    let audit: Vec<Value> = history
        .audit
        .iter()
        .map(|row| {
            let seal = row.seal.as_ref().map(ToString::to_string);
            json!({"at": rfc3339(row.at), "change_id": row.change_id, "seal": seal, "entry": row.entry})
        })
        .collect();
    json!({
        "format": 1,
        "task": told_task(&record.task),
        "steps": record.steps.iter().map(told_step).collect::<Vec<_>>(),
        "attempts": history.attempts.iter().map(told_attempt).collect::<Vec<_>>(),
        "audit": audit,
    })
}

fn at(time: Option<DbTime>) -> Option<String> {
    time.map(rfc3339)
}

fn id(task: TaskId) -> String {
    task.to_string()
}

fn told_task(row: &TaskRow) -> Value {
    json!({
        "id": id(row.id),
        "tenant": row.tenant,
        "type": row.task_type,
        "version": row.version,
        "definition_hash": row.definition_hash,
        "status": row.status,
        "host": row.host,
        "queue": row.queue,
        "rev": row.rev,
        "epoch": row.epoch,
        "deadline_at": at(row.deadline_at),
        "cancel_requested_at": at(row.cancel_requested_at),
        "goal": row.goal,
        "recovery_attempts": row.recovery_attempts,
        "dispatch_seq": row.dispatch_seq,
        "audit_seq": row.audit_seq,
        "request": row.request,
        "response": row.response,
        "failure": row.failure,
        "residue": row.residue,
        "traceparent": row.traceparent,
        "created_at": rfc3339(row.created_at),
        "updated_at": rfc3339(row.updated_at),
        "finished_at": at(row.finished_at),
        "change_id": row.change_id,
    })
}

fn told_step(row: &StepRow) -> Value {
    json!({
        "no": row.no,
        "name": row.name,
        "status": row.status,
        "output": row.output,
        "attempts": row.attempts,
        "retries_used": row.retries_used,
        "undo_attempts": row.undo_attempts,
        "undo_retries_used": row.undo_retries_used,
        "started_seq": row.started_seq,
        "error": row.error,
        "signal": row.signal,
        "in_fallback": row.in_fallback,
    })
}

fn told_attempt(row: &AttemptRow) -> Value {
    json!({
        "step": row.step,
        "direction": row.direction,
        "attempt": row.attempt,
        "epoch": row.epoch,
        "prefix": row.prefix,
        "outcome": row.outcome,
        "error": row.error,
        "started_at": rfc3339(row.started_at),
        "ended_at": at(row.ended_at),
        "change_id": row.change_id,
    })
}
