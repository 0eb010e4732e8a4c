//! Which of the steps that may come next have to wait for a breaker or a limit: asked before each decision, and what it takes goes
//! into the turn's permits. Only forward: an undo waits for neither.

use super::breakers::alert_open;
use super::breakers::{Look, breaker_of, look};
use super::facts::TurnTask;
use super::likely::next_after;
use super::permits::Permits;
use crate::admission::gate::{Gate, Hold};
use crate::admission::limits::{KeyedLimit, LimitKey, SHORT};
use crate::breaker::{Admission, Breaker, BreakerState};
use crate::record::TaskRecord;
use counterstep_contracts::{Direction, Limit, StepDecl, StepStatus, TaskDecl};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What breakers and limits have answered.
#[derive(Debug, Default)]
pub(super) struct Asked {
    steps: BTreeSet<usize>,
    /// These may not start yet.
    pub(super) held_back: BTreeMap<usize, Hold>,
}

impl Asked {
    /// Whether a step would start without having been asked for: it was under way when the others were, or lacked room.
    pub(super) fn lacks(&self, decl: &TaskDecl, record: &TaskRecord, at: usize) -> bool {
        let step = &decl.steps[at];
        (step.breaker.is_some() || step.limit.is_some())
            && !record.steps[at].in_fallback
            && !self.steps.contains(&at)
    }
}

/// `lost_scratch`: completed steps that may have to run again.
pub(super) async fn ask(
    task: TurnTask<'_>,
    lost_scratch: &BTreeSet<usize>,
    permits: &Permits,
) -> Asked {
    let (decl, record) = (task.task_type.decl, task.record);
    let is_free = |step: &StepDecl| step.breaker.is_none() && step.limit.is_none();
    if decl.steps.iter().all(is_free) || !going_forward(record) {
        return Asked::default();
    }
    Box::pin(ask_steps(task, lost_scratch, permits)).await
}

async fn ask_steps(task: TurnTask<'_>, lost_scratch: &BTreeSet<usize>, permits: &Permits) -> Asked {
    let (decl, record) = (task.task_type.decl, task.record);
    let engine = task.engine;
    let next = next_after(
        &engine.registry,
        &task.task_type,
        record,
        task.now,
        task.done,
    );
    let mut asking = Asking {
        task,
        next,
        permits,
        asked: Asked::default(),
    };
    for (at, (step, row)) in decl.steps.iter().zip(&record.steps).enumerate() {
        let may_start = matches!(
            row.status,
            StepStatus::Pending | StepStatus::Waiting | StepStatus::InDoubt
        );
        // A fallback is another way to the output, past what the breaker stands for.
        if step.host != task.host || row.in_fallback || !(may_start || lost_scratch.contains(&at)) {
            continue;
        }
        asking.asked.steps.insert(at);
        if asking.next.contains(&at) || lost_scratch.contains(&at) {
            asking.ask_next(at).await;
        } else {
            asking.look_at(at).await;
        }
    }
    asking.asked
}

struct Asking<'a> {
    task: TurnTask<'a>,
    /// Those that are likely to start.
    next: Vec<usize>,
    permits: &'a Permits,
    asked: Asked,
}

