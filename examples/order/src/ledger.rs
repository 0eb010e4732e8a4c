//! What three well-behaved services remember: each does its work once for a key, and refuses what was
//! taken back before it came. In memory, for the tests and for `src/bin/services.rs`.

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub struct Ledger {
    /// What was ever made: no number is given out twice.
    made: u64,
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
                let count = &mut self.made;
                let made = self.done.entry(entry(key)).or_insert_with(|| {
                    let number = *count;
                    *count += 1;
                    json!({
                        "shelf": format!("s{number}"),
                        "receipt": format!("r{number}"),
                        "tracking": format!("t{number}"),
                    })
                });
                (200, made.clone())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_is_given_out_once_whatever_was_taken_back() {
        let mut ledger = Ledger::default();
        let mut charge = |method: &str, key: &str| {
            let path = format!("/charges/{key}");
            ledger.answer("bank", method, &path, key).1["receipt"].clone()
        };
        let (first, second) = (charge("POST", "a"), charge("POST", "b"));
        assert_eq!(charge("POST", "b"), second);
        charge("DELETE", "a");
        let third = charge("POST", "c");
        assert!(third != first && third != second, "{third}");
    }
}
