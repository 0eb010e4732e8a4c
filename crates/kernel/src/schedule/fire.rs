//! A pass over the schedules: takes over what the program declares, and fires what is due. What
//! that is, is planned in `due`.

use super::due::{ScheduleStep, names};
use super::plan::{Move, PassedOver};
use crate::cancel::CancelToken;
use crate::client::{Firing, Receipt, Submission, SubmitError};
use crate::documents::{TypedDocuments, schedule_write};
use crate::engine::Engine;
use crate::ports::{ScheduleRow, StoreError};
use crate::record::DbTime;
use crate::times::rfc3339;
use counterstep_contracts::http::Accepted;
use counterstep_contracts::{Rev, ScheduleOrigin, TaskId, Tenant};
use counterstep_steps::schedule;
use futures::future::BoxFuture;
use serde_json::json;

/// Schedules that are planned at a time; a shutdown is looked at between two pages.
const PAGE: u32 = 100;

/// A due time that has fired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fired {
    /// The schedule's name.
    pub schedule: String,
    /// The due time.
    pub due: DbTime,
    /// Its task.
    pub task: TaskId,
}

/// What became of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScheduleReport {
    /// Taken over from the program.
    pub declared: usize,
    /// Fired.
    pub fired: Vec<Fired>,
    /// Times that a schedule passed over what was due.
    pub passed_over: usize,
    /// Schedules whose due time waits for their last task.
    pub waiting: usize,
    /// Schedules that another writer has moved meanwhile.
    pub moved: usize,
    /// Failed, with the reason; they do not stop the others.
    pub failed: Vec<(String, String)>,
}

impl ScheduleReport {
    /// Due times that are dealt with. Schedules that wait or fail use up nothing of a pass's limit:
    /// they are the first again in each pass, and must not keep those behind them from their turn.
    fn done(&self) -> usize {
        self.fired.len() + self.passed_over
    }

    fn add(&mut self, other: Self) {
        self.declared += other.declared;
        self.fired.extend(other.fired);
        self.passed_over += other.passed_over;
        self.waiting += other.waiting;
        self.moved += other.moved;
        self.failed.extend(other.failed);
    }
}

