//! The contract of the ports as functions. They use nothing but the ports, and short waits with a
//! limit.

pub(crate) mod attempts;
pub(crate) mod breakers;
pub(crate) mod burials;
pub(crate) mod chain;
pub(crate) mod changes;
pub(crate) mod commits;
pub(crate) mod documents;
pub(crate) mod finding;
pub(crate) mod hints;
pub(crate) mod idempotency;
pub(crate) mod locks;
pub(crate) mod objects;
pub(crate) mod open_uploads;
pub(crate) mod own_tables;
pub(crate) mod queue;
pub(crate) mod receives;
pub(crate) mod salvage;
pub(crate) mod schedules;
pub(crate) mod scratch;
pub(crate) mod together;
pub(crate) mod types;
pub(crate) mod upkeep;
pub(crate) mod workers;

use std::future::Future;
use std::time::Duration;

/// Long enough for a slow machine; a test that passes never waits for so long.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// The end of something that takes several calls.
pub(crate) async fn within_limit<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, work)
        .await
        .unwrap_or_else(|_| panic!("did not end: {what}"))
}

/// Waits until a look finds something.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut look: impl FnMut() -> F,
) -> T {
    let found = tokio::time::timeout(LIMIT, async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    found.await.unwrap_or_else(|_| panic!("never came: {what}"))
}
