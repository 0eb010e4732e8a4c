//! What a pass is going to do, as text: for `--dry-run`. Changes nothing.

use crate::orphans::listing::ListingError;
use crate::orphans::{self, Found};
use crate::pass_parts::Unreadable;
use crate::recovery::{self, Recover};
use crate::redispatch::{self, RedispatchPlan};
use crate::retention::{self, PurgeGroup, PurgePlan};
use crate::schedules::{self, Move, ScheduleStep, SkipReason};
use crate::{ReconcilerSettings, parents, places, workers};
use counterstep_contracts::{Keep, TaskId, TaskStatus};
use counterstep_kernel::Engine;
use counterstep_kernel::admission::disable::{self, TypeStep, TypeVerdict};
use counterstep_kernel::change::intents::Intent;
use counterstep_kernel::ports::{EndedTask, StoreError};
use counterstep_kernel::status;
use counterstep_steps::orphans::OrphanAction;
use counterstep_steps::times::rfc3339;
use futures::future::BoxFuture;
use std::fmt;
use std::time::Duration;

/// What a pass is going to do.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PassPlan {
    /// Lost tasks.
    pub recover: Vec<Recover>,
    /// Tasks that sleep although one that they have submitted has ended.
    pub wake: Vec<TaskId>,
    /// Tasks that sleep for a place although there is one for them.
    pub place: Vec<TaskId>,
    /// Attempts and receives whose prefixes are to be emptied.
    pub sweep: Vec<Intent>,
    /// Tasks that a sweep cannot read, and why.
    pub unswept: Vec<(TaskId, String)>,
    /// Tasks that no host has claimed, and what the queue has lost.
    pub redispatch: RedispatchPlan,
    /// Since when the oldest event waits to be relayed, where it waits for long enough.
    pub unpublished: Option<Duration>,
    /// Processes that were not seen for a day.
    pub forget: Vec<String>,
    /// Schedules that are due, or that the program declares anew.
    pub schedules: Vec<ScheduleStep>,
    /// Tasks that ended long enough ago.
    pub purge: PurgePlan,
    /// Task types that failures disable, or whose probe has ended.
    pub types: Vec<TypeStep>,
    /// Areas that are left out because of rows that cannot be read.
    pub failed: Vec<String>,
}

impl fmt::Display for PassPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for recover in &self.recover {
            match recover {
                Recover::TakeBack(task) => {
                    writeln!(f, "take back task {task}: its lease has run out")?
                }
                Recover::UnknownType(task) => {
                    let version = task
                        .version
                        .map_or("that cannot be read".to_owned(), |it| it.to_string());
                    writeln!(
                        f,
                        "leave task {}: type {} version {version} is not known here",
                        task.task, task.task_type
                    )?;
                }
            }
        }
        for task in &self.wake {
            writeln!(f, "wake task {task}: one that it has submitted has ended")?;
        }
        for task in &self.place {
            writeln!(f, "wake task {task}: there is a place for it")?;
        }
        for intent in &self.sweep {
            writeln!(
                f,
                "sweep {}: overdue for {:?}",
                intent.prefix, intent.overdue
            )?;
        }
        for (task, why) in &self.unswept {
            writeln!(
                f,
                "leave what the attempts of task {task} have stored: {why}"
            )?;
        }
        for step in &self.schedules {
            write_schedule(f, step)?;
        }
        for EndedTask { task, .. } in &self.purge.tombstoned {
            writeln!(
                f,
                "delete what is left of the objects of task {task}: its rows are gone"
            )?;
        }
        for PurgeGroup {
            task_type,
            status,
            keep,
            tasks,
        } in &self.purge.groups
        {
            let what = if matches!(keep, Keep::ThenArchive(_)) {
                "archive and delete"
            } else {
                "delete"
            };
            for EndedTask { task, .. } in tasks {
                writeln!(
                    f,
                    "{what} task {task}: a {task_type} that {status} long enough ago"
                )?;
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
        if let Some(age) = self.unpublished {
            writeln!(f, "relay events: the oldest has waited for {age:?}")?;
        }
        for missing in &self.redispatch.queue {
            writeln!(
                f,
                "make again {missing}: the queue's server does not have it"
            )?;
        }
        if let Some(why) = &self.redispatch.silent {
            writeln!(f, "leave tasks that no host has claimed: {why}")?;
        }
        for task in &self.redispatch.offer {
            writeln!(
                f,
                "offer task {} again: it is {}, and no host has claimed it",
                task.task,
                task.status
                    .map_or("in a state that cannot be read", TaskStatus::as_str)
            )?;
        }
        for worker in &self.forget {
            writeln!(f, "forget process {worker}: it was not seen for a day")?;
        }
        for area in &self.failed {
            writeln!(f, "leave {area}")?;
        }
        if *self == Self::default() {
            writeln!(f, "nothing to do")?;
        }
        Ok(())
    }
}