impl Engine {
    /// A pass over the schedules: plans and executes page by page, until `limit` due times have
    /// fired or were passed over, or `shutdown`.
    ///
    /// # Errors
    /// When the store does not answer.
    pub fn fire_schedules<'a>(
        &'a self,
        limit: u32,
        shutdown: &'a CancelToken,
    ) -> BoxFuture<'a, Result<ScheduleReport, StoreError>> {
        Box::pin(async move {
            let declare = self.plan_declared().await?;
            let declared = names(&declare);
            let mut done = self.run_schedules(declare).await;
            let most = usize::try_from(limit).unwrap_or(usize::MAX);
            let mut after = None;
            loop {
                let page = self.plan_due(&declared, after, limit.min(PAGE)).await?;
                done.add(self.run_schedules(page.steps).await);
                after = page.last;
                if after.is_none() || done.done() >= most || shutdown.is_cancelled() {
                    return Ok(done);
                }
            }
        })
    }

    /// Executes a plan. Each move is a change of its own; a schedule that another writer has moved
    /// meanwhile is skipped.
    pub fn run_schedules(&self, plan: Vec<ScheduleStep>) -> BoxFuture<'_, ScheduleReport> {
        Box::pin(async move {
            let mut done = ScheduleReport::default();
            for step in plan {
                match step {
                    ScheduleStep::Broken { name, why } => done.failed.push((name, why)),
                    ScheduleStep::Declare(row) => {
                        let name = row.name.clone();
                        match self.ports.store.put_schedule(&row).await {
                            Ok(true) => {
                                tracing::info!(
                                    schedule = name,
                                    "took over a schedule that the program declares"
                                );
                                done.declared += 1;
                            }
                            Ok(false) => done.moved += 1,
                            Err(error) => done.failed.push((name, error.to_string())),
                        }
                    }
                    ScheduleStep::Move { row, moves, now } => {
                        self.make(row, moves, now, &mut done).await
                    }
                }
            }
            done
        })
    }

    async fn make(
        &self,
        mut row: ScheduleRow,
        moves: Vec<Move>,
        now: DbTime,
        done: &mut ScheduleReport,
    ) {
        for step in moves {
            let moved = match step {
                Move::Wait { .. } => {
                    done.waiting += 1;
                    return;
                }
                Move::PassOver { due, next, why } => {
                    self.pass_over(&mut row, due, next, why, done).await
                }
                Move::Fire { due, next } => {
                    let mut fired = row.clone();
                    fired.next_due_at = next;
                    fired.last_due_at = Some(due);
                    let answer = self.fire(&mut fired, Some(due), now, &self.id).await;
                    match answer {
                        Err(SubmitError::Disabled(_)) => {}
                        _ => row = fired,
                    }
                    match answer {
                        Ok(Accepted { task_id: task, .. }) => {
                            tracing::info!(schedule = row.name, due = rfc3339(due), %task, "fired");
                            done.fired.push(Fired {
                                schedule: row.name.clone(),
                                due,
                                task,
                            });
                            Ok(true)
                        }
                        Err(SubmitError::Moved) => Ok(false),
                        Err(SubmitError::Disabled(refusal)) => {
                            // All that is due until now goes at once.
                            let when = schedule::read(&mut row.spec.clone()).ok();
                            let next = when.and_then(|when| when.after(due.max(now)));
                            // A probe may let it go on at any moment, and might be of this very due
                            // time. What comes only once is not lost because its type was disabled
                            // for a minute.
                            if refusal.probing || next.is_none() {
                                // As a value, not as a text: what a person wrote stands in it.
                                let refusal = refusal.to_string();
                                tracing::info!(
                                    schedule = row.name,
                                    due = rfc3339(due),
                                    refusal,
                                    "a due time waits"
                                );
                                done.waiting += 1;
                                return;
                            }
                            let passed = self
                                .pass_over(&mut row, due, next, PassedOver::Disabled, done)
                                .await;
                            if !matches!(passed, Ok(true)) {
                                passed
                            } else {
                                return;
                            }
                        }
                        Err(error) => Err(error.to_string()),
                    }
                }
            };
            match moved {
                Ok(true) => {}
                Ok(false) => {
                    done.moved += 1;
                    return;
                }
                Err(why) => {
                    tracing::error!(
                        schedule = row.name,
                        why,
                        "a schedule could not be moved; the next pass tries again"
                    );
                    done.failed.push((row.name, why));
                    return;
                }
            }
        }
    }

    async fn pass_over(
        &self,
        row: &mut ScheduleRow,
        due: DbTime,
        next: Option<DbTime>,
        why: PassedOver,
        done: &mut ScheduleReport,
    ) -> Result<bool, String> {
        row.next_due_at = next;
        row.rev = row.rev.next();
        let written = self.ports.store.put_schedule(row).await;
        if matches!(written, Ok(true)) {
            let why = match why {
                PassedOver::Missed => "it was not fired in time",
                PassedOver::Overlaps => "its last task still runs",
                PassedOver::Disabled => "its task type is disabled",
            };
            tracing::info!(
                schedule = row.name,
                due = rfc3339(due),
                why,
                "passed a due time over"
            );
            done.passed_over += 1;
        }
        written.map_err(|error| error.to_string())
    }

    /// Submits a task of a schedule and writes its row, in one change. `due`: `None` by hand;
    /// `now`: the database's clock when the row was read.
    pub(super) async fn fire(
        &self,
        row: &mut ScheduleRow,
        due: Option<DbTime>,
        now: DbTime,
        actor: &str,
    ) -> Result<Accepted, SubmitError> {
        let Some(task_type) = self.registry.newest(&row.spec.task_type) else {
            return Err(SubmitError::Declaration(
                crate::error::StepError::permanent("its task type is not known here"),
            ));
        };
        let submission = Submission {
            tenant: row.tenant.clone(),
            key: None,
            traceparent: None,
        };
        let mut receipt = Receipt::begin(self, task_type, submission).await?;
        if let Err(error) = receipt.body(row.spec.request.clone()) {
            receipt.abandon("the schedule's request is none").await;
            return Err(error);
        }
        row.last_task = Some(receipt.task_id());
        row.last_fired_at = Some(now);
        row.rev = row.rev.next();
        let write = match schedule_write(row) {
            Ok(write) => write,
            Err(error) => {
                receipt.abandon("the schedule cannot be written").await;
                return Err(SubmitError::Store(error));
            }
        };
        receipt.fires(Firing {
            write,
            details: json!({ "scheduled": { "schedule": row.name, "due": due.map(rfc3339) } }),
            actor: actor.to_owned(),
        });
        match receipt.submit().await {
            Ok(submitted) => Ok(submitted.answer),
            Err(error) => {
                receipt.abandon("the schedule did not fire").await;
                Err(error)
            }
        }
    }
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
