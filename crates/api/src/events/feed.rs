//! What has changed among all tasks, found once for all streams of a process that follow many tasks: the
//! revisions of the tasks that have not ended are compared with those of the pass before. Must not know
//! what a stream asks for.

use super::frame;
use bytes::Bytes;
use counterstep_contracts::{Rev, TaskId, Tenant};
use counterstep_kernel::Engine;
use counterstep_kernel::ports::{RevisionsOf, SEEN_WITHIN, StoreError, TaskLine, TaskRevision};
use counterstep_operations::task_bodies::change_event;
use counterstep_steps::times::DbTime;
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{broadcast, watch};
use tokio::task::AbortHandle;

/// How far back each pass looks for tasks that were never seen open; every [`FULL`] it is [`SEEN_WITHIN`].
const SHORTLY: Duration = Duration::from_secs(5);

/// Time between two passes that look as far back as [`SEEN_WITHIN`].
const FULL: Duration = Duration::from_secs(15);

/// A pass takes at most a twentieth of the time: after it the loop sleeps this many times as long as it took.
const SHARE: u32 = 20;

/// Maximum number of tasks of one read, and of one batch.
pub(super) const PAGE: u32 = 200;

/// Maximum number of batches that a stream may be behind; then it ends, and its client continues from its
/// last id.
const BEHIND: usize = 128;

/// Tasks that have changed, as they are now.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) changes: Vec<Change>,
    /// With these, everything is told that had changed before this time.
    pub(super) up_to: Option<DbTime>,
}

/// A task that has changed, and its event.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) line: TaskLine,
    pub(super) frame: Bytes,
}

impl Change {
    pub(super) fn of(line: TaskLine) -> Result<Self, StoreError> {
        let frame = frame::change(&change_event(line.clone()));
        let frame = frame.map_err(|error| StoreError::Corrupt(error.to_string()))?;
        Ok(Self { line, frame })
    }
}

/// The feeds of a process: one for each tenant whose tasks a stream follows now.
#[derive(Debug, Default)]
pub(super) struct Feeds(Mutex<HashMap<Tenant, RunningFeed>>);

/// The feed of a tenant, and what looks for its changes.
#[derive(Debug)]
struct RunningFeed {
    feed: Arc<Feed>,
    looking: AbortHandle,
}

/// The changes of all tasks of a tenant.
#[derive(Debug)]
struct Feed {
    changes: broadcast::Sender<Arc<Batch>>,
    /// Up to when all changes were sent; `None`: it has not looked yet.
    up_to: watch::Sender<Option<DbTime>>,
}

impl Default for Feed {
    fn default() -> Self {
        Self {
            changes: broadcast::Sender::new(BEHIND),
            up_to: watch::Sender::new(None),
        }
    }
}

/// One stream's share in the feed.
#[derive(Debug)]
pub(super) struct Joined {
    pub(super) changes: broadcast::Receiver<Arc<Batch>>,
    pub(super) up_to: watch::Receiver<Option<DbTime>>,
}

/// Where a feed finds its changes, how often at most, and where it runs.
#[derive(Debug)]
pub(super) struct Looks {
    pub(super) engine: Engine,
    pub(super) every: Duration,
    pub(super) runtime: Handle,
}

impl Feeds {
    /// All that is found from now on. What was there before is to be read once the feed looks.
    pub(super) fn join(self: &Arc<Self>, tenant: &Tenant, looks: &Looks) -> Joined {
        let mut feeds = self.lock();
        let running = feeds.entry(tenant.clone()).or_insert_with(|| {
            let feed = Arc::<Feed>::default();
            let known = Known::of(tenant.clone());
            let looking = run(
                looks.engine.clone(),
                known,
                feed.clone(),
                looks.every,
                self.clone(),
            );
            RunningFeed {
                feed,
                looking: looks.runtime.spawn(looking).abort_handle(),
            }
        });
        Joined {
            changes: running.feed.changes.subscribe(),
            up_to: running.feed.up_to.subscribe(),
        }
    }

    /// Forgets the feed if it has no stream any more: the next one makes another.
    fn ends(&self, tenant: &Tenant, feed: &Feed) -> bool {
        // Under the lock under which streams join: the last one is the last one.
        let mut feeds = self.lock();
        let ends = feed.changes.receiver_count() == 0;
        if ends {
            feeds.remove(tenant);
        }
        ends
    }

