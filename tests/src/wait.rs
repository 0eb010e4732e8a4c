//! Waiting for a condition, with a limit. The pauses in here are the only ones that tests make, and
//! nothing is ever concluded from how long one took.

use std::time::{Duration, Instant};

/// Between two looks, at least.
pub(crate) const PAUSE: Duration = Duration::from_millis(20);

/// The pause behind a look that took so long, after all that has been waited: what is waited for longer is looked for less often, and a
/// look that starts a process is not to keep a core busy until it sees something.
pub(crate) fn pause(look: Duration, waited: Duration) -> Duration {
    let longer = (waited / 40).min(Duration::from_millis(250));
    (look * 2).max(longer).clamp(PAUSE, Duration::from_secs(1))
}

/// For what takes a moment: generous, because only a failure ever waits that long.
pub const SOON: Duration = Duration::from_secs(30);

/// For what has to wait for leases and sweeps, on a machine that has other things to do.
pub const LATER: Duration = Duration::from_secs(90);

/// Looks until there is something.
///
/// # Panics
/// When there is nothing within the limit; the message says what was waited for.
// Not `AsyncFnMut`: its futures are not known to be `Send`, and clients run as tasks of their own.
pub async fn until<T, F: Future<Output = Option<T>>>(
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> F,
) -> T {
    let started = Instant::now();
    loop {
        let began = Instant::now();
        if let Some(found) = look().await {
            return found;
        }
        assert!(
            started.elapsed() < limit,
            "waited {limit:?} for this in vain: {what}"
        );
        tokio::time::sleep(pause(began.elapsed(), started.elapsed())).await;
    }
}

/// The same for tests without a runtime.
///
/// # Panics
/// When there is nothing within the limit; the message says what was waited for.
pub fn until_now<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        let began = Instant::now();
        if let Some(found) = look() {
            return found;
        }
        assert!(
            started.elapsed() < limit,
            "waited {limit:?} for this in vain: {what}"
        );
        std::thread::sleep(pause(began.elapsed(), started.elapsed()));
    }
}
