//! What three well-behaved services remember: each does its work once for a key, and refuses what was
//! taken back before it came. In memory, for the tests and for `src/bin/services.rs`.

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub struct Ledger {
    /// By service and key.
    done: BTreeMap<(String, String), Value>,
    taken_back: BTreeSet<(String, String)>,
}

impl Ledger {
    /// Status and body of an answer. `path` is that below the service, `key` the header
    /// `Idempotency-Key`.
    pub fn answer(&mut self, service: &str, method: &str, path: &str, key: &str) -> (u16, Value) {
        let entry = |key: &str| (service.to_owned(), key.to_owned());
        match method {
            "POST" if self.taken_back.contains(&entry(key)) => (410, json!("it was taken back")),
            "POST" => {
                let number = self.done.len();
                let made = json!({
                    "shelf": format!("s{number}"),
                    "receipt": format!("r{number}"),
                    "tracking": format!("t{number}"),
                });
                (200, self.done.entry(entry(key)).or_insert(made).clone())
            }
            "DELETE" => {
                let of = path
                    .rsplit('/')
                    .next()
                    .unwrap_or_default()
                    .replace("%3A", ":");
                self.done.remove(&entry(&of));
                self.taken_back.insert(entry(&of));
                (200, Value::Null)
            }
            _ => (405, json!("POST or DELETE")),
        }
    }

    /// The services that have done something for a task which was not taken back.
    pub fn open_of(&self, task: &str) -> Vec<&str> {
        let of_task = |(_, key): &&(String, String)| key.starts_with(task);
        let open = self.done.keys().filter(of_task);
        open.map(|(service, _)| service.as_str()).collect()
    }
}
