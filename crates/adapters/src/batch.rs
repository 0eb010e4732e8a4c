//! Requests that share a batch under load. A request that finds no batch under way starts at once
//! and alone; requests that arrive meanwhile wait in a queue, and share the next batch.
//!
//! So a lone request waits for no other, and under load each batch holds as many as have gathered:
//! the more there are, the less each of them costs. Several batches at a time would hold fewer
//! each; a second one runs only where a full batch is waiting, or where the first one takes long.
//! Must not know what is requested.

use futures::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

/// How long a request waits behind the batch under way before it starts one beside it: that one may hang at a
/// lock.
const PATIENCE: Duration = Duration::from_millis(50);

/// Takes the requests of the next batch out of the queue.
pub(crate) type Pick<T> = fn(&mut VecDeque<Queued<T>>) -> Vec<Queued<T>>;

/// Runs a batch. Each request holds the sender of its reply.
pub(crate) type Flush<T> = Box<dyn Fn(Vec<T>) -> BoxFuture<'static, ()> + Send + Sync>;

/// A request in the queue.
pub(crate) struct Queued<T> {
    number: u64,
    pub(crate) request: T,
}

/// When a batch starts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Batches under way at a time, at most.
    pub(crate) width: usize,
    /// As many requests are a full batch, which starts beside the one under way.
    pub(crate) full: usize,
    /// How long a request may wait in the queue.
    pub(crate) wait: Duration,
}

/// Why a request has no reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoReply {
    /// It has waited in the queue for the whole time, and was taken out. It did not run.
    TimedOut,
    /// Its batch ended without one: it may have run.
    Dropped,
}

struct Inner<T> {
    queue: Mutex<Queue<T>>,
    limits: Limits,
    pick: Pick<T>,
    flush: Flush<T>,
}

struct Queue<T> {
    under_way: usize,
    last: u64,
    waiting: VecDeque<Queued<T>>,
}

/// The queue of requests and its batches. Cheap to clone.
pub(crate) struct Batcher<T>(Arc<Inner<T>>);

impl<T> Clone for Batcher<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Batcher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batcher")
            .field("limits", &self.0.limits)
            .finish_non_exhaustive()
    }
}

/// The place of a batch under way. Its end starts the next batch.
pub(crate) struct Slot<T: Send + 'static>(Batcher<T>);

/// How a request goes.
#[cfg(any(test, feature = "postgres"))]
pub(crate) enum Entry<T: Send + 'static, A> {
    /// Alone, and now: the caller runs it and drops the slot.
    Alone(Slot<T>),
    /// It went with a batch.
    Batched(Result<A, NoReply>),
}

impl<T: Send + 'static> Batcher<T> {
    pub(crate) fn new(limits: Limits, pick: Pick<T>, flush: Flush<T>) -> Self {
        let queue = Mutex::new(Queue {
            under_way: 0,
            last: 0,
            waiting: VecDeque::new(),
        });
        Self(Arc::new(Inner {
            queue,
            limits,
            pick,
            flush,
        }))
    }

    fn queue(&self) -> MutexGuard<'_, Queue<T>> {
        self.0.queue.lock()
    }

    /// Lets the caller run its request where no batch is under way; otherwise queues it, and waits
    /// for the reply.
    #[cfg(any(test, feature = "postgres"))]
    pub(crate) async fn enter<A>(
        &self,
        request: impl FnOnce(oneshot::Sender<A>) -> T,
    ) -> Entry<T, A> {
        let (sender, reply) = oneshot::channel();
        let place = {
            let mut queue = self.queue();
            if queue.under_way == 0 {
                queue.under_way = 1;
                return Entry::Alone(Slot(self.clone()));
            }
            self.push(&mut queue, request(sender))
        };
        if place.is_full {
            self.start_batch();
        }
        Entry::Batched(place.reply(reply).await)
    }

    /// Queues a request, and waits for the reply. Its batch starts at once where no other is under
    /// way.
    #[cfg(any(test, feature = "sqlite"))]
    pub(crate) async fn submit<A>(
        &self,
        request: impl FnOnce(oneshot::Sender<A>) -> T,
    ) -> Result<A, NoReply> {
        let (sender, reply) = oneshot::channel();
        let (place, is_idle) = {
            let mut queue = self.queue();
            (self.push(&mut queue, request(sender)), queue.under_way == 0)
        };
        if is_idle || place.is_full {
            self.start_batch();
        }
        place.reply(reply).await
    }

    fn push(&self, queue: &mut Queue<T>, request: T) -> Place<'_, T> {
        queue.last += 1;
        queue.waiting.push_back(Queued {
            number: queue.last,
            request,
        });
        Place {
            batcher: self,
            number: queue.last,
            is_full: queue.waiting.len() >= self.0.limits.full,
        }
    }

    /// Starts a batch of waiting requests beside those under way, where there is room.
    fn start_batch(&self) {
        let mut queue = self.queue();
        if queue.under_way >= self.0.limits.width {
            return;
        }
        let picked = (self.0.pick)(&mut queue.waiting);
        if !picked.is_empty() {
            queue.under_way += 1;
            drop(queue);
            self.spawn(picked);
        }
    }

    /// Runs a batch that has its place already.
    fn spawn(&self, picked: Vec<Queued<T>>) {
        let slot = Slot(self.clone());
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            // The process ends. The requests are dropped with their senders, and so get
            // `NoReply::Dropped`.
            drop(picked);
            return;
        };
        runtime.spawn(async move {
            let requests = picked.into_iter().map(|queued| queued.request).collect();
            (slot.0.0.flush)(requests).await;
            drop(slot);
        });
    }
}

