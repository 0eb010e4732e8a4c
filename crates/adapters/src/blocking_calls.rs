//! Where code runs that blocks its thread: on threads of its own, or where it is asked for.

use tokio::task::{JoinError, spawn_blocking};

/// Where code runs that blocks its thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BlockingCalls {
    /// On Tokio's threads for it.
    #[default]
    Threads,
    /// Where it is asked for, at once: for a simulation, all of which is one thread.
    Inline,
}

impl BlockingCalls {
    /// Runs it to its end, on threads also where the caller does not wait for that.
    ///
    /// # Errors
    /// It panicked on its thread, or the runtime ends.
    pub(crate) async fn run<T: Send + 'static>(
        self,
        code: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        match self {
            Self::Threads => spawn_blocking(code).await,
            Self::Inline => Ok(code()),
        }
    }
}
