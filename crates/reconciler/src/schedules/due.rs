//! Which schedules are due, as a plan: what the program declares anew, and pages of those that are
//! due. Changes nothing.

use super::decide::{Move, moves};
use counterstep_contracts::{ScheduleOrigin, ScheduleSpec, Tenant};
use counterstep_kernel::Engine;
use counterstep_kernel::ports::{DuePlace, ScheduleQuery, ScheduleRow, Schedules, StoreError};
use counterstep_kernel::schedule::is_busy;
use counterstep_steps::times::DbTime;
use counterstep_steps::{Registry, schedule};
use futures::future::BoxFuture;

/// What a pass is going to do about a schedule.
#[derive(Debug, Clone, PartialEq)]
pub enum ScheduleStep {
    /// Write down what the program declares: it is new, or has changed.
    Declare(ScheduleRow),
    /// Make these moves, one change each.
    Move {
        /// The schedule as it was read.
        row: ScheduleRow,
        /// The moves, in order.
        moves: Vec<Move>,
        /// The database's clock when it was read.
        now: DbTime,
    },
    /// It cannot be planned.
    Broken {
        /// Name of the schedule.
        name: String,
        /// Why it cannot fire, as text.
        why: String,
    },
}

impl ScheduleStep {
    /// Whether it fires or skips a due time.
    fn moves(&self) -> bool {
        match self {
            Self::Declare(_) | Self::Broken { .. } => false,
            Self::Move { moves, .. } => moves.iter().any(|step| !matches!(step, Move::Wait { .. })),
        }
    }
}

fn names(steps: &[ScheduleStep]) -> Vec<String> {
    let name = |step: &ScheduleStep| match step {
        ScheduleStep::Declare(row) => Some(row.name.clone()),
        ScheduleStep::Move { .. } | ScheduleStep::Broken { .. } => None,
    };
    steps.iter().filter_map(name).collect()
}

/// Some of the schedules that are due.
pub(super) struct DuePage {
    pub(super) steps: Vec<ScheduleStep>,
    /// Where the next page begins.
    pub(super) last: Option<DuePlace>,
}

/// Plans what is due, the longest due first, until `limit` schedules would fire or skip a due time.
/// Changes nothing.
///
/// # Errors
/// When the store does not answer.
pub fn plan(engine: &Engine, limit: u32) -> BoxFuture<'_, Result<Vec<ScheduleStep>, StoreError>> {
    Box::pin(async move {
        let mut steps = plan_declared(engine).await?;
        let (declared, mut moving, mut after) = (names(&steps), 0, None);
        loop {
            let page = plan_due(engine, &declared, after, limit.saturating_sub(moving)).await?;
            moving += u32::try_from(page.steps.iter().filter(|step| step.moves()).count())
                .unwrap_or(u32::MAX);
            steps.extend(page.steps);
            after = page.last;
            if after.is_none() || moving >= limit {
                return Ok(steps);
            }
        }
    })
}

/// What the program declares and the rows do not say yet.
pub(super) async fn plan_declared(engine: &Engine) -> Result<Vec<ScheduleStep>, StoreError> {
    let names: Vec<String> = engine.registry.schedules().keys().cloned().collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let named = ScheduleQuery::Named {
        tenant: Tenant::default(),
        names,
    };
    let found = engine.ports.store.schedules(&named).await?;
    Ok(to_declare(&engine.registry, &found))
}

/// Plans a page of those that are due, without those that are yet to be `declared` anew.
pub(super) async fn plan_due(
    engine: &Engine,
    declared: &[String],
    after: Option<DuePlace>,
    limit: u32,
) -> Result<DuePage, StoreError> {
    let mut types: Vec<String> = engine
        .registry
        .iter()
        .map(|known| known.decl.name.to_owned())
        .collect();
    types.dedup();
    let of_code = engine.registry.schedules().keys().cloned().collect();
    let query = ScheduleQuery::Due {
        types,
        declared: of_code,
        after,
        limit: limit.max(1),
    };
    let due = engine.ports.store.schedules(&query).await?;
    let mut steps = Vec::with_capacity(due.rows.len());
    for row in due.rows {
        // Another tenant's may have the same name.
        let anew = row.tenant == Tenant::default() && declared.contains(&row.name);
        let Some(first) = row.next_due_at.filter(|_| !anew) else {
            continue;
        };
        steps.push(match schedule::read_stored(&row.spec) {
            Err(error) => ScheduleStep::Broken {
                name: row.name,
                why: error.to_string(),
            },
            Ok(stored) => match is_busy(engine, &row).await {
                Ok(busy) => {
                    let moves = moves(&row.spec, &stored.when, first, due.now, busy);
                    ScheduleStep::Move {
                        row,
                        moves,
                        now: due.now,
                    }
                }
                // Not a row of its own, and no reason to leave the others.
                Err(StoreError::Corrupt(why) | StoreError::Unsupported(why)) => {
                    let why = format!("its last task cannot be read: {why}");
                    ScheduleStep::Broken {
                        name: row.name,
                        why,
                    }
                }
                Err(error) => return Err(error),
            },
        });
    }
    Ok(DuePage {
        steps,
        last: due.last,
    })
}

/// The schedules of a program that do not stand in the rows as it declares them.
fn to_declare(registry: &Registry, found: &Schedules) -> Vec<ScheduleStep> {
    let mut steps = Vec::new();
    for (name, spec) in registry.schedules() {
        let row = found.rows.iter().find(|row| row.name == *name);
        if row.is_some_and(|row| row.origin == ScheduleOrigin::Code && row.spec == *spec) {
            continue;
        }
        let same_times = row.is_some_and(|row| has_times_of(&row.spec, spec));
        let mut row = row.cloned().unwrap_or_else(|| {
            ScheduleRow::new(Tenant::default(), name.clone(), spec.clone(), found.now)
        });
        // A due time stands whatever else has changed: while two versions of a program declare the
        // schedule in turn, it would never come. Other times count from now on: what would have been
        // due before was not declared then.
        if !same_times {
            let when = schedule::read(&mut spec.clone()).ok();
            row.next_due_at = when.and_then(|when| when.after(found.now));
        }
        row.origin = ScheduleOrigin::Code;
        row.spec = spec.clone();
        row.rev = row.rev.next();
        steps.push(ScheduleStep::Declare(row));
    }
    steps
}

fn has_times_of(spec: &ScheduleSpec, other: &ScheduleSpec) -> bool {
    (&spec.cron, &spec.zone, &spec.run_at) == (&other.cron, &other.zone, &other.run_at)
}
