//! The change in which a schedule submits its task, and the look at the task before it.

use crate::client::{Firing, Submission, SubmitError, UploadSession};
use crate::documents::schedule_write;
use crate::engine::Engine;
use crate::ports::{ScheduleRow, StoreError};
use crate::record::DbTime;
use crate::task::TaskType;
use crate::times::rfc3339;
use counterstep_contracts::http::Accepted;
use counterstep_contracts::{Labels, Rev, ScheduleOrigin, Tenant};
use counterstep_steps::traces::TRACES;
use serde_json::json;
use tracing::Instrument;

/// Whether the last task of a schedule has not come to rest.
///
/// # Errors
/// When the store does not answer, or an active task cannot be read.
pub async fn is_busy(engine: &Engine, row: &ScheduleRow) -> Result<bool, StoreError> {
    let Some(task) = row.last_task else {
        return Ok(false);
    };
    let record = match engine.ports.store.load(task).await {
        Err(StoreError::Corrupt(_)) => engine
            .ports
            .store
            .salvage(task)
            .await?
            .map(|salvaged| salvaged.record),
        record => record?,
    };
    Ok(record.is_some_and(|record| !record.task.status.is_at_rest()))
}

/// Submits a task of a schedule and writes its row, in one change. `row`: as it was read, with
/// the due times that are to stand in it then; the rest of the step is made here. `due`: `None`
/// by hand; `now`: the database's clock when the row was read; `actor`: who stands in the audit.
///
/// # Errors
/// [`SubmitError::Moved`], where another writer has moved the schedule meanwhile; the others as
/// for any submission.
pub async fn fire(
    engine: &Engine,
    row: &mut ScheduleRow,
    due: Option<DbTime>,
    now: DbTime,
    actor: &str,
) -> Result<Accepted, SubmitError> {
    let Some(task_type) = engine.registry.newest(&row.spec.task_type) else {
        return Err(SubmitError::Declaration(
            crate::error::StepError::permanent("its task type is not known here"),
        ));
    };
    let span = tracing::debug_span!(
        target: TRACES,
        "schedule",
        otel.name = format_args!("schedule {}", row.spec.task_type),
        task_type = row.spec.task_type,
        schedule = row.name,
    );
    let submission = Submission {
        tenant: row.tenant.clone(),
        actor: "client".to_owned(),
        key: None,
        // Of each task that a schedule submits, the trace begins here.
        traceparent: engine.traces.traceparent(&span),
        webhook: None,
        labels: Labels::new(),
    };
    let firing = submit(engine, row, task_type, submission, Due { due, now, actor });
    firing.instrument(span).await
}

/// When, and by whom.
struct Due<'a> {
    due: Option<DbTime>,
    now: DbTime,
    actor: &'a str,
}

async fn submit(
    engine: &Engine,
    row: &mut ScheduleRow,
    task_type: TaskType,
    submission: Submission,
    Due { due, now, actor }: Due<'_>,
) -> Result<Accepted, SubmitError> {
    let mut session = UploadSession::of_schedule(engine, task_type, submission).await?;
    let fired = fire_in(&mut session, row, Due { due, now, actor }).await;
    session.unless_refused(fired).await
}

async fn fire_in(
    session: &mut UploadSession,
    row: &mut ScheduleRow,
    Due { due, now, actor }: Due<'_>,
) -> Result<Accepted, SubmitError> {
    session.body(row.spec.request.clone())?;
    row.last_task = Some(session.task_id());
    row.last_fired_at = Some(now);
    row.rev = row.rev.next();
    let write = schedule_write(row).map_err(SubmitError::Store)?;
    session.fires(Firing {
        write,
        details: json!({ "scheduled": { "schedule": row.name, "due": due.map(rfc3339) } }),
        actor: actor.to_owned(),
    });
    Ok(session.submit().await?.answer)
}

impl ScheduleRow {
    /// One that is not written yet.
    #[must_use]
    pub const fn new(
        tenant: Tenant,
        name: String,
        spec: counterstep_contracts::ScheduleSpec,
        now: DbTime,
    ) -> Self {
        Self {
            tenant,
            name,
            origin: ScheduleOrigin::Api,
            spec,
            paused: false,
            next_due_at: None,
            last_due_at: None,
            last_fired_at: None,
            last_task: None,
            rev: Rev(0),
            created_at: now,
            updated_at: now,
        }
    }
}
