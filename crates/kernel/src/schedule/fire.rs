//! A pass over the schedules, as a plan and its execution: takes over what the program declares, and fires what is due.

use super::plan::{Move, PassedOver, plan};
use super::when;
use crate::client::{Firing, Receipt, Submission, SubmitError};
use crate::engine::Engine;
use crate::ports::{ScheduleChange, ScheduleQuery, ScheduleRow, ScheduleWrite, Schedules, StoreError};
use crate::record::DbTime;
use crate::task::newest;
use crate::times::rfc3339;
use counterstep_contracts::http::Accepted;
use counterstep_contracts::{Rev, ScheduleOrigin, TaskId, Tenant};
use futures::future::BoxFuture;
use serde_json::json;

/// What a pass is going to do about a schedule.
#[derive(Debug, Clone, PartialEq)]
pub enum ScheduleStep {
    /// Write down what the program declares: it is new, or has changed.
    Declare(ScheduleWrite),
    /// Make these moves, one change each.
    Move {
        /// The schedule as it was read.
        row: ScheduleRow,
        /// What it does.
        moves: Vec<Move>,
        /// The database's clock when it was read.
        now: DbTime,
    },
    /// It cannot be planned.
    Broken {
        /// Its name.
        name: String,
        /// Why not.
        why: String,
    },
}

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
    /// Schedules that somebody else has moved meanwhile.
    pub moved: usize,
    /// Failed, with the reason; they do not stop the others.
    pub failed: Vec<(String, String)>,
}

