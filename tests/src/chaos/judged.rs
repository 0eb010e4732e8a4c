//! What contradicts a promise in what a chaos run has left behind, by the numbers of
//! `docs/invariants.md`. Asks no process and no store, so that tests can hand it a broken run.

use super::history::{self, Call, Excepted, Got, Journal};
use crate::rows::Known;
use counterstep_contracts::{TaskId, TaskStatus, Tenant};
use counterstep_testkit::invariants;
use std::collections::BTreeMap;
use std::time::Duration;

/// What a client knows of one task.
#[derive(Debug, Clone)]
pub(super) struct Submitted {
    pub(super) task: TaskId,
    /// The idempotency key under which it was submitted.
    pub(super) key: String,
    pub(super) is_order: bool,
    /// How long the answer that accepted it took.
    pub(super) answered_in: Duration,
    /// In which state it came to rest, where the client has seen that.
    pub(super) status: Option<TaskStatus>,
    pub(super) cancel: Cancel,
    /// What contradicts what the client was promised, apart from the states.
    pub(super) anomalies: Vec<String>,
    /// All its calls about the task, in the order of their begin.
    pub(super) calls: Vec<Call>,
}

/// A submission that no API may accept.
#[derive(Debug, Clone)]
pub(super) struct Unfit {
    /// The idempotency key under which it was sent, as no other one was.
    pub(super) key: String,
    pub(super) call: Call,
}

/// What a cancel was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cancel {
    NotAsked,
    Accepted,
    AlreadyCompleted,
    Other,
}

/// A dispatched task is claimed or dispatched once more within this time, and an event is published: the
/// reconciler waits for a minute at most, and faults last for seconds.
pub(super) const LONGEST_ON_THE_WAY: Duration = Duration::from_secs(120);

/// What a run has left behind.
#[derive(Debug)]
pub(super) struct Left<'a> {
    pub(super) known: &'a [Known],
    pub(super) submitted: &'a [Submitted],
    pub(super) unfit: &'a [Unfit],
    /// What the services' ledger says against orders.
    pub(super) unsettled: &'a BTreeMap<TaskId, String>,
    /// Age of the oldest event that is not published.
    pub(super) oldest_unpublished: Option<Duration>,
    /// Time within which a dispatched task is claimed.
    pub(super) longest_wait: Duration,
    /// What the docs except from the rules of histories.
    pub(super) excepted: Excepted,
}

impl Left<'_> {
    /// Whether retention may have deleted its rows: its client has seen it end.
    fn is_deleted(&self, submitted: &Submitted) -> bool {
        let ended = submitted.status.is_some_and(TaskStatus::is_terminal);
        ended && self.excepted.deleted_after.is_some()
    }
}

pub(super) fn anomalies(left: &Left<'_>) -> Vec<String> {
    let of_rows = |known| of_rows(known, left.longest_wait);
    let mut anomalies: Vec<String> = left.known.iter().flat_map(of_rows).collect();
    anomalies.extend(of_keys(left.known));
    let oldest = left.oldest_unpublished;
    anomalies.extend(
        oldest
            .filter(|age| *age > LONGEST_ON_THE_WAY)
            .map(|age| format!("the outbox: 14: an event is not published for {age:?}")),
    );
    let mut rows: BTreeMap<TaskId, &Known> = left
        .known
        .iter()
        .map(|known| (known.record.task.id, known))
        .collect();
    for submitted in left.submitted {
        let id = submitted.task;
        let mut found = submitted.anomalies.clone();
        let row = rows.remove(&id);
        let (journal, calls) = (row.map(Journal::from), &submitted.calls);
        let against = history::contradictions(calls, journal.as_ref(), left.excepted);
        found.extend(against.iter().map(|text| format!("history: {text}")));
        match row {
            Some(known) => found.extend(of_client(submitted, known)),
            None if left.is_deleted(submitted) => {}
            None => found.push("12: accepted twice, or it has no rows".to_owned()),
        }
        let ledger = left.unsettled.get(&id);
        found.extend(ledger.map(|text| format!("16: {text}")));
        anomalies.extend(found.iter().map(|text| format!("task {id}: {text}")));
    }
    for (id, known) in rows {
        let key = known.record.task.client_key.as_ref();
        let unfit = left.unfit.iter().find(|unfit| Some(&unfit.key) == key);
        anomalies.push(match unfit {
            Some(Unfit { call, .. }) => {
                format!("task {id}: history: made by a submission that was refused\n      {call}")
            }
            None => format!("task {id}: 12: no client was given it"),
        });
    }
    let accepted = |unfit: &&Unfit| matches!(unfit.call.got, Got::Accepted(_));
    anomalies.extend(
        left.unfit
            .iter()
            .filter(accepted)
            .map(|Unfit { key, call }| {
                format!("key {key}: a submission that is not whole was accepted\n      {call}")
            }),
    );
    anomalies
}

