//! The reconciler: takes back what lost hosts held, relays what was not published, sweeps what no row references, and
//! submits what schedules say.
//! Each is a plan and its execution in the kernel; this decides how often, how much, and what to report.

pub mod cli;

use counterstep_contracts::Keep;
use counterstep_kernel::disable::{TypeStep, TypeVerdict};
use counterstep_kernel::orphans::{Found, OrphanAction, SweepPlan};
use counterstep_kernel::ports::{Leaving, Lost, StoreError};
use counterstep_kernel::recovery::Recover;
use counterstep_kernel::retention::{Retire, RetirePlan};
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
    /// Time between passes.
    pub every: Duration,
    /// Pages of a listing of objects that are read in one pass; a listing that is longer goes on in the next.
    pub pages: u32,
}

impl Default for ReconcilerSettings {
    fn default() -> Self {
        Self {
            limit: 1_000,
            lost: Lost::default(),
            relay_after: Duration::from_secs(2),
            every: Duration::from_secs(30),
            pages: 100,
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
    /// Schedules that are due, or that the program declares anew.
    pub schedules: Vec<ScheduleStep>,
    /// Tasks that ended long enough ago.
    pub retire: RetirePlan,
    /// Task types that failures disable, or whose probe has ended.
    pub types: Vec<TypeStep>,
}

/// What a pass did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Tasks taken back from lost hosts.
    pub taken_back: usize,
    /// Lost tasks of types that this process does not know.
    pub unknown: usize,
    /// Lost tasks that cannot be read: parked for a person.
    pub quarantined: usize,
    /// Messages relayed.
    pub relayed: u64,
    /// Prefixes of attempts that were swept.
    pub prefixes: u64,
    /// Orphaned objects that were deleted, half-done uploads among them.
    pub objects: u64,
    /// Orphaned objects that were moved to the archive.
    pub archived: u64,
    /// Orphaned objects that stay because their policy says so.
    pub reported: u64,
    /// Objects that are not named like ours: seen by a listing and left alone.
    pub foreign: u64,
    /// Tasks that were written to the archive because their time was over.
    pub tasks_archived: u64,
    /// Tasks that were deleted because their time was over.
    pub tasks_deleted: u64,
    /// Objects that went with them.
    pub objects_deleted: u64,
    /// Tasks whose scratch on this machine was removed.
    pub scratch: u64,
    /// Due times of schedules that fired: a task each.
    pub fired: usize,
    /// Times that a schedule passed over what was due.
    pub passed_over: usize,
    /// Schedules that were taken over as the program declares them.
    pub declared: usize,
    /// Task types that were disabled.
    pub disabled: usize,
    /// Task types that were enabled by their probe.
    pub enabled: usize,
    /// What did not work; the next pass tries again.
    pub failed: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} tasks taken back, {} messages relayed, {} orphans deleted under {} prefixes, {} failures",
            self.taken_back,
            self.relayed,
            self.objects,
            self.prefixes,
            self.failed.len()
        )?;
        if self.fired + self.passed_over + self.declared > 0 {
            write!(
                f,
                ", schedules: {} fired, {} passed over, {} taken over",
                self.fired, self.passed_over, self.declared
            )?;
        }
        if self.archived + self.reported > 0 {
            write!(f, ", {} orphans archived, {} reported", self.archived, self.reported)?;
        }
        if self.tasks_archived + self.tasks_deleted > 0 {
            write!(f, ", {} old tasks archived, {} deleted", self.tasks_archived, self.tasks_deleted)?;
        }
        if self.foreign > 0 {
            write!(f, ", {} objects of others left alone", self.foreign)?;
        }
        if self.disabled + self.enabled > 0 {
            write!(f, ", task types: {} disabled, {} enabled", self.disabled, self.enabled)?;
        }
        if self.quarantined > 0 {
            write!(f, ", {} unreadable tasks parked", self.quarantined)?;
        }
        Ok(())
    }
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
        for Leaving { task, .. } in &self.retire.buried {
            writeln!(f, "delete what is left of the objects of task {task}: its rows are gone")?;
        }
        for Retire { task_type, status, keep, tasks } in &self.retire.retire {
            let what = if matches!(keep, Keep::ThenArchive(_)) { "archive and delete" } else { "delete" };
            for Leaving { task, .. } in tasks {
                writeln!(f, "{what} task {task}: a {task_type} that {status} long enough ago")?;
            }
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
        ScheduleStep::Move { row, moves } => (row, moves),
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
            retire: engine.plan_retention(settings.limit).await?,
            types: engine.plan_types().await?,
        })
    })
}