fn write_schedule(f: &mut fmt::Formatter<'_>, step: &ScheduleStep) -> fmt::Result {
    let (row, moves) = match step {
        ScheduleStep::Declare(row) => {
            return writeln!(
                f,
                "take over schedule {}: the program declares it so",
                row.name
            );
        }
        ScheduleStep::Broken { name, why } => return writeln!(f, "leave schedule {name}: {why}"),
        ScheduleStep::Move { row, moves, now: _ } => (row, moves),
    };
    let name = &row.name;
    for step in moves {
        match *step {
            Move::Fire { due, .. } => {
                writeln!(
                    f,
                    "fire schedule {name}: a {} was due {}",
                    row.spec.task_type,
                    rfc3339(due)
                )?;
            }
            Move::Skip {
                due,
                why: SkipReason::Missed,
                ..
            } => {
                writeln!(
                    f,
                    "skip schedule {name}: due {}, and no reconciler fired it in time",
                    rfc3339(due)
                )?;
            }
            Move::Skip {
                due,
                why: SkipReason::TooManyAtOnce,
                ..
            } => {
                writeln!(
                    f,
                    "skip schedule {name}: due {}, and as many of its tasks are under way as may be",
                    rfc3339(due)
                )?;
            }
            Move::Skip {
                due,
                why: SkipReason::Disabled,
                ..
            } => {
                writeln!(
                    f,
                    "skip schedule {name}: due {}, and its task type is disabled",
                    rfc3339(due)
                )?;
            }
            Move::Skip {
                due,
                why: SkipReason::Overlaps,
                ..
            } => {
                writeln!(
                    f,
                    "skip schedule {name}: due {}, and its last task still runs",
                    rfc3339(due)
                )?;
            }
            Move::Wait { due } => {
                writeln!(
                    f,
                    "leave schedule {name}: due {}, and waits for its last task",
                    rfc3339(due)
                )?;
            }
        }
    }
    Ok(())
}

/// Plans a pass. Changes nothing.
///
/// # Errors
/// When the store does not answer.
pub fn plan<'a>(
    engine: &'a Engine,
    settings: &'a ReconcilerSettings,
) -> BoxFuture<'a, Result<PassPlan, StoreError>> {
    Box::pin(async move {
        let mut failed = Vec::new();
        let limit = settings.limit;
        let mut of = Unreadable(&mut failed);
        let recover = of.area(
            "lost tasks",
            recovery::plan(engine, settings.lost.clone(), limit).await,
        )?;
        let wake = of.area("parents", parents::plan(engine, limit).await)?;
        let place = of.area("places", places::plan(engine, limit).await)?;
        let sweep = of.area("intents", orphans::plan(engine, limit).await.map(Some))?;
        let (sweep, unswept) = sweep
            .map(|sweep| (sweep.condemn, sweep.unreadable))
            .unwrap_or_default();
        let schedules = of.area("schedules", schedules::plan(engine, limit).await)?;
        let purge = of.area(
            "retention",
            retention::plan(engine, &settings.retention, limit).await,
        )?;
        let types = of.area("task types", disable::plan_types(engine).await)?;
        let redispatch = of.area(
            "redispatch",
            redispatch::plan(engine, settings.offer_after, limit).await,
        )?;
        let unpublished = of.area("messages", status::oldest_unpublished(engine).await)?;
        let unpublished = unpublished.filter(|age| *age >= settings.relay_after);
        let forget = of.area("processes", workers::plan_forget(engine).await)?;
        Ok(PassPlan {
            recover,
            wake,
            place,
            sweep,
            unswept,
            redispatch,
            unpublished,
            forget,
            schedules,
            purge,
            types,
            failed,
        })
    })
}

/// What the listing of objects would do, in lines; at most as many orphans as a pass has a limit
/// for.
///
/// # Errors
/// When the store or the object store does not answer.
pub fn plan_listing<'a>(
    engine: &'a Engine,
    settings: &'a ReconcilerSettings,
) -> BoxFuture<'a, Result<String, ListingError>> {
    Box::pin(async move {
        let limit = usize::try_from(settings.limit).unwrap_or(usize::MAX);
        let planned =
            orphans::listing::plan(engine, &settings.orphans, settings.pages, limit).await?;
        let mut lines = String::new();
        for Found { orphan, action, .. } in &planned.found {
            let what = match action {
                OrphanAction::Delete => "delete".to_owned(),
                OrphanAction::Archive { prefix } => format!("move to archive/{prefix}"),
                OrphanAction::Report => "report".to_owned(),
            };
            let half = if orphan.half { " (half-done)" } else { "" };
            let age = Duration::from_secs(orphan.age.as_secs());
            lines += &format!(
                "{what} orphan {}/{}{half}: {age:?} old, {}\n",
                orphan.bucket, orphan.key, orphan.why
            );
        }
        if planned.unknown_objects.objects > 0 {
            let (count, first) = (
                planned.unknown_objects.objects,
                planned.unknown_objects.first.join(", "),
            );
            lines += &match settings.orphans.without_task {
                None => format!(
                    "leave {count} objects of tasks or attempts that this database does not know, as \
                     `orphans_without_task` is not set: {first}\n"
                ),
                Some(after) => format!(
                    "treat {count} objects of tasks or attempts that this database does not know as orphans once they are \
                     {after:?} old: {first}\n"
                ),
            };
        }
        if planned.unmanaged > 0 {
            lines += &format!(
                "leave {} objects that are not named like ours\n",
                planned.unmanaged
            );
        }
        if planned.more {
            lines += "there are more objects than were looked at: raise --limit or --pages to see more\n";
        }
        Ok(lines)
    })
}
