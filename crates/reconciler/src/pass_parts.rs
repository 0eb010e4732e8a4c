//! The parts of a pass, which wait for different servers. Each is planned and executed by
//! itself, so what hangs in one delays no other. What a part does stands in its module; this puts
//! parts together and counts.

use crate::orphans::{self, Swept};
use crate::{
    ReconcilerSettings, Report, parents, places, recovery, redispatch, relay, retention, schedules,
    workers,
};
use counterstep_kernel::admission::disable;
use counterstep_kernel::ports::StoreError;
use counterstep_kernel::status::durations::count_durations;
use counterstep_kernel::{Engine, admission::limits, host::scratch_sweep};
use counterstep_steps::CancelToken;
use std::fmt;

/// A part of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PassPart {
    /// Schedules: the only part with times that people watch. Waits for the database, and briefly
    /// for the queue.
    Schedules,
    /// Tasks of lost hosts, tasks that were not woken, and task types that failures disable. Waits for the database, and
    /// briefly for the queue.
    Recovery,
    /// Messages that were not published, and tasks that no host has claimed. Waits for the queue's
    /// server.
    Relay,
    /// Orphans, retention and scratch. Waits for the object store, and may take long.
    Upkeep,
    /// How long tasks took that have ended. Waits for the database, and may have many to count; no task waits for it.
    Durations,
}

impl PassPart {
    /// All of them, in the order of a single pass: what tasks wait for comes first.
    pub(crate) const ALL: [Self; 5] = [
        Self::Schedules,
        Self::Recovery,
        Self::Relay,
        Self::Upkeep,
        Self::Durations,
    ];

    /// Plans and executes this part. Ends early, with what was done until then, on `shutdown`.
    ///
    /// # Errors
    /// When the store does not answer.
    pub(crate) async fn run(
        self,
        engine: &Engine,
        settings: &ReconcilerSettings,
        shutdown: &CancelToken,
    ) -> Result<Report, StoreError> {
        match self {
            Self::Schedules => fire(engine, settings, shutdown).await,
            Self::Recovery => recover(engine, settings, shutdown).await,
            Self::Relay => publish(engine, settings, shutdown).await,
            Self::Upkeep => upkeep(engine, settings, shutdown).await,
            Self::Durations => durations(engine, shutdown).await,
        }
    }
}

impl fmt::Display for PassPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Schedules => "schedules",
            Self::Recovery => "recovery",
            Self::Relay => "relay",
            Self::Upkeep => "upkeep",
            Self::Durations => "durations",
        })
    }
}

async fn fire(
    engine: &Engine,
    settings: &ReconcilerSettings,
    shutdown: &CancelToken,
) -> Result<Report, StoreError> {
    let mut failed = Vec::new();
    let fired = schedules::pass(engine, settings.limit, shutdown).await;
    let done = Unreadable(&mut failed).area("schedules", fired)?;
    failed.extend(
        done.failed
            .into_iter()
            .map(|(name, why)| format!("schedule {name}: {why}")),
    );
    Ok(Report {
        fired: done.fired.len(),
        skipped: done.skipped,
        declared: done.declared,
        failed,
        ..Report::default()
    })
}

async fn recover(
    engine: &Engine,
    settings: &ReconcilerSettings,
    shutdown: &CancelToken,
) -> Result<Report, StoreError> {
    let mut failed = Vec::new();
    let mut of = Unreadable(&mut failed);
    let lost = of.area(
        "lost tasks",
        recovery::plan(engine, settings.lost.clone(), settings.limit).await,
    )?;
    let recovered = recovery::run(engine, lost, shutdown).await;
    let asleep = of.area("parents", parents::plan(engine, settings.limit).await)?;
    let woken = of.area("parents", parents::run(engine, asleep, shutdown).await)?;
    let asleep = of.area("places", places::plan(engine, settings.limit).await)?;
    let placed = of.area("places", places::run(engine, asleep, shutdown).await)?;
    let types = of.area("task types", disable::plan_types(engine).await)?;
    let switched = disable::run_types(engine, types).await;
    let unseen = of.area("processes", workers::plan_forget(engine).await)?;
    let forgotten = of.area("processes", workers::forget(engine, unseen).await)?;
    of.area("limits", limits::forget_unused_limits(engine).await)?;
    failed.extend(
        recovered
            .failed
            .into_iter()
            .map(|(task, why)| format!("task {task}: {why}")),
    );
    failed.extend(
        switched
            .failed
            .into_iter()
            .map(|(name, why)| format!("task type {name}: {why}")),
    );
    Ok(Report {
        taken_back: recovered.taken_back.len(),
        unknown: recovered.unknown.len(),
        quarantined: recovered.quarantined.len(),
        woken: woken + placed,
        disabled: switched.disabled,
        enabled: switched.enabled,
        forgotten,
        failed,
        ..Report::default()
    })
}