impl Engine {
    /// Plans what is due: at most `limit` schedules, the longest due first. Changes nothing.
    ///
    /// # Errors
    /// When the store does not answer.
    pub fn plan_schedules(&self, limit: u32) -> BoxFuture<'_, Result<Vec<ScheduleStep>, StoreError>> {
        Box::pin(async move {
            let store = &self.ports.store;
            let declared: Vec<String> = self.registry.schedules.keys().cloned().collect();
            let mut steps = Vec::new();
            if !declared.is_empty() {
                let named = ScheduleQuery::Named { tenant: Tenant::default(), names: declared.clone() };
                steps = self.to_declare(&store.schedules(&named).await?);
            }
            let mut types: Vec<String> = self.registry.iter().map(|known| known.decl.name.to_owned()).collect();
            types.dedup();
            let due = store.schedules(&ScheduleQuery::Due { types, declared, limit }).await?;
            for row in due.rows {
                let changes =
                    |step: &ScheduleStep| matches!(step, ScheduleStep::Declare(write) if write.row.name == row.name);
                let Some(first) = row.next_due_at.filter(|_| !steps.iter().any(changes)) else { continue };
                let step = match when::read(&mut row.spec.clone()) {
                    Err(error) => ScheduleStep::Broken { name: row.name, why: error.to_string() },
                    Ok(when) => match self.is_busy(&row).await {
                        Ok(busy) => {
                            let moves = plan(&row.spec, &when, first, due.now, busy);
                            ScheduleStep::Move { row, moves, now: due.now }
                        }
                        // Not a row of its own, and no reason to leave the others.
                        Err(StoreError::Corrupt(why)) => {
                            let why = format!("its last task cannot be read: {why}");
                            ScheduleStep::Broken { name: row.name, why }
                        }
                        Err(error) => return Err(error),
                    },
                };
                steps.push(step);
            }
            Ok(steps)
        })
    }

    /// The schedules of this program that do not stand in the rows as it declares them.
    fn to_declare(&self, found: &Schedules) -> Vec<ScheduleStep> {
        let mut steps = Vec::new();
        for (name, spec) in &self.registry.schedules {
            let row = found.rows.iter().find(|row| row.name == *name);
            if row.is_some_and(|row| row.origin == ScheduleOrigin::Code && row.spec == *spec) {
                continue;
            }
            // Counts from now on: what would have been due before was not declared then.
            let next_due_at = when::read(&mut spec.clone()).ok().and_then(|when| when.after(found.now));
            let mut row =
                row.cloned().unwrap_or_else(|| ScheduleRow::new(Tenant::default(), name.clone(), spec.clone()));
            row.origin = ScheduleOrigin::Code;
            row.spec = spec.clone();
            row.next_due_at = next_due_at;
            row.rev = row.rev.next();
            steps.push(ScheduleStep::Declare(ScheduleWrite { row, fires: false }));
        }
        steps
    }

    /// Whether its last task has not come to rest.
    pub(super) async fn is_busy(&self, row: &ScheduleRow) -> Result<bool, StoreError> {
        let Some(task) = row.last_task else { return Ok(false) };
        let record = match self.ports.store.load(task).await {
            Err(StoreError::Corrupt(_)) => self.ports.store.salvage(task).await?.map(|salvaged| salvaged.record),
            record => record?,
        };
        Ok(record.is_some_and(|record| !record.task.status.is_at_rest()))
    }

    /// Executes a plan. Each move is a change of its own; where somebody else has moved a schedule meanwhile, it is
    /// left to them.
    pub fn run_schedules(&self, plan: Vec<ScheduleStep>) -> BoxFuture<'_, ScheduleReport> {
        Box::pin(async move {
            let mut done = ScheduleReport::default();
            for step in plan {
                match step {
                    ScheduleStep::Broken { name, why } => done.failed.push((name, why)),
                    ScheduleStep::Declare(write) => {
                        let name = write.row.name.clone();
                        match self.ports.store.change_schedule(&ScheduleChange::Put(Box::new(write))).await {
                            Ok(true) => {
                                tracing::info!(schedule = name, "took over a schedule that the program declares");
                                done.declared += 1;
                            }
                            Ok(false) => done.moved += 1,
                            Err(error) => done.failed.push((name, error.to_string())),
                        }
                    }
                    ScheduleStep::Move { row, moves, now } => self.make(row, moves, now, &mut done).await,
                }
            }
            done
        })
    }

    async fn make(&self, mut row: ScheduleRow, moves: Vec<Move>, now: DbTime, done: &mut ScheduleReport) {
        for step in moves {
            let moved = match step {
                Move::Wait { .. } => {
                    done.waiting += 1;
                    return;
                }
                Move::PassOver { due, next, why } => self.pass_over(&mut row, (due, next), why, done).await,
                Move::Fire { due, next } => {
                    let mut fired = row.clone();
                    fired.next_due_at = next;
                    fired.last_due_at = Some(due);
                    let answer = self.fire(&mut fired, Some(due), &self.id).await;
                    match answer {
                        Err(SubmitError::Disabled(_)) => {}
                        _ => row = fired,
                    }
                    match answer {
                        Ok(Accepted { task_id: task, .. }) => {
                            tracing::info!(schedule = row.name, due = rfc3339(due), %task, "fired");
                            done.fired.push(Fired { schedule: row.name.clone(), due, task });
                            Ok(true)
                        }
                        Err(SubmitError::Moved) => Ok(false),
                        Err(SubmitError::Disabled(refusal)) => {
                            // All that is due until now goes at once.
                            let when = when::read(&mut row.spec.clone()).ok();
                            let next = when.and_then(|when| when.after(due.max(now)));
                            // A probe may let it go on at any moment, and might be of this very due time. What comes
                            // only once is not lost because its type was disabled for a minute.
                            if refusal.probing || next.is_none() {
                                // As a value, not as a text: what a person wrote stands in it.
                                let refusal = refusal.to_string();
                                tracing::info!(schedule = row.name, due = rfc3339(due), refusal, "a due time waits");
                                done.waiting += 1;
                                return;
                            }
                            let passed = self.pass_over(&mut row, (due, next), PassedOver::Disabled, done).await;
                            if !matches!(passed, Ok(true)) { passed } else { return }
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
        (due, next): (DbTime, Option<DbTime>),
        why: PassedOver,
        done: &mut ScheduleReport,
    ) -> Result<bool, String> {
        row.next_due_at = next;
        row.rev = row.rev.next();
        let change = ScheduleChange::Put(Box::new(ScheduleWrite { row: row.clone(), fires: false }));
        let written = self.ports.store.change_schedule(&change).await;
        if matches!(written, Ok(true)) {
            let why = match why {
                PassedOver::Missed => "nobody fired it in time",
                PassedOver::Overlaps => "its last task still runs",
                PassedOver::Disabled => "its task type is disabled",
            };
            tracing::info!(schedule = row.name, due = rfc3339(due), why, "passed a due time over");
            done.passed_over += 1;
        }
        written.map_err(|error| error.to_string())
    }

    /// Submits a task of a schedule and writes its row, in one change. `due`: `None` by hand.
    pub(super) async fn fire(
        &self,
        row: &mut ScheduleRow,
        due: Option<DbTime>,
        actor: &str,
    ) -> Result<Accepted, SubmitError> {
        let Some(task_type) = newest(&self.registry, &row.spec.task_type) else {
            return Err(SubmitError::Declaration(crate::StepError::permanent("its task type is not known here")));
        };
        let submission = Submission { tenant: row.tenant.clone(), key: None, traceparent: None };
        let mut receipt = Receipt::begin(self, task_type, submission).await?;
        if let Err(error) = receipt.body(row.spec.request.clone()) {
            receipt.abandon("the schedule's request is none").await;
            return Err(error);
        }
        row.last_task = Some(receipt.task_id());
        row.rev = row.rev.next();
        receipt.fires(Firing {
            write: ScheduleWrite { row: row.clone(), fires: true },
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
    pub fn new(tenant: Tenant, name: String, spec: counterstep_contracts::ScheduleSpec) -> Self {
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
            created_at: DbTime(0),
            updated_at: DbTime(0),
        }
    }
}
