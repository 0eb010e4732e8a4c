//! The reconciler: takes back what lost hosts held, relays what was not published, offers again what nobody came for,
//! sweeps what no row references, and submits what schedules say.
//! Each is a plan and its execution in the kernel; this decides how often, how much, and what to report.

pub mod cli;
mod report;

pub use report::Report;

use counterstep_kernel::disable::{TypeStep, TypeVerdict};
use counterstep_kernel::orphans::SweepPlan;
use counterstep_kernel::ports::{Lost, StoreError};
use counterstep_kernel::presence::Part;
use counterstep_kernel::recovery::Recover;
use counterstep_kernel::repair::RepairPlan;
use counterstep_kernel::schedule::{Move, PassedOver, ScheduleStep};
use counterstep_kernel::times::rfc3339;
use counterstep_kernel::{CancelToken, Engine};
use futures::future::BoxFuture;
use std::fmt;
use std::time::Duration;

/// How a pass is bounded.
#[derive(Debug, Clone)]
pub struct ReconcilerSettings {
    /// At most so many of each kind in one pass.
    pub limit: u32,
    /// Which lost tasks to take back.
    pub lost: Lost,
    /// A message that nobody has published for this long is relayed.
    pub relay_after: Duration,
    /// A task that was offered, or is due, and that nobody has come for in so long is offered again.
    pub offer_after: Duration,
    /// Time between passes.
    pub every: Duration,
}

impl Default for ReconcilerSettings {
    fn default() -> Self {
        Self {
            limit: 1_000,
            lost: Lost::default(),
            relay_after: Duration::from_secs(2),
            offer_after: Duration::from_secs(60),
            every: Duration::from_secs(30),
        }
    }
}

/// What a pass is going to do.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PassPlan {
    /// Lost tasks.
    pub recover: Vec<Recover>,
    /// Overdue intents.
    pub sweep: SweepPlan,
    /// What nobody came for, and what the queue has lost.
    pub repair: RepairPlan,
    /// Since when the oldest message waits to be relayed, where it waits for long enough.
    pub unpublished: Option<Duration>,
    /// Processes that were not seen for a day.
    pub forget: Vec<String>,
    /// Schedules that are due, or that the program declares anew.
    pub schedules: Vec<ScheduleStep>,
    /// Task types that failures disable, or whose probe has ended.
    pub types: Vec<TypeStep>,
}

impl fmt::Display for PassPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for recover in &self.recover {
            match recover {
                Recover::TakeBack(task) => writeln!(f, "take back task {task}: its lease has run out")?,
                Recover::UnknownType(task) => {
                    writeln!(
                        f,
                        "leave task {}: type {} version {} is not known here",
                        task.task, task.task_type, task.version
                    )?;
                }
            }
        }
        for intent in &self.sweep.condemn {
            writeln!(f, "sweep {}: overdue for {:?}", intent.prefix, intent.overdue)?;
        }
        for step in &self.schedules {
            write_schedule(f, step)?;
        }
        for step in &self.types {
            let what = match step.verdict {
                TypeVerdict::Disabled => "disable",
                TypeVerdict::StaysDisabled => "keep disabled for another cooldown",
                TypeVerdict::ProbeGone => "take another probe of",
                TypeVerdict::Enabled => "enable",
            };
            writeln!(f, "{what} task type {}: {}", step.row.name, step.row.reason)?;
        }
        if let Some(age) = self.unpublished {
            writeln!(f, "relay messages: the oldest has waited for {age:?}")?;
        }
        for missing in &self.repair.queue {
            writeln!(f, "make again {missing}: the queue's server does not have it")?;
        }
        if let Some(why) = &self.repair.silent {
            writeln!(f, "leave tasks that nobody came for: {why}")?;
        }
        for task in &self.repair.offer {
            writeln!(f, "offer task {} again: it is {}, and nobody came for it", task.task, task.status)?;
        }
        for worker in &self.forget {
            writeln!(f, "forget process {worker}: it was not seen for a day")?;
        }
        if *self == Self::default() {
            writeln!(f, "nothing to do")?;
        }
        Ok(())
    }
}

fn write_schedule(f: &mut fmt::Formatter<'_>, step: &ScheduleStep) -> fmt::Result {
    let (row, moves) = match step {
        ScheduleStep::Declare(write) => {
            return writeln!(f, "take over schedule {}: the program declares it so", write.row.name);
        }
        ScheduleStep::Broken { name, why } => return writeln!(f, "leave schedule {name}: {why}"),
        ScheduleStep::Move { row, moves, now: _ } => (row, moves),
    };
    let name = &row.name;
    for step in moves {
        match *step {
            Move::Fire { due, .. } => {
                writeln!(f, "fire schedule {name}: a {} was due {}", row.spec.task_type, rfc3339(due))?;
            }
            Move::PassOver { due, why: PassedOver::Missed, .. } => {
                writeln!(f, "pass over schedule {name}: due {}, and nobody fired it in time", rfc3339(due))?;
            }
            Move::PassOver { due, why: PassedOver::Disabled, .. } => {
                writeln!(f, "pass over schedule {name}: due {}, and its task type is disabled", rfc3339(due))?;
            }
            Move::PassOver { due, why: PassedOver::Overlaps, .. } => {
                writeln!(f, "pass over schedule {name}: due {}, and its last task still runs", rfc3339(due))?;
            }
            Move::Wait { due } => {
                writeln!(f, "leave schedule {name}: due {}, and waits for its last task", rfc3339(due))?;
            }
        }
    }
    Ok(())
}

