//! What keeps a task from being claimed, or its next step from starting: one row a reason, in the order in which a task meets
//! them. A row names its evidence, and the move that ends it. Pure; must not read anything.

use super::why_around::{Surroundings, still_unknown};
use super::why_fetch::{broker, consumer};
use super::why_hosts::{Takers, takers};
use super::why_moves::{command, post};
use super::why_places::place;
use super::why_reason::reason;
use super::why_step::{breaker, limit};
use crate::isolation::most_tasks;
use crate::ports::WorkerSeen;
use crate::record::TaskRecord;
use crate::task::{Registry, TaskType};
use crate::times::rfc3339;
use crate::turn::likely_next;
use counterstep_contracts::operator::{OperatorMove, WhyCode, WhyReason};
use counterstep_contracts::retry::format_duration;
use counterstep_contracts::{Host, QueueName, TaskStatus, WaitReason};
use serde_json::json;
use std::time::Duration;

/// A reason, and what ends it.
pub(super) type Found = (WhyReason, Option<OperatorMove>);

/// What the rows go by.
pub(super) struct Facts<'a> {
    pub(super) record: &'a TaskRecord,
    task_type: Option<TaskType>,
    pub(super) around: &'a Surroundings,
    pub(super) takers: Takers<'a>,
    next: Vec<usize>,
    /// Processes that take it and are there, and why each of them does not; empty where one does, as far as is known.
    blocked: Vec<(WhyCode, &'a WorkerSeen)>,
}

/// In the order in which a task meets them. A further reason is a further row.
const ROWS: &[fn(&Facts<'_>) -> Option<Found>] = &[
    queue_paused,
    database_was_away,
    no_host,
    hosts_silent,
    jammed,
    no_slot,
    beside,
    place,
    breaker,
    heavy,
    limit,
    // Behind those that polling does not get around.
    consumer,
    broker,
];

/// What holds a task up.
pub(super) fn found(facts: &Facts<'_>) -> Vec<Found> {
    ROWS.iter().filter_map(|row| row(facts)).collect()
}

/// What holds it up no further.
pub(super) fn beside_it(facts: &Facts<'_>) -> Option<Found> {
    lost_counts(facts)
}

impl<'a> Facts<'a> {
    pub(super) fn of(
        registry: &Registry,
        record: &'a TaskRecord,
        around: &'a Surroundings,
    ) -> Self {
        let task_type = registry.of(&record.task);
        let mut facts = Self {
            record,
            task_type,
            around,
            takers: Takers::of(record, around.workers.as_ref()),
            next: task_type.map_or_else(Vec::new, |it| likely_next(registry, &it, record)),
            blocked: Vec::new(),
        };
        let fresh = facts.takers.fresh.iter();
        let blocked = fresh.map(|seen| facts.obstacle(seen).map(|code| (code, *seen)));
        facts.blocked = blocked.collect::<Option<_>>().unwrap_or_default();
        facts
    }

    /// Whether it is there to be claimed now. One that slept is, once it is woken or its time has come.
    pub(super) fn waits_for_a_claim(&self) -> bool {
        let task = &self.record.task;
        match task.status {
            TaskStatus::Submitted | TaskStatus::Dispatched => true,
            TaskStatus::Waiting => task.due_at.is_some() && self.is_due(),
            TaskStatus::Compensating => task.lease_owner.is_none() && self.is_due(),
            _ => false,
        }
    }

    fn is_due(&self) -> bool {
        self.record.due_in().is_zero()
    }

    /// Whether it slept, and its time has come.
    pub(super) fn is_woken(&self) -> bool {
        self.record.task.status == TaskStatus::Waiting && self.waits_for_a_claim()
    }

    /// Whether it sleeps for something that a row has.
    pub(super) fn sleeps_for_a_row(&self) -> bool {
        matches!(
            self.record.task.waiting,
            Some(WaitReason::Breaker | WaitReason::Limit | WaitReason::Concurrency)
        )
    }

    /// Whether it sleeps for this, and its time has not come yet.
    pub(super) fn sleeps_for(&self, reason: WaitReason) -> bool {
        self.record.task.waiting == Some(reason) && !self.is_due()
    }

    /// A wait for something that holds it no more: it is asked again at its time.
    pub(super) fn only_due(&self, step: &str, what: &str) -> Found {
        let task = &self.record.task;
        let found = WhyReason {
            until: task.due_at.map(rfc3339),
            steps: vec![step.to_owned()],
            waiting_for: task.waiting,
            ..reason(WhyCode::Due, format!("{what}: it is asked again then"))
        };
        (found, None)
    }

    pub(super) fn queue(&self) -> QueueName {
        QueueName(self.record.task.queue.clone()).base()
    }

    /// Why a process that takes it does not; `None`: it may.
    pub(super) fn obstacle(&self, seen: &WorkerSeen) -> Option<WhyCode> {
        let row = &seen.row;
        let of_its_own = u32::from(row.running.contains(&self.record.task.id));
        let beside = row.running_count.saturating_sub(of_its_own) + row.abandoned_count;
        let is_heavy = |at: &usize| {
            let steps = self.task_type.map(|it| it.decl.steps);
            steps.is_some_and(|steps| steps[*at].heavy)
        };
        let most = self.most_tasks(row.concurrency);
        if row.concurrency > 0 && row.abandoned_count >= row.concurrency {
            Some(WhyCode::Jammed)
        } else if most.is_some_and(|most| beside as usize >= most) {
            Some(WhyCode::Beside)
        } else if row.running_count >= row.concurrency {
            Some(WhyCode::NoSlot)
        } else if self.next.iter().any(is_heavy) && row.heavy_count >= row.heavy.max(1) {
            Some(WhyCode::Heavy)
        } else {
            None
        }
    }

    fn losses(&self) -> u32 {
        self.record.task.recovery_attempts + u32::from(self.record.lease_has_expired())
    }

    fn most_tasks(&self, concurrency: u32) -> Option<usize> {
        let allowed = self.task_type?.decl.max_recoveries;
        most_tasks(self.losses(), allowed, concurrency as usize)
    }

    /// The processes that it keeps out, where none takes it.
    fn blocked_by(&self, code: WhyCode) -> Option<Vec<&'a WorkerSeen>> {
        let of_code = self.blocked.iter().filter(|(of, _)| *of == code);
        let seen: Vec<_> = of_code.map(|(_, seen)| *seen).collect();
        (self.waits_for_a_claim() && !seen.is_empty()).then_some(seen)
    }

    /// How many of those that take it, and how old that is.
    fn of_takers(&self, seen: &[&WorkerSeen]) -> String {
        let ages = seen.iter().map(|seen| self.takers.age(seen)).max();
        format!(
            "{} of {} processes that take it (as seen at most {} ago)",
            seen.len(),
            self.takers.fresh.len(),
            format_duration(ages.unwrap_or_default())
        )
    }

    fn names_of(&self, codes: impl Fn(&usize) -> bool) -> Vec<String> {
        let steps = self.task_type.map(|it| it.decl.steps);
        let next = self.next.iter().copied().filter(codes);
        steps.map_or_else(Vec::new, |steps| {
            next.map(|at| steps[at].name.to_owned()).collect()
        })
    }

    fn another_worker(&self) -> OperatorMove {
        let task = &self.record.task;
        let words = match task.host {
            Host::Api => "api".to_owned(),
            Host::Worker => format!(
                "worker --queues {} --task-types {}@{}",
                self.queue(),
                task.task_type,
                task.version
            ),
        };
        command(words, "starts another process that takes it")
    }

    fn recount(&self) -> OperatorMove {
        let body = json!({"recovery_attempts": 0, "note": "why"});
        let path = format!("/api/tasks/{}/recoveries", self.record.task.id);
        post(path, body, "counts none of its losses any more")
    }
}