fn of_rows(known: &Known, longest_wait: Duration) -> Vec<String> {
    let row = &known.record.task;
    let mut broken = known.broken();
    broken.extend(invariants::left_unclaimed(
        &known.record,
        &known.history,
        longest_wait,
    ));
    match row.status {
        TaskStatus::Completed => {
            let wrong = known.outputs_not_once().into_iter();
            broken.extend(wrong.map(|text| format!("11: {text}")));
        }
        TaskStatus::Failed | TaskStatus::Cancelled => {}
        other => broken.push(format!("2: it is {other}: {:?}", row.failure)),
    }
    let trail = known.trail();
    broken
        .into_iter()
        .map(|text| format!("task {}: {text}; {trail}", row.id))
        .collect()
}

/// 12: at most one task has a key of a tenant.
fn of_keys(known: &[Known]) -> Vec<String> {
    let mut of_key: BTreeMap<(&Tenant, &str), TaskId> = BTreeMap::new();
    let mut twice = Vec::new();
    for row in known.iter().map(|known| &known.record.task) {
        let Some(key) = row.client_key.as_deref() else {
            continue;
        };
        if let Some(other) = of_key.insert((&row.tenant, key), row.id) {
            let id = row.id;
            twice.push(format!("task {id}: 12: task {other} has its key {key} too"));
        }
    }
    twice
}

fn of_client(submitted: &Submitted, known: &Known) -> Vec<String> {
    let row = &known.record.task;
    let (status, seen) = (row.status, submitted.status);
    let mut found = Vec::new();
    if seen.is_some_and(|seen| seen != status) {
        found.push(format!("a client saw it end {seen:?}, its row is {status}"));
    }
    if row.client_key.as_ref() != Some(&submitted.key) {
        let (key, of) = (&submitted.key, &row.client_key);
        found.push(format!("12: accepted under key {key}, and it has {of:?}"));
    }
    let contradiction = match (status, submitted.cancel) {
        (TaskStatus::Completed, Cancel::Accepted) => {
            Some("15: completed though its cancel was accepted")
        }
        (TaskStatus::Completed, _) => None,
        (_, Cancel::AlreadyCompleted) => Some("15: undone though its cancel found it completed"),
        (TaskStatus::Cancelled, Cancel::NotAsked) => Some("cancelled though no cancel was sent"),
        _ => None,
    };
    found.extend(contradiction.map(str::to_owned));
    found
}

#[cfg(test)]
mod tests {
    use super::super::history::{Asked, Shown};
    use super::*;
    use counterstep_contracts::{AuditSeq, ProblemCode};
    use counterstep_testkit::{Harness, two_files};

    /// What a run of three tasks has left behind: two have completed, and one has failed.
    #[derive(Clone)]
    struct Run {
        known: Vec<Known>,
        submitted: Vec<Submitted>,
        unfit: Vec<Unfit>,
        unsettled: BTreeMap<TaskId, String>,
        oldest_unpublished: Option<Duration>,
        excepted: Excepted,
    }

    impl Run {
        async fn sound() -> Self {
            let (mut known, mut submitted) = (Vec::new(), Vec::new());
            for (at, fails) in [false, false, true].into_iter().enumerate() {
                let key = format!("key-{at}");
                let mut harness = Harness::embedded(counterstep_tasks::tasks());
                if fails {
                    harness = harness.fail_at("create_zip_archive");
                }
                let task = harness.submit(two_files().key(&key)).await;
                let status = task.run_to_rest().await;
                let record = task.record().await;
                let shown = Shown {
                    revision: record.task.rev.0,
                    status,
                    cancel_requested: false,
                    steps: record.steps.iter().map(|step| step.status).collect(),
                };
                submitted.push(Submitted {
                    calls: vec![call(Asked::Read, Got::Shown(shown))],
                    task: task.id,
                    key,
                    is_order: false,
                    answered_in: Duration::ZERO,
                    status: Some(status),
                    cancel: Cancel::NotAsked,
                    anomalies: Vec::new(),
                });
                known.push(Known {
                    record,
                    history: task.history().await,
                    found_by_fsck: Vec::new(),
                });
            }
            let refused = Got::Refused(ProblemCode::InvalidRequest);
            let unfit = Unfit {
                key: "key-unfit".to_owned(),
                call: call(Asked::Submit, refused),
            };
            Self {
                known,
                submitted,
                unfit: vec![unfit],
                unsettled: BTreeMap::new(),
                oldest_unpublished: Some(LONGEST_ON_THE_WAY),
                excepted: Excepted::default(),
            }
        }

