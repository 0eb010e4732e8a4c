//! Breakers of steps: how they stand, without taking anything of them; how the attempts of a turn have ended, which is reported to
//! them; and the alert of one that is open. Only forward: an undo says nothing to a breaker.

use super::attempt::Ended;
use super::turn_loop::Turn;
use crate::admission::gate::Hold;
use crate::breaker::{Breaker, BreakerState, Ticket, Verdict};
use crate::engine::Engine;
use crate::plan;
use crate::ports::PortsRuntime;
use crate::record::StepRow;
use crate::task::TaskType;
use crate::webhooks::alerts::{self, Incident};
use counterstep_contracts::alert::AlertEvent;
use counterstep_contracts::{StepStatus, TaskStatus};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What a breaker says before anything is taken.
pub(super) enum Look {
    /// It is closed.
    Goes,
    /// It is half-open, and no attempt probes.
    MayProbe,
    /// For this time, as far as is known.
    Waits(Duration),
}

pub(super) async fn look(breaker: &Breaker) -> Look {
    match breaker.standing().await {
        BreakerState::Closed => Look::Goes,
        BreakerState::Open(left) => Look::Waits(left),
        BreakerState::HalfOpen => breaker.probing().await.map_or(Look::MayProbe, Look::Waits),
    }
}

/// Whether the breaker of a step holds it back, before the task is claimed.
pub(super) async fn holds_back(engine: &Engine, task_type: &TaskType, at: usize) -> bool {
    let Some(breaker) = breaker_of(engine, task_type, at) else {
        return false;
    };
    matches!(look(&breaker).await, Look::Waits(_))
}

/// The breaker of a step, where it has one.
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

impl Turn<'_> {
    /// After a decision: gives back the probes that it has not used, and remembers when to look again at steps of a
    /// group whose siblings run meanwhile.
    pub(super) async fn settle(&mut self, held_back: BTreeMap<usize, Hold>) {
        let record = &self.record;
        let goes_forward = record.task.status != TaskStatus::Compensating;
        let probes = |at: usize| goes_forward && record.steps[at].attempt_open;
        self.permits.settle(probes).await;
        let running: Vec<usize> = (0..self.record.steps.len())
            .filter(|&at| is_running(&self.record.steps[at]))
            .collect();
        for (at, hold) in held_back {
            let beside = running
                .iter()
                .any(|&running| plan::stage_of(self.task_type.decl, running).contains(&at));
            if beside && !running.contains(&at) && !self.delayed.contains_key(&at) {
                let token = self.tokens.forward();
                self.delay(at, hold.left, token);
            }
        }
    }

    /// Tells a step's breaker how its attempt ended. That of a fallback says nothing about it.
    pub(super) async fn tell_breaker(&mut self, ended: &Ended) {
        let Turn {
            engine,
            task_type,
            permits,
            record,
            undoing,
            ..
        } = self;
        if *undoing || record.steps[ended.at].in_fallback {
            return;
        }
        let of_step = || Some((breaker_of(engine, task_type, ended.at)?, Ticket::default()));
        let Some((breaker, ticket)) = permits.take_probe(ended.at).or_else(of_step) else {
            return;
        };
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
pub(super) async fn alert_open(engine: &Engine, breaker: &Breaker) {
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
