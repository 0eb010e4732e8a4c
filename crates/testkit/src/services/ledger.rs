//! What the services have written down: who has how much, what was done under which key, and what
//! is to go wrong.

use counterstep_contracts::TaskId;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// What goes wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// This status and, where given, this `Retry-After`; nothing is done.
    Refuses(u16, Option<String>),
    /// The connection is cut; nothing is done.
    CutBefore,
    /// It is done, and the connection is cut before the answer.
    CutAfter,
    /// It is done, and the answer never comes.
    Silent,
    /// It is done after this delay, whether or not a client still waits for it.
    Late(Duration),
    /// It is done, and the answer is no JSON.
    Garbled,
}

/// What a service answers.
pub(super) type Answer = (u16, Value);

const CUSTOMERS: [&str; 2] = ["anna", "bert"];
const EACH_HAS: i64 = 1_000_000_000;
const STOCK: i64 = 1_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Done,
    TakenBack,
    /// Taken back before it came.
    Void,
}

#[derive(Debug)]
struct Entry {
    state: State,
    /// Of the request that made it.
    body: Value,
    answer: Answer,
}

/// Accounts in cents, stock in pieces, and the entries by service and key.
#[derive(Debug)]
pub(super) struct Ledger {
    accounts: BTreeMap<String, i64>,
    stock: i64,
    entries: BTreeMap<(&'static str, String), Entry>,
    /// By request; with a task, for its calls alone.
    troubles: BTreeMap<(String, Option<TaskId>), VecDeque<Trouble>>,
    requests: BTreeMap<String, usize>,
    /// Each `traceparent` that came.
    pub(super) traces: BTreeSet<String>,
    /// Work that is to be done later.
    pub(super) late: usize,
}

impl Ledger {
    pub(super) fn new() -> Self {
        let accounts = CUSTOMERS
            .map(|name| (name.to_owned(), EACH_HAS))
            .into_iter()
            .chain([("shop".to_owned(), 0)]);
        Self {
            accounts: accounts.collect(),
            stock: STOCK,
            entries: BTreeMap::new(),
            troubles: BTreeMap::new(),
            requests: BTreeMap::new(),
            traces: BTreeSet::new(),
            late: 0,
        }
    }

    pub(super) fn plant(&mut self, request: &str, of: Option<TaskId>, trouble: Trouble) {
        self.troubles
            .entry((request.to_owned(), of))
            .or_default()
            .push_back(trouble);
    }

    pub(super) fn planted_at(&self, request: &str) -> usize {
        self.troubles
            .get(&(request.to_owned(), None))
            .map_or(0, VecDeque::len)
    }

    pub(super) fn planted(&self) -> usize {
        self.troubles.values().map(VecDeque::len).sum()
    }

    pub(super) fn planted_for(&self, request: &str, task: TaskId) -> usize {
        self.troubles
            .get(&(request.to_owned(), Some(task)))
            .map_or(0, VecDeque::len)
    }

    pub(super) fn requests(&self, request: &str) -> usize {
        self.requests.get(request).copied().unwrap_or(0)
    }

    /// Counts a request, and gives what goes wrong with it. `key` is the one of the step's call:
    /// `{task}:{step}`.
    pub(super) fn strike(&mut self, request: &str, key: &str) -> Option<Trouble> {
        *self.requests.entry(request.to_owned()).or_default() += 1;
        let task = key.split_once(':').and_then(|(task, _)| task.parse().ok());
        let own = task.and_then(|task| self.troubles.get_mut(&(request.to_owned(), Some(task))));
        let own = own.and_then(VecDeque::pop_front);
        own.or_else(|| {
            self.troubles
                .get_mut(&(request.to_owned(), None))?
                .pop_front()
        })
    }

    /// What was answered to what stands under this key.
    pub(super) fn find(&self, service: &'static str, key: &str) -> Option<Answer> {
        let entry = self.entries.get(&(service, key.to_owned()))?;
        (entry.state == State::Done).then(|| entry.answer.clone())
    }

