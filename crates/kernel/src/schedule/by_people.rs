//! What people ask of schedules: set, delete, pause, resume, run now. Each under the revision that
//! was read; where another writer was faster, it is decided again on the newer row.

use super::fire::{fire, is_busy};
use crate::admin_audit::{self, AdminChange};
use crate::client::SubmitError;
use crate::documents::{TypedDocuments, delete as delete_document, schedule_write};
use crate::engine::Engine;
use crate::ports::{DocumentKind, ScheduleQuery, ScheduleRow, StoreError};
use crate::record::DbTime;
use crate::task::RequestError;
use counterstep_contracts::http::Accepted;
use counterstep_contracts::{Overlap, ScheduleOrigin, ScheduleSpec, TaskId, Tenant};
use counterstep_steps::schedule::{self, NAME, check, is_name};
use futures::future::BoxFuture;
use serde_json::json;

/// Others may be faster so often in a row.
const TRIES: u32 = 20;

/// What was asked was not done.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    /// No such schedule.
    #[error("there is no such schedule")]
    Gone,
    /// The program that was asked declares it.
    #[error("the program declares it: change it there, or pause it")]
    Declared,
    /// It breaks a rule.
    #[error(transparent)]
    Invalid(#[from] RequestError),
    /// No such task type here.
    #[error("there is no task type `{0}` here")]
    UnknownType(String),
    /// Its last task still runs.
    #[error(
        "its last task, {0}, has not come to rest, and the schedule does not allow two at a time"
    )]
    Busy(TaskId),
    /// Its task was not accepted.
    #[error(transparent)]
    Submit(SubmitError),
    /// It changes too often to be changed.
    #[error("others change the schedule all the time: try again")]
    Moved,
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A schedule as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleState {
    /// Its row.
    pub row: ScheduleRow,
    /// The database's clock when it was read.
    pub now: DbTime,
    /// Whether this change made it.
    pub is_new: bool,
}

impl ScheduleState {
    /// Its next due times, at most so many; none while it is paused.
    #[must_use]
    pub fn upcoming(&self, count: usize) -> Vec<DbTime> {
        let Ok(stored) = schedule::read_stored(&self.row.spec) else {
            return Vec::new();
        };
        let first = self.row.next_due_at.filter(|_| !self.row.paused);
        std::iter::successors(first, |due| stored.when.after(*due))
            .take(count)
            .collect()
    }
}

/// A schedule.
///
/// # Errors
/// [`ScheduleError::Gone`], or the store does not answer.
pub fn get<'a>(
    engine: &'a Engine,
    tenant: &'a Tenant,
    name: &'a str,
) -> BoxFuture<'a, Result<ScheduleState, ScheduleError>> {
    Box::pin(async move {
        find(engine, tenant, name)
            .await?
            .0
            .ok_or(ScheduleError::Gone)
    })
}

async fn find(
    engine: &Engine,
    tenant: &Tenant,
    name: &str,
) -> Result<(Option<ScheduleState>, DbTime), ScheduleError> {
    // Another name has no row, and may be one that no database takes.
    let names = if is_name(name) {
        vec![name.to_owned()]
    } else {
        Vec::new()
    };
    let query = ScheduleQuery::Named {
        tenant: tenant.clone(),
        names,
    };
    let found = engine.ports.store.schedules(&query).await?;
    let row = found.rows.into_iter().next();
    Ok((
        row.map(|row| ScheduleState {
            row,
            now: found.now,
            is_new: false,
        }),
        found.now,
    ))
}

/// Makes a schedule, or makes it another one. What is the same already stays as it is. `actor` stands in the
/// audit of changes.
///
/// # Errors
/// [`ScheduleError`].
pub fn set<'a>(
    engine: &'a Engine,
    tenant: &'a Tenant,
    name: &'a str,
    mut spec: ScheduleSpec,
    actor: &'a str,
) -> BoxFuture<'a, Result<ScheduleState, ScheduleError>> {
    Box::pin(async move {
        if !is_name(name) {
            return Err(RequestError::new("name", NAME).into());
        }
        let by_route = engine.registry.by_route(&spec.task_type);
        let Some(task_type) = engine.registry.newest(&spec.task_type).or(by_route) else {
            return Err(ScheduleError::UnknownType(spec.task_type));
        };
        task_type.decl.name.clone_into(&mut spec.task_type);
        let when = schedule::read(&mut spec)?;
        check(&task_type, &spec.request)?;
        for _ in 0..TRIES {
            let (found, now) = find(engine, tenant, name).await?;
            is_free(engine, (tenant, name), found.as_ref())?;
            if let Some(same) = found.as_ref().filter(|kept| kept.row.spec == spec) {
                return Ok(same.clone());
            }
            let is_new = found.is_none();
            let next = when.after(now);
            if next.is_none() {
                let pointer = if spec.run_at.is_some() {
                    "run_at"
                } else {
                    "cron"
                };
                let message = "none of its times is still to come: name one that is";
                return Err(RequestError::new(pointer, message).into());
            }
            let row = found.map(|kept| kept.row);
            let mut row = row.unwrap_or_else(|| {
                ScheduleRow::new(tenant.clone(), name.to_owned(), spec.clone(), now)
            });
            row.origin = ScheduleOrigin::Api;
            row.spec = spec.clone();
            row.next_due_at = next;
            if put(engine, &mut row, "schedule_set", actor).await? {
                return Ok(ScheduleState {
                    is_new,
                    ..get(engine, tenant, name).await?
                });
            }
        }
        Err(ScheduleError::Moved)
    })
}