    /// Ends all of them.
    pub(super) fn stop(&self) {
        for (_, running) in self.lock().drain() {
            running.looking.abort();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Tenant, RunningFeed>> {
        self.0.lock()
    }

    /// Of how many tenants there is one.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }
}

/// Looks for changes for as long as there are streams, at most every `every`.
async fn run(
    engine: Engine,
    mut known: Known,
    feed: Arc<Feed>,
    every: Duration,
    feeds: Arc<Feeds>,
) {
    while !feeds.ends(&known.tenant, &feed) {
        let begun = Instant::now();
        if let Err(error) = known.pass(&engine, &feed).await {
            tracing::debug!(%error, "looking for changes of all tasks failed");
        }
        tokio::time::sleep(every.max(begun.elapsed() * SHARE)).await;
    }
}

/// What the pass before has seen.
struct Known {
    tenant: Tenant,
    open: HashMap<TaskId, Rev>,
    /// Those that ended lately, and when.
    ended: HashMap<TaskId, (Rev, DbTime)>,
    /// When it was; `None`: there was none.
    at: Option<DbTime>,
    /// The last one that looked back for long.
    full: Option<Instant>,
}

impl Known {
    fn of(tenant: Tenant) -> Self {
        Self {
            tenant,
            open: HashMap::new(),
            ended: HashMap::new(),
            at: None,
            full: None,
        }
    }

    /// Sends what has changed since the pass before; the first one only remembers. One that fails has
    /// remembered nothing that it has not sent.
    async fn pass(&mut self, engine: &Engine, feed: &Feed) -> Result<(), StoreError> {
        let store = &engine.ports.store;
        let open = store
            .revisions(&RevisionsOf::Open(self.tenant.clone()))
            .await?;
        let now = open.now;
        let open: HashMap<_, _> = open.tasks.iter().map(|it| (it.task, it.rev)).collect();
        let is_full = self.full.is_none_or(|full| full.elapsed() >= FULL);
        let back = if is_full { SEEN_WITHIN } else { SHORTLY };
        let since = self.at.unwrap_or(now).earlier(back);
        let ended = ended_since(engine, &self.tenant, since).await?;

        let mut changed = HashSet::new();
        let news = open
            .iter()
            .filter(|(task, rev)| self.open.get(task) != Some(rev));
        changed.extend(news.map(|(task, _)| *task));
        let gone = self.open.keys().filter(|task| !open.contains_key(task));
        changed.extend(gone.copied());
        let news = ended
            .iter()
            .filter(|(task, (rev, _))| self.ended.get(task).is_none_or(|(known, _)| known != rev));
        changed.extend(news.map(|(task, _)| *task));
        if self.at.is_some() {
            let changed: Vec<_> = changed.into_iter().collect();
            for chunk in changed.chunks(PAGE as usize) {
                let lines = store.lines(chunk).await?;
                let changes = lines.into_iter().map(Change::of);
                let changes = changes.collect::<Result<_, _>>()?;
                // No receiver: the last stream has just gone.
                let up_to = None;
                let _ = feed.changes.send(Arc::new(Batch { changes, up_to }));
            }
            if !changed.is_empty() {
                let (changes, up_to) = (Vec::new(), Some(now));
                let _ = feed.changes.send(Arc::new(Batch { changes, up_to }));
            }
        }
        self.open = open;
        self.ended.extend(ended);
        let oldest = now.earlier(SEEN_WITHIN * 2);
        self.ended.retain(|_, (_, at)| *at >= oldest);
        self.at = Some(now);
        if is_full {
            self.full = Some(Instant::now());
        }
        // Last: all that is before it has been sent.
        feed.up_to.send_replace(Some(now));
        Ok(())
    }
}

/// Those that ended at this time or later, of the types that this process knows.
async fn ended_since(
    engine: &Engine,
    tenant: &Tenant,
    since: DbTime,
) -> Result<HashMap<TaskId, (Rev, DbTime)>, StoreError> {
    let mut after = (since, TaskId(uuid::Uuid::nil()));
    let mut ended = HashMap::new();
    loop {
        let page = ended_page(engine, tenant, None, after, PAGE * 10).await?;
        let Some(last) = page.last() else {
            return Ok(ended);
        };
        after = (last.at, last.task);
        ended.extend(page.into_iter().map(|it| (it.task, (it.rev, it.at))));
    }
}

/// A page of those that ended behind this one, of one type or of all that this process knows, the
/// first ones first.
pub(super) async fn ended_page(
    engine: &Engine,
    tenant: &Tenant,
    task_type: Option<&str>,
    after: (DbTime, TaskId),
    limit: u32,
) -> Result<Vec<TaskRevision>, StoreError> {
    let task_types = match task_type {
        Some(one) => vec![one.to_owned()],
        None => {
            let names = engine.registry.iter().map(|of| of.decl.name.to_owned());
            names.collect::<BTreeSet<_>>().into_iter().collect()
        }
    };
    let of = RevisionsOf::Ended {
        tenant: Some(tenant.clone()),
        task_types,
        after,
        limit,
    };
    Ok(engine.ports.store.revisions(&of).await?.tasks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use counterstep_steps::Registry;
    use counterstep_testkit::Harness;

    async fn has(feeds: &Feeds, count: usize) {
        let waited = tokio::time::timeout(Duration::from_secs(60), async {
            while feeds.len() != count {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        let has = waited.await;
        assert!(has.is_ok(), "{} feeds; expected {count}", feeds.len());
    }

    #[tokio::test]
    async fn a_feed_without_a_stream_is_forgotten_and_the_next_stream_gets_another() {
        let site = Harness::embedded(Registry::new()).start().await;
        let looks = Looks {
            engine: site.engine.clone(),
            every: Duration::from_millis(1),
            runtime: Handle::current(),
        };
        let (acme, umbra) = (Tenant("acme".to_owned()), Tenant("umbra".to_owned()));
        let feeds = Arc::<Feeds>::default();
        let (first, second) = (feeds.join(&acme, &looks), feeds.join(&acme, &looks));
        let other = feeds.join(&umbra, &looks);
        assert_eq!(feeds.len(), 2);
        drop((first, other));
        has(&feeds, 1).await;
        drop(second);
        has(&feeds, 0).await;
        let mut again = feeds.join(&acme, &looks);
        let looked = again.up_to.wait_for(Option::is_some).await;
        assert!(looked.is_ok(), "the new feed does not look");
        assert_eq!(feeds.len(), 1);
    }
}
