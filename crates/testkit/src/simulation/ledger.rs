//! A service of a simulation that keeps its keys, as one should: what is sent again is done once, and what is taken back stays so.

use counterstep_contracts::TaskId;
use counterstep_kernel::ports::{Method, ServiceAnswer, ServiceRequest};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What became of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Booking {
    /// It is done.
    Done,
    /// It was done, and taken back.
    Undone,
    /// It was taken back before it was done, and will not be done.
    Closed,
}

/// Bookings by key. Clones are one ledger.
#[derive(Debug, Clone, Default)]
pub struct Ledger(Arc<Mutex<BTreeMap<String, Booking>>>);

impl Ledger {
    /// Answers a request. `POST`, `PUT` and `PATCH` do what their `Idempotency-Key` names; `DELETE` takes back what its last
    /// segment names, done or not; `GET` answers 200 where that is done, and else 404.
    #[must_use]
    pub fn answer(&self, request: &ServiceRequest) -> ServiceAnswer {
        let mut bookings = self.0.lock();
        let last = request.path.rsplit('/').next().unwrap_or_default();
        let named = last.replace("%3A", ":");
        match request.method {
            Method::Get => match bookings.get(&named) {
                Some(Booking::Done) => ServiceAnswer::json(200, &json!({ "receipt": named })),
                _ => ServiceAnswer::json(404, &json!({ "detail": "not done" })),
            },
            Method::Delete => {
                let booking = bookings.entry(named).or_insert(Booking::Closed);
                if *booking == Booking::Done {
                    *booking = Booking::Undone;
                }
                ServiceAnswer::json(200, &Value::Null)
            }
            _ => {
                let mut headers = request.headers.iter();
                let key = headers.find(|(name, _)| *name == "idempotency-key");
                let Some((_, key)) = key else {
                    return ServiceAnswer::json(400, &json!({ "detail": "no key" }));
                };
                let key = key.trim_matches('"').to_owned();
                match bookings.get(&key) {
                    Some(Booking::Undone | Booking::Closed) => {
                        ServiceAnswer::json(409, &json!({ "detail": "taken back" }))
                    }
                    Some(Booking::Done) | None => {
                        bookings.insert(key.clone(), Booking::Done);
                        ServiceAnswer::json(200, &json!({ "receipt": key }))
                    }
                }
            }
        }
    }

    /// The bookings of a task, by step.
    #[must_use]
    pub fn of(&self, task: TaskId) -> BTreeMap<String, Booking> {
        let bookings = self.0.lock();
        let prefix = format!("{task}:");
        let of = bookings.iter().filter(|(key, _)| key.starts_with(&prefix));
        of.map(|(key, booking)| (key[prefix.len()..].to_owned(), *booking))
            .collect()
    }

    /// How many bookings of a task stand.
    #[must_use]
    pub fn standing(&self, task: TaskId) -> usize {
        let of = self.of(task).into_values();
        of.filter(|booking| *booking == Booking::Done).count()
    }
}