/// Whether it is the API's to change. One from code that no code of this program declares is. What a program
/// declares is of the default tenant: to others its names are as free as any.
fn is_free(
    engine: &Engine,
    (tenant, name): (&Tenant, &str),
    found: Option<&ScheduleState>,
) -> Result<(), ScheduleError> {
    let ours = *tenant == Tenant::default() && engine.registry.schedules().contains_key(name);
    match found {
        Some(kept) if kept.row.origin == ScheduleOrigin::Code && ours => {
            Err(ScheduleError::Declared)
        }
        None if ours => Err(ScheduleError::Declared),
        Some(_) | None => Ok(()),
    }
}

async fn put(
    engine: &Engine,
    row: &mut ScheduleRow,
    event: &'static str,
    actor: &str,
) -> Result<bool, StoreError> {
    row.rev = row.rev.next();
    put_audited(engine, row, event, actor).await
}

/// Writes a schedule together with the entry of its change. `false`: it was changed meanwhile.
///
/// # Errors
/// [`StoreError`].
pub async fn put_audited(
    engine: &Engine,
    row: &ScheduleRow,
    event: &'static str,
    actor: &str,
) -> Result<bool, StoreError> {
    let change = of(row, event, actor);
    admin_audit::put(engine.ports.store.as_ref(), schedule_write(row)?, change).await
}

/// Without the request, which is a payload.
fn of<'a>(row: &'a ScheduleRow, event: &'static str, actor: &'a str) -> AdminChange<'a> {
    let ScheduleSpec {
        task_type,
        cron,
        zone,
        run_at,
        misfire,
        overlap,
        ..
    } = &row.spec;
    AdminChange {
        event,
        actor,
        tenant: &row.tenant,
        name: &row.name,
        details: json!({
            "type": task_type, "cron": cron, "zone": zone, "run_at": run_at, "misfire": misfire, "overlap": overlap,
        }),
    }
}

/// Deletes a schedule. Its tasks stay.
///
/// # Errors
/// [`ScheduleError`].
pub fn delete<'a>(
    engine: &'a Engine,
    tenant: &'a Tenant,
    name: &'a str,
    actor: &'a str,
) -> BoxFuture<'a, Result<(), ScheduleError>> {
    Box::pin(async move {
        for _ in 0..TRIES {
            let found = find(engine, tenant, name).await?.0;
            is_free(engine, (tenant, name), found.as_ref())?;
            let ScheduleState { row, .. } = found.ok_or(ScheduleError::Gone)?;
            let kind = DocumentKind::Schedule;
            let deleted = delete_document(kind, tenant.clone(), name.to_owned(), row.rev);
            let change = of(&row, "schedule_deleted", actor);
            if admin_audit::put(engine.ports.store.as_ref(), deleted, change).await? {
                return Ok(());
            }
        }
        Err(ScheduleError::Moved)
    })
}

/// Pauses a schedule, or lets it go on: then with the first due time from now on. What it would
/// have fired meanwhile was not missed but unwanted.
///
/// # Errors
/// [`ScheduleError`].
pub fn pause<'a>(
    engine: &'a Engine,
    tenant: &'a Tenant,
    name: &'a str,
    paused: bool,
    actor: &'a str,
) -> BoxFuture<'a, Result<ScheduleState, ScheduleError>> {
    Box::pin(async move {
        for _ in 0..TRIES {
            let kept = get(engine, tenant, name).await?;
            if kept.row.paused == paused {
                return Ok(kept);
            }
            let ScheduleState { mut row, now, .. } = kept;
            row.paused = paused;
            if !paused {
                row.next_due_at = schedule::read_stored(&row.spec)?.when.after(now);
            }
            let event = if paused {
                "schedule_paused"
            } else {
                "schedule_resumed"
            };
            if put(engine, &mut row, event, actor).await? {
                return get(engine, tenant, name).await;
            }
        }
        Err(ScheduleError::Moved)
    })
}

/// Submits a task of a schedule now, beside its due times, also while it is paused. `actor`
/// stands in the audit.
///
/// # Errors
/// [`ScheduleError`]; [`Busy`](ScheduleError::Busy) where it would overlap and must not.
pub fn run_now<'a>(
    engine: &'a Engine,
    tenant: &'a Tenant,
    name: &'a str,
    actor: &'a str,
) -> BoxFuture<'a, Result<Accepted, ScheduleError>> {
    Box::pin(async move {
        for _ in 0..TRIES {
            let ScheduleState { mut row, now, .. } = get(engine, tenant, name).await?;
            if engine.registry.newest(&row.spec.task_type).is_none() {
                return Err(ScheduleError::UnknownType(row.spec.task_type));
            }
            if let Some(task) = row.last_task.filter(|_| row.spec.overlap != Overlap::Allow)
                && is_busy(engine, &row).await?
            {
                return Err(ScheduleError::Busy(task));
            }
            match fire(engine, &mut row, None, now, actor).await {
                Ok(accepted) => return Ok(accepted),
                Err(SubmitError::Moved) => {}
                Err(error) => return Err(ScheduleError::Submit(error)),
            }
        }
        Err(ScheduleError::Moved)
    })
}
