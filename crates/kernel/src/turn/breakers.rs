//! Breakers and limits before and after the attempts of a turn: asked before a decision, told after an
//! attempt. Only forward: an undo waits for neither, and says nothing to a breaker.

use super::attempt::Ended;
use super::facts::TurnTask;
use super::likely::next_after;
use super::reserved::Reserved;
use super::turn_loop::Turn;
use crate::breaker::{Admission, Breaker, BreakerState, Ticket, Verdict};
use crate::engine::Engine;
use crate::plan::{self, HeldBackBy, StartWait};
use crate::ports::PortsRuntime;
use crate::record::{StepRow, TaskRecord};
use crate::task::TaskType;
use crate::webhooks::alerts::{self, Incident};
use counterstep_contracts::alert::AlertEvent;
use counterstep_contracts::{Direction, StepDecl, StepStatus, TaskDecl};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// What the breakers and limits of the steps that may come next have answered.
#[derive(Debug, Default)]
pub(super) struct Permits {
    /// The steps that were asked for.
    asked: BTreeSet<usize>,
    /// These may not start yet.
    pub(super) waits: BTreeMap<usize, StartWait>,
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
            let is_next = next.contains(&at) || lost_scratch.contains(&at);
            if let Some(limit) = step.limit {
                let permit = match is_next {
                    true => reserved.permit(engine, (at, &limit), record).await,
                    // Where a condition skips the steps before it, it asks with a decision of its own.
                    false => Err(StartWait::of_limit(&limit, record, Duration::ZERO)),
                };
                if let Err(wait) = permit {
                    permits.waits.insert(at, wait);
                    continue;
                }
            }
            let Some(breaker) = breaker_of(engine, &task_type, at) else {
                continue;
            };
            // Only what is next may take the one probe. A step further down comes to be next where
            // a condition skips those before it; half-open, it then has to ask again.
            if is_next {
                let limit = engine
                    .settings
                    .attempt_limits(&task_type, at, Direction::Forward)
                    .0
                    + engine.settings.cancel_grace;
                match breaker.admit(limit).await {
                    Admission::Go(ticket) if ticket.is_probe() => {
                        permits.probes.insert(at, (breaker, ticket));
                    }
                    Admission::Go(_) => {}
                    Admission::Wait(left) => {
                        permits.wait(engine, at, &breaker, left);
                        alert_open(engine, &breaker).await;
                    }
                }
            } else {
                match breaker.standing().await {
                    BreakerState::Closed => {}
                    BreakerState::Open(left) => permits.wait(engine, at, &breaker, left),
                    BreakerState::HalfOpen => permits.wait(engine, at, &breaker, Duration::ZERO),
                }
            }
        }
        permits
    }

    /// Whether a step would start without having been asked for: it was under way when the others were.
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
        let wait = StartWait {
            by: HeldBackBy::Breaker,
            key: breaker.key().to_owned(),
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
    pub(super) async fn keep_permits(
        &mut self,
        permits: Permits,
        waits: BTreeMap<usize, StartWait>,
    ) {
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

pub(crate) fn breaker_of(engine: &Engine, task_type: &TaskType, at: usize) -> Option<Breaker> {
    let step = &task_type.decl.steps[at];
    let policy = engine.settings.policies.breaker_of(step)?;
    let runtime = Arc::new(PortsRuntime::from(&engine.ports));
    let key = policy.key_of(task_type.decl.name, step.name);
    Some(Breaker::new(
        &key,
        policy,
        engine.ports.hints.clone(),
        runtime,
    ))
}