    pub(super) fn balance(&self, account: &str) -> i64 {
        self.accounts.get(account).copied().unwrap_or(0)
    }

    pub(super) fn open(&self, task: TaskId) -> Vec<String> {
        let own = format!("{task}:");
        let done = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.state == State::Done);
        done.filter_map(|((service, key), _)| {
            Some(format!("{service}/{}", key.strip_prefix(&own)?))
        })
        .collect()
    }

    pub(super) fn assert_conserved(&self) {
        let money: i64 = self.accounts.values().sum();
        assert_eq!(
            money,
            EACH_HAS * CUSTOMERS.len() as i64,
            "money was made or lost: {:?}",
            self.accounts
        );
        let done = |service| {
            let of = self
                .entries
                .iter()
                .filter(move |((of, _), _)| *of == service);
            of.filter(|(_, entry)| entry.state == State::Done)
                .map(|(_, entry)| entry)
        };
        let charged: i64 = done("bank")
            .map(|entry| whole(&entry.body, "amount_cents"))
            .sum();
        assert_eq!(
            self.balance("shop"),
            charged,
            "the shop has what was charged and not given back"
        );
        let reserved: i64 = done("inventory")
            .map(|entry| whole(&entry.body, "quantity"))
            .sum();
        assert_eq!(self.stock + reserved, STOCK, "goods were made or lost");
    }

    /// Does a thing once for its key.
    pub(super) fn make(&mut self, service: &'static str, key: &str, body: Value) -> Answer {
        match self.entries.get(&(service, key.to_owned())) {
            Some(Entry {
                state: State::Done,
                body: first,
                answer,
            }) if *first == body => return answer.clone(),
            Some(Entry {
                state: State::Done, ..
            }) => return (422, json!({"error": "the key is another request's"})),
            Some(_) => return (410, json!({"error": "it was taken back"})),
            None => {}
        }
        let id = self.entries.len() + 1;
        let answer = match service {
            "bank" => {
                let (from, amount) = (
                    body["account"].as_str().unwrap_or_default(),
                    whole(&body, "amount_cents"),
                );
                if amount <= 0 || self.balance(from) < amount {
                    return (402, json!({"error": "not enough money"}));
                }
                self.transfer(from, "shop", amount);
                (
                    201,
                    json!({"charge_id": format!("c{id}"), "amount_cents": amount}),
                )
            }
            "inventory" => {
                let quantity = whole(&body, "quantity");
                if quantity <= 0 || self.stock < quantity {
                    return (409, json!({"error": "not enough goods"}));
                }
                self.stock -= quantity;
                (201, json!({"reservation_id": format!("r{id}")}))
            }
            _ => (201, json!({"tracking": format!("t{id}")})),
        };
        let entry = Entry {
            state: State::Done,
            body,
            answer: answer.clone(),
        };
        self.entries.insert((service, key.to_owned()), entry);
        answer
    }

    /// Takes a thing back, once.
    pub(super) fn take_back(&mut self, service: &'static str, key: &str) -> Answer {
        let Some(entry) = self.entries.get_mut(&(service, key.to_owned())) else {
            let void = Entry {
                state: State::Void,
                body: Value::Null,
                answer: (410, Value::Null),
            };
            self.entries.insert((service, key.to_owned()), void);
            return (404, json!({"error": "nothing was done under this key"}));
        };
        if entry.state != State::Done {
            return (200, json!({}));
        }
        entry.state = State::TakenBack;
        let body = entry.body.clone();
        match service {
            "bank" => {
                let to = body["account"].as_str().unwrap_or_default().to_owned();
                self.transfer("shop", &to, whole(&body, "amount_cents"));
            }
            "inventory" => self.stock += whole(&body, "quantity"),
            _ => {}
        }
        (200, json!({}))
    }

    fn transfer(&mut self, from: &str, to: &str, amount: i64) {
        *self.accounts.entry(from.to_owned()).or_default() -= amount;
        *self.accounts.entry(to.to_owned()).or_default() += amount;
    }
}

fn whole(body: &Value, field: &str) -> i64 {
    body[field].as_i64().unwrap_or(0)
}