/// Plans a pass. Changes nothing.
///
/// # Errors
/// When the store does not answer.
pub fn plan<'a>(engine: &'a Engine, settings: &'a ReconcilerSettings) -> BoxFuture<'a, Result<PassPlan, StoreError>> {
    Box::pin(async move {
        Ok(PassPlan {
            recover: engine.plan_recovery_of(settings.lost.clone(), settings.limit).await?,
            sweep: engine.plan_sweep(settings.limit).await?,
            schedules: engine.plan_schedules(settings.limit).await?,
            types: engine.plan_types().await?,
            repair: engine.plan_repair(settings.offer_after, settings.limit).await?,
            unpublished: engine.oldest_unpublished().await?.filter(|age| *age >= settings.relay_after),
            forget: engine.plan_forget().await?,
        })
    })
}

/// Executes a plan, and relays left-over messages, whether or not any were seen while planning.
///
/// # Errors
/// When the store does not answer.
pub fn execute<'a>(
    engine: &'a Engine,
    settings: &'a ReconcilerSettings,
    plan: PassPlan,
) -> BoxFuture<'a, Result<Report, StoreError>> {
    Box::pin(async move {
        // The only ones with a time that people watch, and quickly done.
        let scheduled = engine.run_schedules(plan.schedules).await;
        let recovered = engine.recover(plan.recover).await;
        let switched = engine.run_types(plan.types).await;
        let swept = engine.sweep(plan.sweep).await?;
        let relayed = engine.relay(settings.relay_after, settings.limit).await?;
        let repaired = engine.repair(plan.repair, settings.offer_after).await;
        let forgotten = engine.forget(plan.forget).await?;
        let mut failed: Vec<String> =
            recovered.failed.into_iter().map(|(task, why)| format!("task {task}: {why}")).collect();
        failed.extend(swept.failed.into_iter().map(|(prefix, why)| format!("prefix {prefix}: {why}")));
        failed.extend(scheduled.failed.into_iter().map(|(name, why)| format!("schedule {name}: {why}")));
        failed.extend(switched.failed.into_iter().map(|(name, why)| format!("task type {name}: {why}")));
        failed.extend(repaired.failed.into_iter().map(|(task, why)| match task {
            Some(task) => format!("task {task}: {why}"),
            None => format!("queue: {why}"),
        }));
        Ok(Report {
            disabled: switched.disabled,
            enabled: switched.enabled,
            offered: repaired.offered.len(),
            mended: repaired.queue,
            forgotten,
            fired: scheduled.fired.len(),
            passed_over: scheduled.passed_over,
            declared: scheduled.declared,
            taken_back: recovered.taken_back.len(),
            unknown: recovered.unknown.len(),
            quarantined: recovered.quarantined.len(),
            relayed,
            prefixes: swept.prefixes,
            objects: swept.objects,
            failed,
        })
    })
}

/// One pass: plan and execution.
///
/// # Errors
/// When the store does not answer.
pub fn pass<'a>(engine: &'a Engine, settings: &'a ReconcilerSettings) -> BoxFuture<'a, Result<Report, StoreError>> {
    Box::pin(async move {
        let plan = plan(engine, settings).await?;
        execute(engine, settings, plan).await
    })
}

/// Passes until `shutdown`. A pass that fails is logged, and the next one tries again.
pub fn serve(engine: Engine, settings: ReconcilerSettings, shutdown: CancelToken) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let passing = Box::pin(passes(&engine, &settings, &shutdown));
        engine.present(Part::default(), passing).await;
    })
}

async fn passes(engine: &Engine, settings: &ReconcilerSettings, shutdown: &CancelToken) {
    tracing::info!(reconciler = %engine.id, every = ?settings.every, "reconciler started");
    loop {
        let passed = pass(engine, settings).await;
        if let Ok(report) = &passed {
            engine.passed(report.counts());
        }
        match passed {
            Ok(report) if report == Report::default() => tracing::debug!("pass: nothing to do"),
            Ok(report) => tracing::info!(%report, "pass"),
            Err(error) => tracing::error!(%error, "a pass failed"),
        }
        tokio::select! {
            () = engine.ports.clock.sleep(settings.every) => {}
            _ = shutdown.cancelled() => break,
        }
    }
    tracing::info!(reconciler = %engine.id, "reconciler stopped");
}