/// What the listing of objects would do, in lines; at most as many orphans as a pass has a limit for.
///
/// # Errors
/// When the store or the object store does not answer.
pub fn plan_listing<'a>(
    engine: &'a Engine,
    settings: &'a ReconcilerSettings,
) -> BoxFuture<'a, Result<String, StoreError>> {
    Box::pin(async move {
        let limit = usize::try_from(settings.limit).unwrap_or(usize::MAX);
        let planned = engine.plan_listing(settings.pages, limit).await?;
        let mut lines = String::new();
        for Found { orphan, action, .. } in &planned.found {
            let what = match action {
                OrphanAction::Delete => "delete".to_owned(),
                OrphanAction::Archive { prefix } => format!("move to archive/{prefix}"),
                OrphanAction::Report => "report".to_owned(),
            };
            let half = if orphan.half { " (half-done)" } else { "" };
            let age = Duration::from_secs(orphan.age.as_secs());
            lines += &format!("{what} orphan {}/{}{half}: {age:?} old, {}\n", orphan.bucket, orphan.key, orphan.why);
        }
        if planned.foreign > 0 {
            lines += &format!("leave {} objects that are not named like ours\n", planned.foreign);
        }
        if planned.more {
            lines += "there are more objects than were looked at: raise --limit or --pages to see more\n";
        }
        Ok(lines)
    })
}

/// Executes a plan, and relays left-over messages. Lists objects where that is due.
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
        // Before anything that takes long: tasks may wait for it.
        let relayed = engine.relay(settings.relay_after, settings.limit).await?;
        let swept = engine.sweep(plan.sweep).await?;
        let retired = engine.retire(plan.retire).await?;
        let listed = engine.sweep_listing(settings.pages).await?;
        let scratch = engine.sweep_scratch().await;
        let mut failed: Vec<String> =
            recovered.failed.into_iter().map(|(task, why)| format!("task {task}: {why}")).collect();
        failed.extend(swept.failed.into_iter().map(|(prefix, why)| format!("prefix {prefix}: {why}")));
        failed.extend(listed.failed);
        failed.extend(retired.failed);
        failed.extend(scheduled.failed.into_iter().map(|(name, why)| format!("schedule {name}: {why}")));
        failed.extend(switched.failed.into_iter().map(|(name, why)| format!("task type {name}: {why}")));
        Ok(Report {
            disabled: switched.disabled,
            enabled: switched.enabled,
            fired: scheduled.fired.len(),
            passed_over: scheduled.passed_over,
            declared: scheduled.declared,
            taken_back: recovered.taken_back.len(),
            unknown: recovered.unknown.len(),
            quarantined: recovered.quarantined.len(),
            relayed,
            prefixes: swept.prefixes,
            objects: swept.objects + listed.deleted,
            archived: swept.archived + listed.archived,
            reported: swept.reported + listed.reported,
            foreign: listed.foreign,
            tasks_archived: retired.archived,
            tasks_deleted: retired.deleted,
            objects_deleted: retired.objects,
            scratch,
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
        tracing::info!(reconciler = %engine.id, every = ?settings.every, "reconciler started");
        loop {
            match pass(&engine, &settings).await {
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
    })
}
