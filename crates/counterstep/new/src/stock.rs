//! What steps share: one value for the whole process, made when the program starts.
//!
//! It stands in for a pool of connections or the client of a service. Its entries are in memory, and
//! each process has its own; those of a database are there for all workers. A pool, which takes a
//! connection to make, is provided by `Registry::provide_with(|| async { .. })`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is reserved, by the key of the step that did. Clones share it.
#[derive(Clone, Default)]
pub struct Stock(Arc<Mutex<BTreeMap<String, String>>>);

impl Stock {
    /// Reserves an item. The same key again changes nothing.
    pub fn reserve(&self, key: &str, item: &str) {
        self.items().insert(key.to_owned(), item.to_owned());
    }

    /// Releases what was reserved under a key, if there is something.
    pub fn release(&self, key: &str) {
        self.items().remove(key);
    }

    /// The number of items that are reserved.
    pub fn reserved(&self) -> usize {
        self.items().len()
    }

    fn items(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
