//! Breakers before and after the attempts of a turn: asked before a decision, told after an
//! attempt. Only forward: an undo never waits for a breaker, and says nothing to one.

use super::attempt::Ended;
use super::forward::{Ahead, ForwardTurn};
use super::{Next, Turn, limits};
use crate::breaker::{Admission, Breaker, Standing, Ticket, Verdict};
use crate::draft::Draft;
use crate::engine::Engine;
use crate::plan::{self, Forward};
use crate::record::{DbTime, StepRow, TaskRecord};
use crate::resilience::PortsRuntime;
use crate::saga::Illegal;
use crate::task::TaskType;
use counterstep_contracts::{Direction, Host, StepStatus, WaitReason};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// What the breakers of the steps that may come next have said.
#[derive(Debug, Default)]
pub(super) struct Passes {
    /// These may not start, for so long: by the key of the breaker.
    waits: BTreeMap<usize, (String, Duration)>,
    /// These may start, as the one probe. To be used, or given back.
    probes: BTreeMap<usize, (Breaker, Ticket)>,
}

/// What is known of the task beyond its rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// A step that is under way in the rows and has just succeeded.
    pub(super) done: Option<usize>,
    /// The database's time.
    pub(super) now: DbTime,
}

impl Passes {
    /// Asks. `missing`: completed steps that may have to run again.
    pub(super) async fn ask(
        engine: &Engine,
        task_type: &TaskType,
        host: Host,
        record: &TaskRecord,
        (seen, missing): (Seen, &BTreeSet<usize>),
    ) -> Self {
        let mut passes = Self::default();
        let decl = task_type.decl;
        if decl.steps.iter().all(|step| step.breaker.is_none()) || !going_forward(record) {
            return passes;
        }
        let next = next_stage(task_type, record, seen);
        for (at, (step, row)) in decl.steps.iter().zip(&record.steps).enumerate() {
            let may_start = matches!(
                row.status,
                StepStatus::Pending | StepStatus::Waiting | StepStatus::InDoubt
            );
            // A fallback is another way to the output, past what the breaker stands for.
            if step.host != host || row.in_fallback || !(may_start || missing.contains(&at)) {
                continue;
            }
            let Some(breaker) = breaker_of(engine, task_type, at) else {
                continue;
            };
            // Only what is next may take the one probe. A step further down comes to be next where
            // a condition skips those before it; half-open, it then has to ask again.
            if next.contains(&at) || missing.contains(&at) {
                let limit = limits(engine, task_type, at, Direction::Forward).0
                    + engine.settings.cancel_grace;
                match breaker.admit(limit).await {
                    Admission::Go(ticket) if ticket.is_probe() => {
                        passes.probes.insert(at, (breaker, ticket));
                    }
                    Admission::Go(_) => {}
                    Admission::Wait(left) => passes.wait(engine, at, &breaker, left),
                }
            } else {
                match breaker.standing().await {
                    Standing::Closed => {}
                    Standing::Open(left) => passes.wait(engine, at, &breaker, left),
                    Standing::HalfOpen => passes.wait(engine, at, &breaker, Duration::ZERO),
                }
            }
        }
        passes
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
        self.waits
            .insert(at, (breaker.key().to_owned(), left + late));
    }

    /// Whether a step has to wait, and how long.
    pub(super) fn must_wait(&self, at: usize) -> bool {
        self.waits.contains_key(&at)
    }

    /// Puts the task to sleep until the first of these may be let through, but no longer than
    /// `at_most`.
    fn sleep(&self, draft: &mut Draft, steps: &[usize], at_most: Duration) -> Result<(), Illegal> {
        let first = steps
            .iter()
            .filter_map(|at| Some((*at, self.waits.get(at)?)))
            .min_by_key(|(_, (_, left))| *left);
        let Some((at, (breaker, left))) = first else {
            return Ok(());
        };
        let details = serde_json::json!({"breaker": breaker, "step": draft.step(at).name});
        draft.wait_with(WaitReason::Breaker, (*left).min(at_most), details)
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

impl Ahead<'_> {
    /// No attempt is consumed: none starts. A sibling that runs holds the lease anyway.
    pub(super) fn wait_for_breakers(
        &self,
        draft: &mut Draft,
        steps: &[usize],
    ) -> Result<Next, Illegal> {
        if !draft.running_steps().is_empty() {
            return Ok(Next::Hold);
        }
        // A sibling that waits for its own time is not held up by the breaker of another one.
        let record = draft.record();
        let siblings = plan::stage_of(draft.decl(), steps[0])
            .into_iter()
            .filter(|at| !steps.contains(at));
        let waiting = siblings.filter(|&at| record.steps[at].status == StepStatus::Waiting);
        let due = waiting
            .filter_map(|at| record.steps[at].due_at)
            .min()
            .map(|due| due.after(record.now));
        self.passes
            .sleep(draft, steps, due.unwrap_or(Duration::MAX))?;
        Ok(Next::End)
    }
}

impl ForwardTurn<'_> {
    /// After a decision: remembers the probes that it started, and when to look again at steps of a
    /// group whose siblings run meanwhile.
    pub(super) async fn passed(&mut self, mut passes: Passes) {
        let waits = std::mem::take(&mut passes.waits);
        let turn = &mut self.0;
        let used = passes.used(&turn.record).await;
        turn.tickets.extend(used);
        // A cancelled token would end the delay at once, again and again.
        if turn.tokens.forward.reason().is_some() {
            return;
        }
        let running: Vec<usize> = (0..turn.record.steps.len())
            .filter(|&at| is_running(&turn.record.steps[at]))
            .collect();
        for (at, (_, left)) in waits {
            let beside = running
                .iter()
                .any(|&running| plan::stage_of(turn.task_type.decl, running).contains(&at));
            if beside && !running.contains(&at) && !turn.delayed.contains_key(&at) {
                let token = turn.tokens.forward.clone();
                turn.delay(at, left, token);
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
            ..
        } = &mut self.0;
        if record.steps[ended.at].in_fallback {
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
    }
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
}

fn breaker_of(engine: &Engine, task_type: &TaskType, at: usize) -> Option<Breaker> {
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

/// The steps that are likely to start with the next decision.
fn next_stage(task_type: &TaskType, record: &TaskRecord, seen: Seen) -> Vec<usize> {
    let mut steps = record.steps.clone();
    if let Some(row) = seen.done.and_then(|at| steps.get_mut(at)) {
        row.status = StepStatus::Completed;
    }
    match plan::forward(task_type.decl, &steps, seen.now) {
        Forward::Start(stage) => stage,
        Forward::Hold | Forward::Finish => Vec::new(),
    }
}