        /// The numbers of what contradicts a promise, each once.
        fn numbers(&self) -> Vec<String> {
            let found = anomalies(&Left {
                known: &self.known,
                submitted: &self.submitted,
                unfit: &self.unfit,
                unsettled: &self.unsettled,
                oldest_unpublished: self.oldest_unpublished,
                longest_wait: LONGEST_ON_THE_WAY,
                excepted: self.excepted,
            });
            let number = |it: &String| it.split(": ").nth(1).unwrap_or_default().to_owned();
            let mut numbers: Vec<_> = found.iter().map(number).collect();
            numbers.sort();
            numbers.dedup();
            numbers
        }
    }

    fn call(asked: Asked, got: Got) -> Call {
        Call {
            began: Duration::ZERO,
            ended: Duration::from_millis(1),
            api: 0,
            asked,
            got,
        }
    }

    type Break = fn(&mut Run);

    /// What breaks a promise: its number, what happened, and how.
    const BREAKS: [(&str, &str, Break); 16] = [
        ("history", "a read of what was not written", |run| {
            let Got::Shown(shown) = &mut run.submitted[0].calls[0].got else {
                panic!("a read");
            };
            shown.revision += 1;
        }),
        ("history", "a refused submission with a task", |run| {
            let unfit = run.unfit[0].key.clone();
            run.known[2].record.task.client_key = Some(unfit);
            run.submitted.pop();
        }),
        ("12", "a key with two tasks", |run| {
            let key = run.known[0].record.task.client_key.clone();
            run.known[1].record.task.client_key = key;
            run.submitted[1].key = run.submitted[0].key.clone();
        }),
        ("12", "a submission that became another one's task", |run| {
            run.submitted[1].task = run.submitted[0].task;
            run.known.remove(1);
        }),
        ("12", "a submission without a task", |run| {
            run.known.pop();
        }),
        ("12", "a task that no client has submitted", |run| {
            run.submitted.pop();
        }),
        ("12", "a task under another key", |run| {
            run.known[0].record.task.client_key = Some("another".to_owned());
        }),
        ("15", "an accepted cancel of a task that completed", |run| {
            run.submitted[0].cancel = Cancel::Accepted;
        }),
        ("15", "a task that had completed, and failed", |run| {
            run.submitted[2].cancel = Cancel::AlreadyCompleted;
        }),
        ("16", "money that is gone", |run| {
            let order = run.submitted[0].task;
            run.unsettled.insert(order, "two charges".to_owned());
        }),
        ("14", "a task that no host claimed for an hour", |run| {
            let audit = &mut run.known[0].history.audit;
            let mut rows = audit.iter();
            let place = rows.position(|row| row.entry.to == TaskStatus::Dispatched);
            let dispatched = place.expect("it was dispatched");
            for row in &mut audit[dispatched + 1..] {
                row.at = row.at.later(Duration::from_secs(3600));
            }
        }),
        ("14", "an event that is not published", |run| {
            run.oldest_unpublished = Some(LONGEST_ON_THE_WAY * 2);
        }),
        ("6", "a gap between entries", |run| {
            run.known[0].history.audit[1].seq = AuditSeq(7);
        }),
        ("11", "an output that was replaced", |run| {
            let found = "11: illegal (output)".to_owned();
            run.known[0].found_by_fsck.push(found);
        }),
        ("13", "a row of a change that was not written", |run| {
            let other = run.known[1].record.task.change_id;
            run.known[0].record.task.change_id = other;
        }),
        ("17", "more lost hosts than are allowed", |run| {
            run.known[2].record.task.recovery_attempts = 100;
        }),
    ];

    #[tokio::test(flavor = "multi_thread")]
    async fn a_run_that_breaks_one_promise_is_found_by_its_number() {
        let sound = Run::sound().await;
        assert_eq!(sound.numbers(), [""; 0], "as it was");
        for (number, what, spoil) in BREAKS {
            let mut run = sound.clone();
            spoil(&mut run);
            assert_eq!(run.numbers(), [number], "{what}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_task_that_ended_may_be_deleted_and_one_that_did_not_end_may_not() {
        let mut run = Run::sound().await;
        run.known.pop();
        run.excepted.deleted_after = Some(Duration::ZERO);
        assert_eq!(run.numbers(), [""; 0]);
        run.submitted[2].status = None;
        assert_eq!(run.numbers(), ["12"]);
    }
}
