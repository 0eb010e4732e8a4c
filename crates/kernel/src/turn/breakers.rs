//! Breakers and limits before and after the attempts of a turn: asked before a decision, told after an
//! attempt. Only forward: an undo waits for neither, and says nothing to a breaker.

use super::attempt::Ended;
use super::breaker_look::{Look, breaker_of, look};
use super::facts::TurnTask;
use super::likely::next_after;
use super::reserved::Reserved;
use super::turn_loop::Turn;
use crate::admission::gate::{Gate, Hold};
use crate::breaker::{Admission, Breaker, BreakerState, Ticket, Verdict};
use crate::engine::Engine;
use crate::plan;
use crate::record::{StepRow, TaskRecord};
use crate::webhooks::alerts::{self, Incident};
use counterstep_contracts::alert::AlertEvent;
use counterstep_contracts::{Direction, StepDecl, StepStatus, TaskDecl};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What the breakers and limits of the steps that may come next have answered.
#[derive(Debug, Default)]
pub(super) struct Permits {
    /// The steps that were asked for.
    asked: BTreeSet<usize>,
    /// These may not start yet.
    pub(super) waits: BTreeMap<usize, Hold>,
    /// These may start, as the one probe. To be used, or given back.
    probes: BTreeMap<usize, (Breaker, Ticket)>,
}

impl Permits {
    /// Asks. `lost_scratch`: completed steps that may have to run again.
    pub(super) async fn ask(
        task: TurnTask<'_>,
        lost_scratch: &BTreeSet<usize>,
        reserved: &Reserved,
    ) -> Self {
        let TurnTask {
            engine,
            task_type,
            record,
            now,
            done,
            ..
        } = task;
        let mut permits = Self::default();
        let decl = task_type.decl;
        let is_free = |step: &StepDecl| step.breaker.is_none() && step.limit.is_none();
        if decl.steps.iter().all(is_free) || !going_forward(record) {
            return permits;
        }
        let next = next_after(&engine.registry, &task_type, (record, now), done);
        for (at, (step, row)) in decl.steps.iter().zip(&record.steps).enumerate() {
            let may_start = matches!(
                row.status,
                StepStatus::Pending | StepStatus::Waiting | StepStatus::InDoubt
            );
            // A fallback is another way to the output, past what the breaker stands for.
            if step.host != task.host
                || row.in_fallback
                || !(may_start || lost_scratch.contains(&at))
            {
                continue;
            }
            permits.asked.insert(at);
            if next.contains(&at) || lost_scratch.contains(&at) {
                permits.ask_next(task, at, reserved, &next).await;
            } else {
                permits.look_at(task, at).await;
            }
        }
        permits
    }

    /// A step that is next: whether it may start. Nothing is taken of its limit while its breaker says no, or while it
    /// lacks room: a start cannot be given back. The one probe is taken last, since a probe that waits for a permit keeps
    /// all others out.
    async fn ask_next(
        &mut self,
        task: TurnTask<'_>,
        at: usize,
        reserved: &Reserved,
        next: &[usize],
    ) {
        let TurnTask {
            engine,
            task_type,
            record,
            ..
        } = task;
        let limit = task_type.decl.steps[at].limit;
        let mut breaker = breaker_of(engine, &task_type, at);
        if let (Some(_), Some(asked)) = (limit, &breaker) {
            match look(asked).await {
                Look::Goes => breaker = None,
                Look::MayProbe => {}
                Look::Waits(left) => return self.wait_open(engine, at, asked, left).await,
            }
        }
        if limit.is_some() && !self.has_room(task, at, reserved, next) {
            // The planner decides where it waits for room. It starts once its limit was asked, too.
            self.asked.remove(&at);
            return;
        }
        if let Some(limit) = limit
            && let Err(wait) = reserved.permit(engine, (at, &limit), record).await
        {
            self.waits.insert(at, wait);
            return;
        }
        let Some(breaker) = breaker else { return };
        let settings = &engine.settings;
        let limits = settings.attempt_limits(&task_type, at, Direction::Forward);
        match breaker.admit(limits.0 + settings.cancel_grace).await {
            Admission::Go(ticket) if ticket.is_probe() => {
                self.probes.insert(at, (breaker, ticket));
            }
            Admission::Go(_) => {}
            Admission::Wait(left) => self.wait_open(engine, at, &breaker, left).await,
        }
    }

    /// Whether a step would get room, where it needs some. The first heavy steps of a stage get it.
    fn has_room(&self, task: TurnTask<'_>, at: usize, reserved: &Reserved, next: &[usize]) -> bool {
        let is_heavy = |at: usize| task.task_type.decl.steps[at].heavy;
        let is_before =
            |&&other: &&usize| other < at && is_heavy(other) && !self.waits.contains_key(&other);
        let rooms = next.iter().filter(is_before).count() + 1;
        !is_heavy(at) || reserved.reserve(task.engine, rooms) == rooms
    }