/// A request's place in the queue, given up with this value.
struct Place<'a, T: Send + 'static> {
    batcher: &'a Batcher<T>,
    number: u64,
    /// Whether a full batch is waiting with it.
    is_full: bool,
}

impl<T: Send + 'static> Place<'_, T> {
    async fn reply<A>(&self, mut reply: oneshot::Receiver<A>) -> Result<A, NoReply> {
        let until = Instant::now() + self.batcher.0.limits.wait;
        let answered = match timeout_at(until.min(Instant::now() + PATIENCE), &mut reply).await {
            Ok(answered) => answered,
            Err(_) => {
                self.batcher.start_batch();
                match timeout_at(until, &mut reply).await {
                    Ok(answered) => answered,
                    Err(_) if self.leave() => return Err(NoReply::TimedOut),
                    Err(_) => reply.await,
                }
            }
        };
        answered.map_err(|_| NoReply::Dropped)
    }

    /// Takes the request out of the queue. Whether it was still there: if not, its batch is under
    /// way.
    fn leave(&self) -> bool {
        let mut queue = self.batcher.queue();
        let before = queue.waiting.len();
        queue.waiting.retain(|queued| queued.number != self.number);
        queue.waiting.len() < before
    }
}

impl<T: Send + 'static> Drop for Place<'_, T> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl<T: Send + 'static> Drop for Slot<T> {
    fn drop(&mut self) {
        let picked = {
            let mut queue = self.0.queue();
            let picked = (self.0.0.pick)(&mut queue.waiting);
            if picked.is_empty() {
                queue.under_way -= 1;
                return;
            }
            picked
        };
        // The slot stays taken, by the next batch.
        self.0.spawn(picked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use futures::future::join_all;
    use std::sync::mpsc;
    use tokio::sync::Semaphore;

    type Request = (u32, oneshot::Sender<u32>);

    const WAIT: Duration = Duration::from_secs(60);

    fn all(queue: &mut VecDeque<Queued<Request>>) -> Vec<Queued<Request>> {
        queue.drain(..).collect()
    }

    /// Batches that show their requests, wait for a permit each, and reply with the request.
    struct Fixture {
        batcher: Batcher<Request>,
        batches: mpsc::Receiver<Vec<u32>>,
        permits: Arc<Semaphore>,
    }

    fn fixture(width: usize, full: usize, wait: Duration) -> Fixture {
        let (shown, batches) = mpsc::channel();
        let permits = Arc::new(Semaphore::new(0));
        let to_take = permits.clone();
        let flush: Flush<Request> = Box::new(move |requests| {
            shown
                .send(requests.iter().map(|(request, _)| *request).collect())
                .unwrap();
            let permits = to_take.clone();
            async move {
                permits.acquire().await.unwrap().forget();
                for (request, reply) in requests {
                    let _ = reply.send(request);
                }
            }
            .boxed()
        });
        Fixture {
            batcher: Batcher::new(Limits { width, full, wait }, all, flush),
            batches,
            permits,
        }
    }

    impl Fixture {
        /// Requests that have come as far as they get without a permit.
        async fn submit(
            &self,
            requests: impl IntoIterator<Item = u32>,
        ) -> Vec<tokio::task::JoinHandle<Result<u32, NoReply>>> {
            let mut under_way = Vec::new();
            for request in requests {
                let batcher = self.batcher.clone();
                under_way.push(tokio::spawn(async move {
                    batcher.submit(|reply| (request, reply)).await
                }));
                settle().await;
            }
            under_way
        }

        fn seen(&self) -> Vec<Vec<u32>> {
            self.batches.try_iter().collect()
        }
    }

    async fn settle() {
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
    }

    fn slot(entry: Entry<Request, u32>) -> Slot<Request> {
        match entry {
            Entry::Alone(slot) => slot,
            Entry::Batched(reply) => panic!("it went with a batch: {reply:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_arrive_meanwhile_share_a_batch() {
        let it = fixture(2, 3, WAIT);
        let alone = slot(it.batcher.enter(|reply| (1, reply)).await);
        let waiting = it.submit([2, 3]).await;
        assert_eq!(it.seen(), Vec::<Vec<u32>>::new(), "one is under way");
        drop(alone);
        settle().await;
        assert_eq!(it.seen(), [[2, 3]]);
        it.permits.add_permits(1);
        let replies: Vec<_> = join_all(waiting)
            .await
            .into_iter()
            .map(Result::unwrap)
            .collect();
        assert_eq!(replies, [Ok(2), Ok(3)]);
        settle().await;
        slot(it.batcher.enter(|reply| (4, reply)).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_dropped_in_the_queue_does_not_run() {
        let it = fixture(2, 3, WAIT);
        let alone = slot(it.batcher.enter(|reply| (1, reply)).await);
        let waiting = it.submit([2, 3]).await;
        waiting[0].abort();
        settle().await;
        drop(alone);
        settle().await;
        assert_eq!(it.seen(), [[3]]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_batch_starts_beside_the_one_under_way() {
        let it = fixture(2, 3, WAIT);
        let _alone = slot(it.batcher.enter(|reply| (1, reply)).await);
        let mut waiting = it.submit([2, 3]).await;
        assert_eq!(it.seen(), Vec::<Vec<u32>>::new(), "two are no full batch");
        waiting.extend(it.submit([4, 5, 6, 7]).await);
        assert_eq!(it.seen(), [[2, 3, 4]], "no third batch");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_waits_long_starts_a_batch_beside_the_one_under_way() {
        let it = fixture(2, 3, WAIT);
        let _alone = slot(it.batcher.enter(|reply| (1, reply)).await);
        let _waiting = it.submit([2]).await;
        tokio::time::advance(PATIENCE).await;
        settle().await;
        assert_eq!(it.seen(), [[2]]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_leaves_the_queue_after_its_wait() {
        let it = fixture(1, 3, WAIT);
        let alone = slot(it.batcher.enter(|reply| (1, reply)).await);
        let reply = it.batcher.submit(|reply| (2, reply)).await;
        assert_eq!(reply, Err(NoReply::TimedOut));
        drop(alone);
        settle().await;
        assert_eq!(it.seen(), Vec::<Vec<u32>>::new(), "it did not run");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_whose_batch_is_under_way_waits_for_its_end() {
        let it = fixture(1, 3, WAIT);
        let waiting = it.submit([1]).await;
        tokio::time::advance(10 * WAIT).await;
        it.permits.add_permits(1);
        assert_eq!(join_all(waiting).await.remove(0).unwrap(), Ok(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_of_an_idle_batcher_starts_at_once() {
        let it = fixture(1, usize::MAX, WAIT);
        let _waiting = it.submit([1, 2, 3]).await;
        assert_eq!(it.seen(), [[1]]);
        it.permits.add_permits(1);
        settle().await;
        assert_eq!(it.seen(), [[2, 3]]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_whose_batch_ends_without_a_reply_is_told_apart() {
        let limits = Limits {
            width: 1,
            full: 1,
            wait: WAIT,
        };
        let batcher = Batcher::new(
            limits,
            all,
            Box::new(|_| futures::future::ready(()).boxed()),
        );
        assert_eq!(
            batcher.submit(|reply| (1, reply)).await,
            Err(NoReply::Dropped)
        );
    }

    #[test]
    fn requests_that_wait_at_the_end_of_the_runtime_are_dropped() {
        let it = fixture(2, 3, WAIT);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let alone = runtime.block_on(async {
            let alone = slot(it.batcher.enter(|reply| (1, reply)).await);
            let _waiting = it.submit([2]).await;
            alone
        });
        // The request stays queued by a caller that will never be polled again.
        drop(alone);
        assert_eq!(it.seen(), Vec::<Vec<u32>>::new());
        drop(runtime);
        let _again = slot(
            it.batcher
                .enter(|reply| (3, reply))
                .now_or_never()
                .expect("it does not wait"),
        );
    }
}
