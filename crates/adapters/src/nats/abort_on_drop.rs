//! What runs beside the queue and the hints, and ends with them.

use tokio::task::JoinHandle;

/// A task of the runtime that is aborted when this handle is dropped.
#[derive(Debug)]
pub(super) struct AbortOnDrop(pub(super) JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