fn queue_paused(facts: &Facts<'_>) -> Option<Found> {
    let pause = facts.around.pause.as_ref()?;
    let (queue, now) = (facts.queue(), facts.record.now);
    if !facts.waits_for_a_claim() {
        return None;
    }
    let since = format_duration(Duration::from_secs(now.after(pause.since).as_secs()));
    let detail = format!(
        "its queue `{queue}` has been paused for {since}: {}; a few seconds after it is resumed it is claimed",
        pause.note
    );
    let path = format!("/api/queues/{queue}/resume");
    let resume = post(
        path,
        json!({"note": "why"}),
        "lets processes claim tasks of the queue again",
    );
    let found = WhyReason {
        queue: Some(queue.0),
        ..reason(WhyCode::QueuePaused, detail)
    };
    Some((found, Some(resume)))
}

fn database_was_away(facts: &Facts<'_>) -> Option<Found> {
    if !facts.waits_for_a_claim() || !facts.takers.fresh.is_empty() {
        return None;
    }
    let silent = facts.takers.silent.iter();
    let left = silent.filter_map(|seen| still_unknown(facts.around, seen));
    let left = left.max()?;
    let detail = format!(
        "the database was away, and what is known of the processes that take it is older than that: they refresh their rows within {}",
        format_duration(Duration::from_secs(left.as_secs() + 1))
    );
    let found = WhyReason {
        until: Some(rfc3339(facts.record.now.later(left))),
        ..reason(WhyCode::DatabaseWasAway, detail)
    };
    Some((found, None))
}

