//! What policies need of the program that they run in.

use futures::future::BoxFuture;
use std::fmt::Debug;
use std::time::Duration;

/// What retrying needs of a runtime. `counterstep_adapters::system::TokioRuntime` is Tokio's;
/// another one is three lines.
pub trait Runtime: Send + Sync + Debug {
    /// Ends after this long. Waits between attempts.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;

    /// Evenly distributed bits, for jitter and for names that must not meet.
    fn bits(&self) -> u128;

    /// Ends when something that may take `limit` has taken that long. Raced against each attempt
    /// that has a limit.
    fn timeout(&self, limit: Duration) -> BoxFuture<'static, ()> {
        self.sleep(limit)
    }
}
