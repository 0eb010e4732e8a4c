//! Futures that a loop has under way, each under a key. They go on whatever the loop waits for: one that is not polled keeps
//! the connection that it has, or is next to have, from all others. Must not know what they do.

use crate::ports::StoreError;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use std::collections::VecDeque;
use std::pin::pin;

/// The key of one, and how it has ended.
type Ended<K, T> = (K, Result<T, StoreError>);

/// What is under way.
pub(crate) struct UnderWay<K, T = ()> {
    futures: FuturesUnordered<BoxFuture<'static, Ended<K, T>>>,
    /// They have ended while the loop waited for something else.
    ended: VecDeque<Ended<K, T>>,
}

impl<K, T> Default for UnderWay<K, T> {
    fn default() -> Self {
        Self {
            futures: FuturesUnordered::new(),
            ended: VecDeque::new(),
        }
    }
}

impl<K: Send + 'static, T: Send + 'static> UnderWay<K, T> {
    pub(crate) fn begin(
        &mut self,
        key: K,
        future: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) {
        let ended = async move { (key, future.await) };
        self.futures.push(Box::pin(ended));
    }

    /// The next that has ended; `None`: there is none.
    pub(crate) async fn next(&mut self) -> Option<Ended<K, T>> {
        match self.ended.pop_front() {
            Some(ended) => Some(ended),
            None => self.futures.next().await,
        }
    }

    /// Waits for something else.
    pub(crate) async fn until<O>(&mut self, other: impl Future<Output = O>) -> O {
        let mut other = pin!(other);
        loop {
            tokio::select! {
                biased;
                output = &mut other => return output,
                Some(ended) = self.futures.next() => self.ended.push_back(ended),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use std::sync::Arc;
    use tokio::sync::Semaphore;

    #[test]
    fn what_is_under_way_keeps_no_connection_from_what_the_loop_waits_for() {
        let connections = Arc::new(Semaphore::new(0));
        let mut under_way = UnderWay::default();
        let lent = connections.clone();
        under_way.begin("first", async move {
            let _connection = lent.acquire().await;
            Ok(())
        });
        assert!(under_way.next().now_or_never().is_none(), "there is none");
        // It is next, and has the connection before it goes on.
        connections.add_permits(1);
        let other = under_way.until(connections.acquire()).now_or_never();
        assert!(other.is_some_and(|lent| lent.is_ok()));
        let ended = under_way.next().now_or_never().flatten();
        assert!(
            matches!(ended, Some(("first", Ok(())))),
            "it is told of later"
        );
        assert!(under_way.next().now_or_never().flatten().is_none());
    }
}
