//! Operations on schedules: set, delete, pause, resume, run now. Each under the revision that was read; on a
//! revision conflict it is decided again on the newer row.

use super::fire::{fire, is_busy};
use crate::audit::admin_audit::{self, AdminChange};
use crate::client::SubmitError;
use crate::documents::{Edit, delete as delete_document, edit, readable_schedule, schedule_write};
use crate::engine::Engine;
use crate::ports::{DocumentKind, Documents, ScheduleQuery, ScheduleRow, StoreError};
use crate::record::DbTime;
use crate::task::RequestError;
use counterstep_contracts::http::Accepted;
use counterstep_contracts::schedule::{NAME, is_name};
use counterstep_contracts::{Overlap, ScheduleOrigin, ScheduleSpec, TaskId, Tenant};
use counterstep_steps::schedule::{self, check};
use futures::future::BoxFuture;
use serde_json::json;

const KIND: DocumentKind = DocumentKind::Schedule;

/// Maximum tries on a revision conflict: the schedule may fire meanwhile.
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
    #[error("the schedule was modified concurrently: try again")]
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
    /// Its next due times, at most `count`; none while it is paused.
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
        let query = ScheduleQuery::Named {
            tenant: tenant.clone(),
            names: named(name).into_iter().map(str::to_owned).collect(),
        };
        let found = engine.ports.store.schedules(&query).await?;
        let row = found.rows.into_iter().next().ok_or(ScheduleError::Gone)?;
        Ok(ScheduleState {
            row,
            now: found.now,
            is_new: false,
        })
    })
}

/// Another name has no row, and may be one that no database takes.
fn named(name: &str) -> Option<&str> {
    Some(name).filter(|name| is_name(name))
}

fn state_of(found: Documents) -> Option<ScheduleState> {
    let row = found.rows.into_iter().find_map(readable_schedule)?;
    Some(ScheduleState {
        row,
        now: found.now,
        is_new: false,
    })
}

/// Changes a schedule: `decide` is given what is there. The answer is the schedule behind the change.
async fn change(
    engine: &Engine,
    tenant: &Tenant,
    name: &str,
    actor: &str,
    mut decide: impl FnMut(Option<ScheduleState>, DbTime) -> Result<Changed, ScheduleError>,
) -> Result<ScheduleState, ScheduleError> {
    let store = &engine.ports.store;
    let names = Vec::from_iter(named(name));
    let written = edit(store, KIND, tenant, &names, |found| {
        let now = found.now;
        Ok::<_, ScheduleError>(match decide(state_of(found), now)? {
            Changed::Nothing(state) => Edit::keep(Some(*state)),
            Changed::To(mut row, event) => {
                row.rev = row.rev.next();
                Edit::write(schedule_write(&row)?, None).audited(entry(&row, event, actor))
            }
        })
    });
    match written.await?.ok_or(ScheduleError::Moved)? {
        Some(state) => Ok(state),
        None => get(engine, tenant, name).await,
    }
}

/// What a schedule is to be.
enum Changed {
    Nothing(Box<ScheduleState>),
    To(Box<ScheduleRow>, &'static str),
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
        let mut is_new = false;
        let state = change(engine, tenant, name, actor, |found, now| {
            is_free(engine, tenant, name, found.as_ref())?;
            is_new = found.is_none();
            let row = match found {
                Some(kept) if kept.row.spec == spec => {
                    return Ok(Changed::Nothing(Box::new(kept)));
                }
                Some(kept) => kept.row,
                None => ScheduleRow::new(tenant.clone(), name.to_owned(), spec.clone(), now),
            };
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
            let row = ScheduleRow {
                origin: ScheduleOrigin::Api,
                spec: spec.clone(),
                next_due_at: next,
                ..row
            };
            Ok(Changed::To(Box::new(row), "schedule_set"))
        });
        let state = state.await?;
        Ok(ScheduleState { is_new, ..state })
    })
}

/// Whether it is the API's to change. One from code that no code of this program declares is. What a program
/// declares is of the default tenant: to others its names are as free as any.
fn is_free(
    engine: &Engine,
    tenant: &Tenant,
    name: &str,
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
    let change = entry(row, event, actor);
    admin_audit::put(&engine.ports.store, schedule_write(row)?, change).await
}

/// Without the request, which is a payload.
fn entry(row: &ScheduleRow, event: &'static str, actor: &str) -> AdminChange {
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
        actor: actor.to_owned(),
        tenant: row.tenant.clone(),
        name: row.name.clone(),
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
        let store = &engine.ports.store;
        let names = Vec::from_iter(named(name));
        let deleted = edit(store, KIND, tenant, &names, |found| {
            let found = state_of(found);
            is_free(engine, tenant, name, found.as_ref())?;
            let ScheduleState { row, .. } = found.ok_or(ScheduleError::Gone)?;
            let deleted = delete_document(KIND, tenant.clone(), name.to_owned(), row.rev);
            let entry = entry(&row, "schedule_deleted", actor);
            Ok::<_, ScheduleError>(Edit::write(deleted, ()).audited(entry))
        });
        deleted.await?.ok_or(ScheduleError::Moved)
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
        let paused = change(engine, tenant, name, actor, |found, now| {
            let kept = found.ok_or(ScheduleError::Gone)?;
            if kept.row.paused == paused {
                return Ok(Changed::Nothing(Box::new(kept)));
            }
            let mut row = kept.row;
            row.paused = paused;
            if !paused {
                row.next_due_at = schedule::read_stored(&row.spec)?.when.after(now);
            }
            let event = if paused {
                "schedule_paused"
            } else {
                "schedule_resumed"
            };
            Ok(Changed::To(Box::new(row), event))
        });
        paused.await
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
