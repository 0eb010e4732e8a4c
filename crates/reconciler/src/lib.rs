//! The reconciler: takes back what lost hosts held, relays what was not published, dispatches tasks
//! again that no host has claimed, sweeps what no row references, deletes what has ended long ago,
//! and submits what schedules say. Each is a module with its execution and, but for the relay, a
//! plan that changes nothing. A pass puts them together: how often, how much, and what to report.
//! The check of journals and rows is here too, for people who ask for it.

pub mod audit;
#[cfg(feature = "cli")]
pub mod cli;
pub mod fsck;
pub mod orphans;
pub mod parents;
mod pass_parts;
pub mod places;
mod plan;
pub mod recovery;
pub mod redispatch;
pub mod relay;
mod report;
pub mod retention;
pub mod schedules;
pub mod workers;

pub use orphans::OrphanSettings;
pub use plan::{PassPlan, plan, plan_listing};
pub use report::Report;
pub use retention::{RetentionSettings, encrypted_archive_line};

use counterstep_kernel::Engine;
use counterstep_kernel::host::outages::keep_watched;
use counterstep_kernel::ports::{Lost, StoreError};
use counterstep_kernel::workers::registration::Part;
use counterstep_kernel::workers::worker_registry;
use counterstep_steps::task::UpkeepMistake;
use counterstep_steps::{CancelToken, Registry};
use futures::future::{BoxFuture, join_all};
use parking_lot::Mutex;
use pass_parts::PassPart;
use std::collections::BTreeMap;
use std::time::Duration;

/// How a pass is bounded, how often there is one, and what becomes of orphans and of tasks that have
/// ended.
#[derive(Debug, Clone)]
pub struct ReconcilerSettings {
    /// Maximum items of each kind per pass.
    pub limit: u32,
    /// Which lost tasks to take back.
    pub lost: Lost,
    /// Events that were not published for this long are relayed.
    pub relay_after: Duration,
    /// A task that was offered, or is due, and that no host has claimed in this time is offered
    /// again.
    pub offer_after: Duration,
    /// Time between passes.
    pub every: Duration,
    /// Pages of a listing of objects that are read in one pass; a listing that is longer goes on in
    /// the next.
    pub pages: u32,
    /// What becomes of orphans, and how often they are looked for.
    pub orphans: OrphanSettings,
    /// How long tasks that have ended are kept.
    pub retention: RetentionSettings,
}

impl Default for ReconcilerSettings {
    fn default() -> Self {
        Self {
            limit: 1_000,
            lost: Lost::default(),
            relay_after: Duration::from_secs(2),
            // Workers poll every few seconds. What waits for longer waits for a slot, or its message was lost.
            offer_after: Duration::from_secs(60),
            every: Duration::from_secs(30),
            pages: 100,
            orphans: OrphanSettings::default(),
            retention: RetentionSettings::default(),
        }
    }
}

impl ReconcilerSettings {
    /// Whether the settings of orphans and retention are of types of this program. For programs that
    /// make their own: those of a settings file are checked where the adapters are opened.
    ///
    /// # Errors
    /// The first mistake.
    pub fn check(&self, registry: &Registry) -> Result<(), UpkeepMistake> {
        registry.check_upkeep(&self.orphans.types, &self.retention.types)
    }
}

/// One pass: all of its parts, one after the other.
///
/// # Errors
/// When the store does not answer.
pub fn pass<'a>(
    engine: &'a Engine,
    settings: &'a ReconcilerSettings,
) -> BoxFuture<'a, Result<Report, StoreError>> {
    Box::pin(async move { pass_until(engine, settings, &CancelToken::new()).await })
}