    /// A step further down, which comes to be next where a condition skips those before it. It takes nothing: it then asks
    /// with a decision of its own.
    async fn look_at(&mut self, task: TurnTask<'_>, at: usize) {
        let TurnTask {
            engine,
            task_type,
            record,
            ..
        } = task;
        if let Some(limit) = task_type.decl.steps[at].limit {
            let wait = Hold::of_limit(&limit, &record.task, Duration::ZERO);
            self.waits.insert(at, wait);
            return;
        }
        let Some(breaker) = breaker_of(engine, &task_type, at) else {
            return;
        };
        match breaker.standing().await {
            BreakerState::Closed => {}
            BreakerState::Open(left) => self.wait(engine, at, &breaker, left),
            BreakerState::HalfOpen => self.wait(engine, at, &breaker, Duration::ZERO),
        }
    }

    async fn wait_open(&mut self, engine: &Engine, at: usize, breaker: &Breaker, left: Duration) {
        self.wait(engine, at, breaker, left);
        alert_open(engine, breaker).await;
    }

    /// Whether a step would start without having been asked for: it was under way when the others were, or lacked room.
    pub(super) fn lacks(&self, decl: &TaskDecl, record: &TaskRecord, at: usize) -> bool {
        let step = &decl.steps[at];
        (step.breaker.is_some() || step.limit.is_some())
            && !record.steps[at].in_fallback
            && !self.asked.contains(&at)
    }

    fn wait(&mut self, engine: &Engine, at: usize, breaker: &Breaker, left: Duration) {
        // Of those that wait together, the first is to find out for the others before they ask.
        let spread = u64::try_from(breaker.policy().open_for.as_millis() / 4).unwrap_or(u64::MAX);
        let share = engine.ports.random.bits() % (u128::from(spread) + 1);
        let late = if left.is_zero() {
            Duration::ZERO
        } else {
            Duration::from_millis(share as u64)
        };
        let wait = Hold {
            gate: Gate::Breaker(breaker.key().to_owned()),
            left: left + late,
        };
        self.waits.insert(at, wait);
    }

    /// Nothing was decided: the next caller may probe.
    pub(super) async fn give_back(self) {
        for (breaker, ticket) in self.probes.into_values() {
            breaker.report(ticket, Verdict::Unknown).await;
        }
    }

    /// After a decision: the probes of attempts that have started. The others are given back.
    pub(super) async fn used(self, record: &TaskRecord) -> BTreeMap<usize, Ticket> {
        let mut used = BTreeMap::new();
        for (at, (breaker, ticket)) in self.probes {
            if record.steps[at].attempt_open && going_forward(record) {
                used.insert(at, ticket);
            } else {
                breaker.report(ticket, Verdict::Unknown).await;
            }
        }
        used
    }
}

impl Turn<'_> {
    /// After a decision: remembers the probes that it started, and when to look again at steps of a
    /// group whose siblings run meanwhile.
    pub(super) async fn keep_permits(&mut self, permits: Permits, waits: BTreeMap<usize, Hold>) {
        let used = permits.used(&self.record).await;
        self.tickets.extend(used);
        let running: Vec<usize> = (0..self.record.steps.len())
            .filter(|&at| is_running(&self.record.steps[at]))
            .collect();
        for (at, wait) in waits {
            let beside = running
                .iter()
                .any(|&running| plan::stage_of(self.task_type.decl, running).contains(&at));
            if beside && !running.contains(&at) && !self.delayed.contains_key(&at) {
                let token = self.tokens.forward();
                self.delay(at, wait.left, token);
            }
        }
    }

    /// Tells a step's breaker how its attempt ended. That of a fallback says nothing about it.
    pub(super) async fn tell_breaker(&mut self, ended: &Ended) {
        let Turn {
            engine,
            task_type,
            tickets,
            record,
            undoing,
            ..
        } = self;
        if *undoing || record.steps[ended.at].in_fallback {
            return;
        }
        let Some(breaker) = breaker_of(engine, task_type, ended.at) else {
            return;
        };
        let ticket = tickets.remove(&ended.at).unwrap_or_default();
        let verdict = match &ended.result {
            _ if ended.in_doubt.is_some() => Verdict::Unknown,
            Ok(_) => Verdict::Answered,
            Err(error) => Verdict::of(error.class),
        };
        breaker.report(ticket, verdict).await;
        if verdict == Verdict::Failed {
            alert_open(engine, &breaker).await;
        }
    }
}

/// Operators are told once an hour of a breaker that is open.
async fn alert_open(engine: &Engine, breaker: &Breaker) {
    if !engine.settings.alerts || !matches!(breaker.standing().await, BreakerState::Open(_)) {
        return;
    }
    let incident = Incident {
        event: AlertEvent::BreakerOpen,
        about: breaker.key(),
        detail: "what it guards has failed too often; attempts wait",
    };
    alerts::raise(engine, incident).await;
}

fn is_running(row: &StepRow) -> bool {
    row.status == StepStatus::Running
}

fn going_forward(record: &TaskRecord) -> bool {
    use counterstep_contracts::TaskStatus::{Dispatched, Running, Submitted, Waiting};
    matches!(
        record.task.status,
        Submitted | Dispatched | Running | Waiting
    ) && record.task.cancel_requested_at.is_none()
        && !record.is_past_deadline()
}
