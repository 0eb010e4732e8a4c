//! What the reasons of a task go by: its rows, what is known beside them, the processes that may take it, and its next steps. Pure;
//! must not read anything.

use super::evidence::Surroundings;
use super::reason::{lasted, reason};
use super::takers::Takers;
use crate::admission::isolation::most_tasks;
use crate::operator::moves;
use crate::ports::WorkerSeen;
use crate::record::TaskRecord;
use crate::task::{Registry, TaskType};
use crate::times::rfc3339;
use crate::turn::likely_next;
use counterstep_contracts::operator::{OperatorMove, WhyCode, WhyReason};
use counterstep_contracts::{QueueName, TaskStatus, WaitReason};

/// A reason, and what ends it.
pub(super) type Found = (WhyReason, Option<OperatorMove>);

/// What the rows go by.
pub(super) struct Facts<'a> {
    pub(super) record: &'a TaskRecord,
    pub(super) task_type: Option<TaskType>,
    pub(super) around: &'a Surroundings,
    pub(super) takers: Takers<'a>,
    pub(super) next: Vec<usize>,
    /// Processes that take it and are there, and why each of them does not; empty where one does, as far as is known.
    pub(super) blocked: Vec<(WhyCode, &'a WorkerSeen)>,
}

impl<'a> Facts<'a> {
    pub(super) fn of(
        registry: &Registry,
        record: &'a TaskRecord,
        around: &'a Surroundings,
    ) -> Self {
        let task_type = registry.of(&*record.task);
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

    pub(super) fn is_due(&self) -> bool {
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
        if self.around.paused_workers.of(seen).is_some() {
            Some(WhyCode::WorkersPaused)
        } else if row.concurrency > 0 && row.abandoned_count >= row.concurrency {
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

    pub(super) fn losses(&self) -> u32 {
        self.record.task.recovery_attempts + u32::from(self.record.lease_has_expired())
    }

    pub(super) fn most_tasks(&self, concurrency: u32) -> Option<usize> {
        let allowed = self.task_type?.decl.max_recoveries;
        most_tasks(self.losses(), allowed, concurrency as usize)
    }

    /// The processes that it keeps out, where none takes it.
    pub(super) fn blocked_by(&self, code: WhyCode) -> Option<Vec<&'a WorkerSeen>> {
        let of_code = self.blocked.iter().filter(|(of, _)| *of == code);
        let seen: Vec<_> = of_code.map(|(_, seen)| *seen).collect();
        (self.waits_for_a_claim() && !seen.is_empty()).then_some(seen)
    }

    /// How many of those that take it, and how old that is.
    pub(super) fn of_takers(&self, seen: &[&WorkerSeen]) -> String {
        let ages = seen.iter().map(|seen| self.takers.age(seen)).max();
        let oldest = ages.unwrap_or_default();
        let most = if oldest.is_zero() { "" } else { "at most " };
        format!(
            "{} of {} processes that take it (as seen {most}{} ago)",
            seen.len(),
            self.takers.fresh.len(),
            lasted(oldest)
        )
    }

    pub(super) fn names_of(&self, codes: impl Fn(&usize) -> bool) -> Vec<String> {
        let steps = self.task_type.map(|it| it.decl.steps);
        let next = self.next.iter().copied().filter(codes);
        steps.map_or_else(Vec::new, |steps| {
            next.map(|at| steps[at].name.to_owned()).collect()
        })
    }

    pub(super) fn another_worker(&self) -> OperatorMove {
        moves::another_process(self.record, &self.queue().0)
    }

    pub(super) fn recount(&self) -> OperatorMove {
        moves::recount(self.record)
    }
}