impl Asking<'_> {
    /// A step that is next: whether it may start. Nothing is taken while its breaker says no, and nothing of its limit while it
    /// lacks room: a start cannot be given back. The one probe is taken last, since a probe that waits for a permit keeps
    /// all others out.
    async fn ask_next(&mut self, at: usize) {
        let TurnTask {
            engine, task_type, ..
        } = self.task;
        let StepDecl { limit, heavy, .. } = task_type.decl.steps[at];
        let mut breaker = breaker_of(engine, &task_type, at);
        let takes = limit.is_some() || (heavy && breaker.is_some());
        if let Some(asked) = breaker.as_ref().filter(|_| takes) {
            match look(asked).await {
                Look::Goes => breaker = None,
                Look::MayProbe => {}
                Look::Waits(left) => return self.wait_open(at, asked, left).await,
            }
        }
        if takes && !self.has_room(at) {
            // The planner decides where it waits for room. It starts once its limit and its breaker were asked, too.
            self.asked.steps.remove(&at);
            return;
        }
        if let Some(limit) = limit
            && let Err(hold) = self.permit(at, &limit).await
        {
            self.asked.held_back.insert(at, hold);
            return;
        }
        let Some(breaker) = breaker else { return };
        let settings = &engine.settings;
        let limits = settings.attempt_limits(&task_type, at, Direction::Forward);
        match breaker.admit(limits.0 + settings.cancel_grace).await {
            Admission::Go(ticket) if ticket.is_probe() => {
                self.permits.put_probe(at, breaker, ticket);
            }
            Admission::Go(_) => {}
            Admission::Wait(left) => self.wait_open(at, &breaker, left).await,
        }
    }

    /// Whether a step would get room, where it needs some. The first heavy steps of a stage get it.
    fn has_room(&self, at: usize) -> bool {
        let is_heavy = |at: usize| self.task.task_type.decl.steps[at].heavy;
        let is_before = |&&other: &&usize| {
            other < at && is_heavy(other) && !self.asked.held_back.contains_key(&other)
        };
        let rooms = self.next.iter().filter(is_before).count() + 1;
        !is_heavy(at) || self.permits.reserve(self.task.engine, rooms) == rooms
    }

    /// Has a permit of the limit of a step.
    async fn permit(&self, at: usize, limit: &Limit) -> Result<(), Hold> {
        if self.permits.has(at) {
            return Ok(());
        }
        let (limits, row) = (&self.task.engine.limits, &self.task.record.task);
        let key = &LimitKey::of(limit, row);
        let of = KeyedLimit { key, limit };
        match limits.take(of, SHORT).await {
            Some(permit) => {
                self.permits.put(at, permit);
                Ok(())
            }
            None => Err(Hold::of_limit(limit, row, limits.look_again(of))),
        }
    }

    /// A step further down, which comes to be next where a condition skips those before it. It takes nothing: it then asks
    /// with a decision of its own.
    async fn look_at(&mut self, at: usize) {
        let TurnTask {
            engine,
            task_type,
            record,
            ..
        } = self.task;
        if let Some(limit) = task_type.decl.steps[at].limit {
            let hold = Hold::of_limit(&limit, &record.task, Duration::ZERO);
            self.asked.held_back.insert(at, hold);
            return;
        }
        let Some(breaker) = breaker_of(engine, &task_type, at) else {
            return;
        };
        match breaker.standing().await {
            BreakerState::Closed => {}
            BreakerState::Open(left) => self.wait(at, &breaker, left),
            BreakerState::HalfOpen => self.wait(at, &breaker, Duration::ZERO),
        }
    }

    async fn wait_open(&mut self, at: usize, breaker: &Breaker, left: Duration) {
        self.wait(at, breaker, left);
        alert_open(self.task.engine, breaker).await;
    }

    fn wait(&mut self, at: usize, breaker: &Breaker, left: Duration) {
        // Of those that wait together, the first is to find out for the others before they ask.
        let spread = u64::try_from(breaker.policy().open_for.as_millis() / 4).unwrap_or(u64::MAX);
        let share = self.task.engine.ports.random.bits() % (u128::from(spread) + 1);
        let late = if left.is_zero() {
            Duration::ZERO
        } else {
            Duration::from_millis(share as u64)
        };
        let hold = Hold {
            gate: Gate::Breaker(breaker.key().to_owned()),
            left: left + late,
        };
        self.asked.held_back.insert(at, hold);
    }
}

fn going_forward(record: &TaskRecord) -> bool {
    use counterstep_contracts::TaskStatus::{Dispatched, Running, Submitted, Waiting};
    matches!(
        record.task.status,
        Submitted | Dispatched | Running | Waiting
    ) && record.task.cancel_requested_at.is_none()
        && !record.is_past_deadline()
}