async fn publish(
    engine: &Engine,
    settings: &ReconcilerSettings,
    shutdown: &CancelToken,
) -> Result<Report, StoreError> {
    let mut failed = Vec::new();
    let mut of = Unreadable(&mut failed);
    let relayed = of.area(
        "messages",
        relay::run(engine, settings.relay_after, settings.limit, shutdown).await,
    )?;
    let plan = of.area(
        "redispatch",
        redispatch::plan(engine, settings.offer_after, settings.limit).await,
    )?;
    let done = redispatch::run(engine, plan, settings.offer_after, shutdown).await;
    failed.extend(done.failed.into_iter().map(|(task, why)| match task {
        Some(task) => format!("task {task}: {why}"),
        None => format!("queue: {why}"),
    }));
    Ok(Report {
        relayed,
        offered: done.offered.len(),
        mended: done.queue,
        failed,
        ..Report::default()
    })
}

async fn durations(engine: &Engine, shutdown: &CancelToken) -> Result<Report, StoreError> {
    let mut failed = Vec::new();
    let counted = count_durations(engine, shutdown).await;
    Unreadable(&mut failed).area("durations", counted)?;
    Ok(Report {
        failed,
        ..Report::default()
    })
}

async fn upkeep(
    engine: &Engine,
    settings: &ReconcilerSettings,
    shutdown: &CancelToken,
) -> Result<Report, StoreError> {
    let mut failed = Vec::new();
    let mut of = Unreadable(&mut failed);
    let swept = match of.area(
        "intents",
        orphans::plan(engine, settings.limit).await.map(Some),
    )? {
        Some(intents) => of.area(
            "intents",
            orphans::run(engine, &settings.orphans, intents, shutdown).await,
        )?,
        None => Swept::default(),
    };
    let over = of.area(
        "retention",
        retention::plan(engine, &settings.retention, settings.limit).await,
    )?;
    let purged = of.area(
        "retention",
        retention::run(engine, &settings.retention, over, shutdown).await,
    )?;
    let listed = of.area(
        "objects",
        orphans::listing::run(engine, &settings.orphans, settings.pages, shutdown).await,
    )?;
    let scratch = scratch_sweep::run(engine, shutdown).await;
    failed.extend(
        swept
            .failed
            .into_iter()
            .map(|(of, why)| format!("objects of {of}: {why}")),
    );
    failed.extend(listed.failed);
    failed.extend(purged.failed);
    Ok(Report {
        prefixes: swept.prefixes,
        objects: swept.objects + listed.deleted,
        archived: swept.archived + listed.archived,
        reported: swept.reported + listed.reported,
        unknown_objects: listed.unknown_objects.objects,
        unmanaged: listed.unmanaged,
        tasks_archived: purged.archived,
        tasks_deleted: purged.deleted,
        objects_deleted: purged.objects,
        scratch,
        failed,
        ..Report::default()
    })
}

/// Rows that cannot be read stop their own area of a pass. A store that does not answer stops all
/// of it.
pub(crate) struct Unreadable<'a>(pub(crate) &'a mut Vec<String>);

impl Unreadable<'_> {
    pub(crate) fn area<T: Default>(
        &mut self,
        what: &str,
        result: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match result {
            Err(StoreError::Corrupt(why) | StoreError::Unsupported(why)) => {
                tracing::error!(
                    what,
                    why,
                    "an area of the pass is left out: a row cannot be read"
                );
                self.0.push(format!("{what}: a row cannot be read: {why}"));
                Ok(T::default())
            }
            other => other,
        }
    }
}
