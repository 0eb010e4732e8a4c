//! Reports to breakers how the attempts of a turn have ended, and tells operators of breakers that are open. Only forward: an undo
//! says nothing to a breaker.

use super::attempt::Ended;
use super::breaker_look::breaker_of;
use super::turn_loop::Turn;
use crate::admission::gate::Hold;
use crate::breaker::{Breaker, BreakerState, Ticket, Verdict};
use crate::engine::Engine;
use crate::plan;
use crate::record::StepRow;
use crate::webhooks::alerts::{self, Incident};
use counterstep_contracts::alert::AlertEvent;
use counterstep_contracts::{StepStatus, TaskStatus};
use std::collections::BTreeMap;

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
