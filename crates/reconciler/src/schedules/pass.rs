//! A pass over the schedules: takes over what the program declares, and fires what is due. What
//! that is, is planned in `due`.

use super::decide::{Move, SkipReason};
use super::due::{ScheduleStep, plan_declared, plan_due};
use counterstep_contracts::TaskId;
use counterstep_contracts::http::Accepted;
use counterstep_kernel::Engine;
use counterstep_kernel::client::SubmitError;
use counterstep_kernel::ports::{ScheduleRow, StoreError};
use counterstep_kernel::schedule::{fire, put_audited};
use counterstep_steps::cancel::CancelToken;
use counterstep_steps::schedule;
use counterstep_steps::times::{DbTime, rfc3339};
use futures::future::BoxFuture;

/// Maximum number of schedules that are planned at a time; a shutdown is checked between two pages.
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
    /// Times that a schedule skipped what was due.
    pub skipped: usize,
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
        self.fired.len() + self.skipped
    }
}

/// A pass over the schedules: plans and executes page by page, until `limit` due times have
/// fired or were skipped, or `shutdown`.
///
/// # Errors
/// When the store does not answer.
pub fn pass<'a>(
    engine: &'a Engine,
    limit: u32,
    shutdown: &'a CancelToken,
) -> BoxFuture<'a, Result<ScheduleReport, StoreError>> {
    Box::pin(async move {
        let within = Within {
            most: usize::try_from(limit).unwrap_or(usize::MAX),
            shutdown,
        };
        let mut done = run(engine, plan_declared(engine).await?).await;
        let mut after = None;
        loop {
            let page = plan_due(engine, &[], after, limit.min(PAGE)).await?;
            run_within(engine, page.steps, within, &mut done).await;
            after = page.last;
            if after.is_none() || within.is_over(&done) {
                return Ok(done);
            }
        }
    })
}

/// How far a pass goes.
#[derive(Debug, Clone, Copy)]
struct Within<'a> {
    /// Due times that fire or are skipped.
    most: usize,
    shutdown: &'a CancelToken,
}

impl Within<'_> {
    fn is_over(self, done: &ScheduleReport) -> bool {
        done.done() >= self.most || self.shutdown.is_cancelled()
    }
}

/// Executes a plan. Each move is a change of its own; a schedule that another writer has moved
/// meanwhile is left alone.
pub fn run(engine: &Engine, plan: Vec<ScheduleStep>) -> BoxFuture<'_, ScheduleReport> {
    Box::pin(async move {
        let (mut done, shutdown) = (ScheduleReport::default(), CancelToken::new());
        let within = Within {
            most: usize::MAX,
            shutdown: &shutdown,
        };
        run_within(engine, plan, within, &mut done).await;
        done
    })
}

async fn run_within(
    engine: &Engine,
    plan: Vec<ScheduleStep>,
    within: Within<'_>,
    done: &mut ScheduleReport,
) {
    for step in plan {
        match step {
            ScheduleStep::Broken { name, why } => done.failed.push((name, why)),
            ScheduleStep::Declare(row) => {
                let name = row.name.clone();
                match put_audited(engine, &row, "schedule_declared", &engine.id).await {
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
                make(engine, row, moves, now, within, done).await;
            }
        }
    }
}

async fn make(
    engine: &Engine,
    mut row: ScheduleRow,
    moves: Vec<Move>,
    now: DbTime,
    within: Within<'_>,
    done: &mut ScheduleReport,
) {
    for step in moves {
        // One schedule may catch up on thousands.
        if within.is_over(done) {
            return;
        }
        let moved = match step {
            Move::Wait { .. } => {
                done.waiting += 1;
                return;
            }
            Move::Skip { due, next, why } => {
                skip(engine, &mut row, SkippedDue { due, next, why }, done).await
            }
            Move::Fire { due, next } => {
                let mut fired = row.clone();
                fired.next_due_at = next;
                fired.last_due_at = Some(due);
                let answer = fire(engine, &mut fired, Some(due), now, &engine.id).await;
                match answer {
                    Err(SubmitError::Disabled(_) | SubmitError::TooManyAtOnce(_)) => {}
                    _ => row = fired,
                }
                match answer {
                    Ok(Accepted { task_id: task, .. }) => {
                        tracing::info!(schedule = row.name, due = rfc3339(due), %task, "fired");
                        if let Ok(schedule::Stored {
                            refused: Some(why), ..
                        }) = schedule::read_stored(&row.spec)
                        {
                            let why = why.to_string();
                            tracing::warn!(
                                schedule = row.name,
                                why,
                                "a schedule goes on in a form that is refused today: set it anew"
                            );
                        }
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
                        let stored = schedule::read_stored(&row.spec).ok();
                        let next = stored.and_then(|stored| stored.when.after(due.max(now)));
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
                        let why = SkipReason::Disabled;
                        let skipped =
                            skip(engine, &mut row, SkippedDue { due, next, why }, done).await;
                        if !matches!(skipped, Ok(true)) {
                            skipped
                        } else {
                            return;
                        }
                    }
                    // What comes only once waits.
                    Err(SubmitError::TooManyAtOnce(_)) if next.is_none() => {
                        done.waiting += 1;
                        return;
                    }
                    Err(SubmitError::TooManyAtOnce(_)) => {
                        let why = SkipReason::TooManyAtOnce;
                        skip(engine, &mut row, SkippedDue { due, next, why }, done).await
                    }
                    Err(error) => Err(error.in_log(&engine.ports.store)),
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

/// A due time that does not fire.
struct SkippedDue {
    due: DbTime,
    /// The schedule's next one.
    next: Option<DbTime>,
    why: SkipReason,
}

async fn skip(
    engine: &Engine,
    row: &mut ScheduleRow,
    SkippedDue { due, next, why }: SkippedDue,
    done: &mut ScheduleReport,
) -> Result<bool, String> {
    row.next_due_at = next;
    row.rev = row.rev.next();
    let written = engine.ports.store.put_schedule(row).await;
    if matches!(written, Ok(true)) {
        let why = match why {
            SkipReason::Missed => "it was not fired in time",
            SkipReason::Overlaps => "its last task still runs",
            SkipReason::Disabled => "its task type is disabled",
            SkipReason::TooManyAtOnce => "as many tasks of its type or key are under way as may be",
        };
        tracing::info!(
            schedule = row.name,
            due = rfc3339(due),
            why,
            "skipped a due time"
        );
        done.skipped += 1;
    }
    written.map_err(|error| error.to_string())
}
