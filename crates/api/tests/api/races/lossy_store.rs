//! A store that loses the reply to a change: a real one, whose caller learns nothing of one change of its own, while
//! something else happens to the rows. Must not answer anything by itself.

use async_trait::async_trait;
use counterstep_kernel::change::transition::{Guard, Transition};
use counterstep_kernel::ports::{
    CommitError, Committed, DocumentKind, DocumentWrite, DocumentsPut, Storage, StoreError,
};
use counterstep_testkit::through::Around;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

/// What becomes of a change whose reply is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Written,
    NeverWritten,
    /// It is written after what happens between, and the reply arrives.
    Delayed,
}

/// What happens before the caller looks again.
pub(crate) type Between = Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>;

struct Loss {
    /// Changes before it that are answered.
    after: usize,
    fate: Fate,
    between: Between,
}

/// Loses the replies that it is told to.
#[derive(Default)]
pub(crate) struct LostReplies {
    next: Mutex<Option<Loss>>,
}

impl fmt::Debug for LostReplies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LostReplies").finish_non_exhaustive()
    }
}

impl LostReplies {
    /// Loses the reply to the change that follows `after` others.
    pub(crate) fn lose(&self, after: usize, fate: Fate, between: Between) {
        let loss = Loss {
            after,
            fate,
            between,
        };
        *self.lock() = Some(loss);
    }

    /// Whether a reply is still to be lost; none is from now on.
    pub(crate) fn relent(&self) -> bool {
        self.lock().take().is_some()
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Option<Loss>> {
        self.next.lock()
    }

    fn loss(&self) -> Option<Loss> {
        let mut next = self.lock();
        match next.as_mut() {
            Some(loss) if loss.after > 0 => {
                loss.after -= 1;
                None
            }
            _ => next.take(),
        }
    }

    async fn change<T, E: From<StoreError>>(
        &self,
        change: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let Some(loss) = self.loss() else {
            return change.await;
        };
        match loss.fate {
            Fate::Delayed => {
                (loss.between)().await;
                return change.await;
            }
            // What is refused is not written, and its caller may know.
            Fate::Written => drop(change.await?),
            Fate::NeverWritten => {}
        }
        (loss.between)().await;
        Err(StoreError::Unknown("the reply was lost".to_owned()).into())
    }
}

#[async_trait]
impl Around for LostReplies {
    async fn commit(
        &self,
        store: &dyn Storage,
        guard: Guard,
        changes: &[Arc<Transition>],
    ) -> Result<Committed, CommitError> {
        self.change(store.commit(guard, changes)).await
    }

    async fn put(
        &self,
        store: &dyn Storage,
        writes: &[DocumentWrite],
    ) -> Result<DocumentsPut, StoreError> {
        match writes {
            // That this process is alive.
            [write] if write.kind == DocumentKind::Worker => store.put(writes).await,
            _ => self.change(store.put(writes)).await,
        }
    }
}