/// One pass that ends early on `shutdown`, with what was done until then. In a process that
/// [watches](keep_watched) its contact with the database, it waits for hosts that may have been cut off, at most a lease.
///
/// # Errors
/// When the store does not answer.
pub fn pass_until<'a>(
    engine: &'a Engine,
    settings: &'a ReconcilerSettings,
    shutdown: &'a CancelToken,
) -> BoxFuture<'a, Result<Report, StoreError>> {
    Box::pin(async move {
        let mut report = Report::default();
        for part in PassPart::ALL {
            if shutdown.is_cancelled() {
                break;
            }
            report.add(part.run(engine, settings, shutdown).await?);
        }
        let mut undecided = recovery::undecided(engine, &settings.lost).await?;
        while let Some(left) = undecided.filter(|_| !shutdown.is_cancelled()) {
            tracing::info!(
                ?left,
                "leases have run out, perhaps because the database was away: waiting for their hosts"
            );
            shutdown
                .run_until_cancelled(engine.ports.clock.sleep(left))
                .await;
            report.add(PassPart::Recovery.run(engine, settings, shutdown).await?);
            undecided = recovery::undecided(engine, &settings.lost).await?;
        }
        Ok(report)
    })
}

/// Passes until `shutdown`, each part on a part of its own: one that hangs on its server delays no
/// other. A part that fails is logged, and the next part tries again.
pub fn serve(
    engine: Engine,
    settings: ReconcilerSettings,
    shutdown: CancelToken,
) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let passing = Box::pin(async {
            tracing::info!(reconciler = %engine.id, every = ?settings.every, "reconciler started");
            let last = Last::default();
            join_all(PassPart::ALL.map(|part| repeat(part, &engine, &settings, &last, &shutdown)))
                .await;
            tracing::info!(reconciler = %engine.id, "reconciler stopped");
        });
        let passing = keep_watched(&engine, passing);
        worker_registry::keep_refreshed(&engine, Part::default(), passing).await;
    })
}

/// What each part did last, and when by this process's timer.
#[derive(Debug, Default)]
struct Last(Mutex<BTreeMap<PassPart, (Duration, Report)>>);

impl Last {
    /// Notes what a part did. A pass is complete once all of its parts are, so it is as old as the
    /// oldest of them: one that hangs shows in the age of the last pass.
    fn note(&self, engine: &Engine, part: PassPart, report: Report) {
        let mut last = self.0.lock();
        last.insert(part, (engine.ports.clock.monotonic(), report));
        let oldest = last.values().map(|(at, _)| *at).min();
        if let Some(at) = oldest.filter(|_| last.len() == PassPart::ALL.len()) {
            let mut whole = Report::default();
            last.values()
                .for_each(|(_, report)| whole.add(report.clone()));
            worker_registry::note_pass(engine, at, whole.counts());
        }
    }
}

async fn repeat(
    part: PassPart,
    engine: &Engine,
    settings: &ReconcilerSettings,
    last: &Last,
    shutdown: &CancelToken,
) {
    while !shutdown.is_cancelled() {
        match part.run(engine, settings, shutdown).await {
            Ok(report) => {
                if report == Report::default() {
                    tracing::debug!(%part, "pass: nothing to do");
                } else {
                    tracing::info!(%part, %report, "pass");
                }
                last.note(engine, part, report);
            }
            Err(error) => {
                tracing::error!(%part, %error, "a part of a pass failed; the next one tries again")
            }
        }
        shutdown
            .run_until_cancelled(engine.ports.clock.sleep(settings.every))
            .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use counterstep_contracts::Retention;
    use counterstep_contracts::overrides::OTHERS;

    #[test]
    fn settings_of_a_type_that_the_program_does_not_have_are_refused() {
        let mut settings = ReconcilerSettings::default();
        let types = &mut settings.retention.types;
        types.insert(OTHERS.to_owned(), Retention::default());
        assert_eq!(settings.check(&Registry::new()), Ok(()));
        let types = &mut settings.retention.types;
        types.insert("Nothing".to_owned(), Retention::default());
        let refused = settings.check(&Registry::new()).expect_err("no such type");
        assert_eq!(refused.setting, "retention.Nothing");
    }
}
