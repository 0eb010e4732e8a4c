//! What has happened in a run, in order: a hash of it always, and its lines where they are asked for.

use parking_lot::Mutex;
use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::time::Duration;

/// The events of a run.
#[derive(Debug, Default)]
pub(super) struct Trace {
    inner: Mutex<Inner>,
    keeps: bool,
}

#[derive(Debug, Default)]
struct Inner {
    // Its keys are constants: the same in every process.
    hash: DefaultHasher,
    events: u64,
    lines: Vec<String>,
}

impl Trace {
    /// `keeps`: its lines too.
    pub(super) fn new(keeps: bool) -> Self {
        let inner = Mutex::default();
        Self { inner, keeps }
    }

    /// Notes an event that no person has to read.
    pub(super) fn mark(&self, at: Duration, what: impl Hash) {
        let mut inner = self.inner.lock();
        at.as_micros().hash(&mut inner.hash);
        what.hash(&mut inner.hash);
        inner.events += 1;
    }

    /// Notes an event: what makes it differ from others, and the line that a person reads.
    pub(super) fn note(&self, at: Duration, what: impl Hash, line: impl FnOnce() -> String) {
        self.mark(at, what);
        if self.keeps {
            let line = format!("{} {}", Seconds(at), line());
            self.inner.lock().lines.push(line);
        }
    }

    pub(super) fn hash(&self) -> u64 {
        self.inner.lock().hash.finish()
    }

    pub(super) fn events(&self) -> u64 {
        self.inner.lock().events
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.inner.lock().lines.clone()
    }
}

/// A time since the start of a run, as lines show it.
pub(super) struct Seconds(pub(super) Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:8.3} s", self.0.as_secs_f64())
    }
}