fn no_host(facts: &Facts<'_>) -> Option<Found> {
    let takers = &facts.takers;
    let is_known = takers.is_known && takers.fresh.is_empty() && takers.silent.is_empty();
    if !is_known || !facts.waits_for_a_claim() {
        return None;
    }
    let (task, queue) = (&facts.record.task, facts.queue());
    let needs = format!(
        "none serves queue `{queue}` and knows {} version {} in the definition {}",
        task.task_type, task.version, task.definition_hash
    );
    let (code, detail) = match takers.stopped.first() {
        _ if task.host == Host::Api => (
            WhyCode::OtherHostKind,
            format!(
                "its next step runs in processes of the API, and no such process that takes it is known to be alive: {needs}{}",
                takers.nearest(task)
            ),
        ),
        Some(last) => (
            WhyCode::Stopping,
            format!(
                "no process that takes it is known to be alive: those that took it were stopped, {} last, {} ago; {needs}",
                last.row.id,
                format_duration(takers.age(last))
            ),
        ),
        None => (
            WhyCode::NoHost,
            format!(
                "no process that takes it is known to be alive: {needs}{}",
                takers.nearest(task)
            ),
        ),
    };
    let found = WhyReason {
        queue: Some(queue.0),
        ..reason(code, detail)
    };
    Some((found, Some(facts.another_worker())))
}

fn hosts_silent(facts: &Facts<'_>) -> Option<Found> {
    let takers_of = &facts.takers;
    let is_silent = takers_of.fresh.is_empty() && !takers_of.silent.is_empty();
    if !is_silent || !facts.waits_for_a_claim() || database_was_away(facts).is_some() {
        return None;
    }
    let queue = facts.queue();
    let detail = format!(
        "it was offered on queue `{queue}`{}",
        takers(facts.record, facts.around)
    );
    let found = WhyReason {
        queue: Some(queue.0),
        ..reason(WhyCode::HostsSilent, detail)
    };
    Some((found, Some(facts.another_worker())))
}

fn jammed(facts: &Facts<'_>) -> Option<Found> {
    let seen = facts.blocked_by(WhyCode::Jammed)?;
    let ids: Vec<_> = seen.iter().take(3).map(|seen| &*seen.row.id).collect();
    let detail = format!(
        "abandoned code blocks as many threads as there are slots in {}: {} has to be restarted",
        facts.of_takers(&seen),
        ids.join(", ")
    );
    Some((
        reason(WhyCode::Jammed, detail),
        Some(facts.another_worker()),
    ))
}

fn beside(facts: &Facts<'_>) -> Option<Found> {
    let seen = facts.blocked_by(WhyCode::Beside)?;
    let most = seen
        .iter()
        .filter_map(|seen| facts.most_tasks(seen.row.concurrency));
    let detail = format!(
        "{} hosts in a row were lost with it, so that it runs among at most {} tasks, and {} run more: one of them makes room within \
         about 30 s, beside abandoned code within 180 s",
        facts.losses(),
        most.max().unwrap_or(1),
        facts.of_takers(&seen)
    );
    Some((reason(WhyCode::Beside, detail), Some(facts.recount())))
}

fn no_slot(facts: &Facts<'_>) -> Option<Found> {
    let seen = facts.blocked_by(WhyCode::NoSlot)?;
    let slots: u32 = seen.iter().map(|seen| seen.row.concurrency).sum();
    let queue = facts.queue();
    let detail = format!(
        "it waits on queue `{queue}` for a slot: all {slots} are taken in {}",
        facts.of_takers(&seen)
    );
    let found = WhyReason {
        queue: Some(queue.0),
        ..reason(WhyCode::NoSlot, detail)
    };
    Some((found, Some(facts.another_worker())))
}

fn heavy(facts: &Facts<'_>) -> Option<Found> {
    let seen = facts.blocked_by(WhyCode::Heavy)?;
    let all: u32 = seen.iter().map(|seen| seen.row.heavy).sum();
    let steps = facts.task_type.map(|it| it.decl.steps)?;
    let names = facts.names_of(|at| steps[*at].heavy);
    let detail = format!(
        "its next step {} is heavy, and all {all} heavy steps that may run side by side do in {}: raise `heavy` there, or start another",
        names.join(", "),
        facts.of_takers(&seen)
    );
    let found = WhyReason {
        steps: names,
        ..reason(WhyCode::Heavy, detail)
    };
    Some((found, Some(facts.another_worker())))
}

fn lost_counts(facts: &Facts<'_>) -> Option<Found> {
    let allowed = facts.task_type?.decl.max_recoveries;
    let losses = facts.losses();
    if losses == 0 || losses < allowed {
        return None;
    }
    let detail = format!(
        "{losses} hosts in a row were lost with it, and its type allows {allowed}: one more ends its recovery"
    );
    Some((reason(WhyCode::LostCounts, detail), Some(facts.recount())))
}
