//! What an execution can call, and what came of the last call. Sends nothing itself.

use crate::ports::{HttpServices, NoServices};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What an execution can call.
#[derive(Debug)]
pub(crate) struct Services {
    pub(crate) http: Arc<dyn HttpServices>,
    /// The last call failed before its first byte was sent.
    pub(crate) unsent: AtomicBool,
}

impl Default for Services {
    fn default() -> Self {
        Self {
            http: Arc::new(NoServices),
            unsent: AtomicBool::new(false),
        }
    }
}
