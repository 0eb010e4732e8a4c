//! Locks and hints within one process, for the embedded set.
//!
//! Several processes may share one database file, and then each has its own: they see fewer
//! collisions coming and ask the rows more often. That is all, for neither decides anything; on one
//! file the lease in the row is the lock.

use crate::system::SystemClock;
use async_trait::async_trait;
use counterstep_contracts::TaskId;
use counterstep_kernel::ports::{Acquired, Clock, HintError, Hints, LockError, LockTag, Locks};
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Entries that a table may hold before the expired ones are removed.
const TIDY_AT: usize = 1024;
/// Maximum number of hints. Beyond it some are dropped: a hint may be lost.
const MOST_HINTS: usize = 65_536;

/// Entries that end by themselves.
#[derive(Debug)]
struct Passing<K, V> {
    entries: HashMap<K, (V, Duration)>,
    clock: Arc<dyn Clock>,
    tidy_at: usize,
}

impl<K, V> Passing<K, V> {
    fn new(clock: &Arc<dyn Clock>) -> Mutex<Self> {
        Mutex::new(Self {
            entries: HashMap::new(),
            clock: clock.clone(),
            tidy_at: TIDY_AT,
        })
    }

    fn end(&self, ttl: Duration) -> Duration {
        self.clock.monotonic().saturating_add(ttl)
    }
}

impl<K: Hash + Eq, V> Passing<K, V> {
    fn get<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut (V, Duration)>
    where
        K: std::borrow::Borrow<Q>,
    {
        let now = self.clock.monotonic();
        self.entries.get_mut(key).filter(|(_, until)| *until > now)
    }

    fn put(&mut self, key: K, value: V, ttl: Duration) {
        if self.entries.len() >= self.tidy_at {
            let now = self.clock.monotonic();
            self.entries.retain(|_, (_, until)| *until > now);
            // So that a table full of live entries is not walked through for each new one.
            self.tidy_at = (self.entries.len() * 2).max(TIDY_AT);
        }
        let until = self.end(ttl);
        self.entries.insert(key, (value, until));
    }
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// Locks of the tasks that this process runs.
#[derive(Debug)]
pub struct LocalLocks {
    held: Mutex<Passing<TaskId, LockTag>>,
    next: AtomicU64,
}

impl LocalLocks {
    /// Without a lock; they end by this timer.
    #[must_use]
    pub fn with_clock(clock: &Arc<dyn Clock>) -> Self {
        Self {
            held: Passing::new(clock),
            next: AtomicU64::new(0),
        }
    }
}

impl Default for LocalLocks {
    fn default() -> Self {
        Self::with_clock(&machine())
    }
}

/// The machine's timer.
fn machine() -> Arc<dyn Clock> {
    Arc::new(SystemClock::new())
}

#[async_trait]
impl Locks for LocalLocks {
    fn is_shared(&self) -> bool {
        false
    }

    async fn acquire(&self, task: TaskId, ttl: Duration) -> Result<Acquired, LockError> {
        let mut held = open(&self.held);
        if held.get(&task).is_some() {
            return Ok(Acquired::Elsewhere);
        }
        let tag = LockTag(
            self.next
                .fetch_add(1, Ordering::Relaxed)
                .to_be_bytes()
                .to_vec(),
        );
        held.put(task, tag.clone(), ttl);
        Ok(Acquired::Held(tag))
    }

    async fn extend(&self, task: TaskId, tag: &LockTag, ttl: Duration) -> Result<bool, LockError> {
        let mut held = open(&self.held);
        let end = held.end(ttl);
        let ours = held.get(&task).filter(|(holder, _)| holder == tag);
        Ok(ours.map(|(_, until)| *until = end).is_some())
    }

    async fn release(&self, task: TaskId, tag: &LockTag) -> Result<(), LockError> {
        let mut held = open(&self.held);
        if held.get(&task).is_some_and(|(holder, _)| holder == tag) {
            held.entries.remove(&task);
        }
        Ok(())
    }
}

/// What one process remembers.
#[derive(Debug)]
pub struct LocalHints {
    remembered: Mutex<Passing<String, ()>>,
    counted: Mutex<Passing<String, u64>>,
    kept: Mutex<Passing<String, String>>,
    /// What of it other processes may say as often as they like: it must not crowd out the rest.
    told: Mutex<Passing<String, String>>,
}

/// Maximum number of tasks whose progress is kept: a few kilobytes each.
const MOST_TOLD: usize = 4_096;

impl Default for LocalHints {
    fn default() -> Self {
        Self::with_clock(&machine())
    }
}

impl LocalHints {
    /// Without a hint; they are forgotten by this timer.
    #[must_use]
    pub fn with_clock(clock: &Arc<dyn Clock>) -> Self {
        Self {
            remembered: Passing::new(clock),
            counted: Passing::new(clock),
            kept: Passing::new(clock),
            told: Passing::new(clock),
        }
    }

    fn table(&self, key: &str) -> (&Mutex<Passing<String, String>>, usize) {
        if key.starts_with("progress:") {
            (&self.told, MOST_TOLD)
        } else {
            (&self.kept, MOST_HINTS)
        }
    }
}

/// Puts a hint, and forgets all of its kind where there are too many.
fn hint<V>(table: &mut Passing<String, V>, most: usize, key: &str, value: V, ttl: Duration) {
    if table.entries.len() >= most {
        table.entries.clear();
    }
    table.put(key.to_owned(), value, ttl);
}

#[async_trait]
impl Hints for LocalHints {
    fn is_shared(&self) -> bool {
        false
    }

    async fn seen(&self, key: &str) -> Result<bool, HintError> {
        Ok(open(&self.remembered).get(key).is_some())
    }

    async fn remember(&self, key: &str, ttl: Duration) -> Result<(), HintError> {
        hint(&mut open(&self.remembered), MOST_HINTS, key, (), ttl);
        Ok(())
    }

    async fn bump(&self, counter: &str, window: Duration) -> Result<u64, HintError> {
        let mut counted = open(&self.counted);
        if let Some((count, _)) = counted.get(counter) {
            *count += 1;
            return Ok(*count);
        }
        hint(&mut counted, MOST_HINTS, counter, 1, window);
        Ok(1)
    }

    async fn get(&self, key: &str) -> Result<Option<String>, HintError> {
        Ok(open(self.table(key).0)
            .get(key)
            .map(|(value, _)| value.clone()))
    }

    async fn left(&self, key: &str) -> Result<Option<Duration>, HintError> {
        let mut table = open(self.table(key).0);
        let now = table.clock.monotonic();
        Ok(table.get(key).map(|(_, until)| until.saturating_sub(now)))
    }

    async fn set(&self, key: &str, value: &str, ttl: Duration) -> Result<(), HintError> {
        let (table, most) = self.table(key);
        hint(&mut open(table), most, key, value.to_owned(), ttl);
        Ok(())
    }

    async fn swap(
        &self,
        key: &str,
        was: Option<&str>,
        value: &str,
        ttl: Duration,
    ) -> Result<bool, HintError> {
        let (table, most) = self.table(key);
        let mut kept = open(table);
        if kept.get(key).map(|(value, _)| value.as_str()) != was {
            return Ok(false);
        }
        hint(&mut kept, most, key, value.to_owned(), ttl);
        Ok(true)
    }
}
