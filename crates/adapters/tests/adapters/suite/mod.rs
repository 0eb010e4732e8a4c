//! The contract of the ports as functions. They use nothing but the ports, and short waits with a
//! limit.

pub(crate) mod attempts;
pub(crate) mod batches;
pub(crate) mod breakers;
pub(crate) mod chain;
pub(crate) mod changes;
pub(crate) mod children;
pub(crate) mod commits;
pub(crate) mod concurrent_changes;
pub(crate) mod documents;
pub(crate) mod finding;
pub(crate) mod hints;
pub(crate) mod idempotency;
pub(crate) mod labels;
pub(crate) mod locks;
pub(crate) mod logs;
pub(crate) mod objects;
pub(crate) mod open_uploads;
pub(crate) mod own_tables;
pub(crate) mod places;
pub(crate) mod purged_logs;
pub(crate) mod purges;
pub(crate) mod queue;
pub(crate) mod receives;
pub(crate) mod salvage;
pub(crate) mod schedules;
pub(crate) mod scratch;
pub(crate) mod spool;
pub(crate) mod types;
pub(crate) mod upkeep;
pub(crate) mod workers;

use counterstep_kernel::ports::Store;
pub(crate) use counterstep_testkit::many_tasks::eventually;
use std::future::Future;
use std::time::Duration;

/// Long enough for a slow machine; a test that passes never waits that long.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// More than one step of any store's clock.
const MOMENT: Duration = Duration::from_millis(5);

/// The end of something that takes several calls.
pub(crate) async fn within_limit<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, work)
        .await
        .unwrap_or_else(|_| panic!("did not end: {what}"))
}

/// Waits until the store's time has gone on by at least a few milliseconds, which may be its
/// resolution.
pub(crate) async fn a_moment_later(store: &Store) {
    let now = || async { store.types().await.expect("an answer").now };
    let before = now().await;
    eventually("a later time", || async {
        (now().await.after(before) >= MOMENT).then_some(())
    })
    .await;
}
