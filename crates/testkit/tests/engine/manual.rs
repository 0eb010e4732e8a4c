//! Hints for tests: some whose time only a test moves, and some that are of no use.

use async_trait::async_trait;
use counterstep_kernel::ports::{HintError, Hints};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// What is remembered, until this time.
type Table<V> = HashMap<String, (V, Duration)>;

#[derive(Debug, Default)]
struct Memory {
    now: Duration,
    seen: Table<()>,
    counted: Table<u64>,
    kept: Table<String>,
}

/// Hints of one process, with a clock that stands still until it is moved.
#[derive(Debug, Default)]
pub(crate) struct TestHints(Mutex<Memory>);

impl TestHints {
    /// Moves the time.
    pub(crate) fn advance(&self, by: Duration) {
        self.open().now += by;
    }

    fn open(&self) -> MutexGuard<'_, Memory> {
        let mut memory = self.0.lock().unwrap();
        let now = memory.now;
        memory.seen.retain(|_, (_, until)| *until > now);
        memory.counted.retain(|_, (_, until)| *until > now);
        memory.kept.retain(|_, (_, until)| *until > now);
        memory
    }
}

#[async_trait]
impl Hints for TestHints {
    async fn seen(&self, key: &str) -> Result<bool, HintError> {
        Ok(self.open().seen.contains_key(key))
    }

    async fn remember(&self, key: &str, ttl: Duration) -> Result<(), HintError> {
        let mut memory = self.open();
        let until = memory.now + ttl;
        memory.seen.insert(key.to_owned(), ((), until));
        Ok(())
    }

    async fn bump(&self, counter: &str, window: Duration) -> Result<u64, HintError> {
        let mut memory = self.open();
        let until = memory.now + window;
        let (count, _) = memory
            .counted
            .entry(counter.to_owned())
            .or_insert((0, until));
        *count += 1;
        Ok(*count)
    }

    async fn get(&self, key: &str) -> Result<Option<String>, HintError> {
        Ok(self.open().kept.get(key).map(|(value, _)| value.clone()))
    }

    async fn left(&self, key: &str) -> Result<Option<Duration>, HintError> {
        let memory = self.open();
        Ok(memory
            .kept
            .get(key)
            .map(|(_, until)| until.saturating_sub(memory.now)))
    }

    async fn set(&self, key: &str, value: &str, ttl: Duration) -> Result<(), HintError> {
        let mut memory = self.open();
        let until = memory.now + ttl;
        memory
            .kept
            .insert(key.to_owned(), (value.to_owned(), until));
        Ok(())
    }

    async fn swap(
        &self,
        key: &str,
        was: Option<&str>,
        value: &str,
        ttl: Duration,
    ) -> Result<bool, HintError> {
        let mut memory = self.open();
        if memory.kept.get(key).map(|(value, _)| value.as_str()) != was {
            return Ok(false);
        }
        let until = memory.now + ttl;
        memory
            .kept
            .insert(key.to_owned(), (value.to_owned(), until));
        Ok(true)
    }
}

/// Hints that are of no use.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mute {
    Errs,
    NeverAnswers,
}

impl Mute {
    async fn answer<T>(self) -> Result<T, HintError> {
        match self {
            Self::Errs => Err(HintError("planted".to_owned())),
            Self::NeverAnswers => std::future::pending().await,
        }
    }
}

#[async_trait]
impl Hints for Mute {
    async fn seen(&self, _: &str) -> Result<bool, HintError> {
        self.answer().await
    }

    async fn remember(&self, _: &str, _: Duration) -> Result<(), HintError> {
        self.answer().await
    }

    async fn bump(&self, _: &str, _: Duration) -> Result<u64, HintError> {
        self.answer().await
    }

    async fn get(&self, _: &str) -> Result<Option<String>, HintError> {
        self.answer().await
    }

    async fn set(&self, _: &str, _: &str, _: Duration) -> Result<(), HintError> {
        self.answer().await
    }

    async fn swap(
        &self,
        _: &str,
        _: Option<&str>,
        _: &str,
        _: Duration,
    ) -> Result<bool, HintError> {
        self.answer().await
    }
}
