//! Asking a step's probe how far an attempt in doubt came, before the step runs again or is undone.
//! A probe only looks: it has no attempt of its own, and a turn asks it once.

use super::attempt::time_left;
use super::code::{self, NotDone};
use super::turn_loop::{Happened, Turn};
use crate::call::ReadOnly;
use crate::cancel::CancelToken;
use crate::context::{Execution, StepContext};
use crate::engine::Engine;
use crate::error::{StepError, StepResult};
use crate::payloads::in_log;
use crate::ports::{CodeLabel, CodePart, IsolatedCode};
use crate::task::{Inputs, Probe, ProbeFn, TaskFacts, TaskType};
use crate::task_log::AttemptLog;
use counterstep_contracts::{Direction, LogPart};
use futures::future::{Either, select};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;

/// The word for an answer in the audit.
pub(super) fn word(found: &Probe<Value>) -> &'static str {
    match found {
        Probe::Done(_) => "done",
        Probe::NothingHappened => "nothing_happened",
        Probe::Unknown => "unknown",
    }
}

impl Turn<'_> {
    /// Asks these.
    pub(super) fn ask(&mut self, steps: Vec<usize>) {
        for at in steps {
            let Some(probe) = self.task_type.steps[at].probe else {
                continue;
            };
            self.probes.asked.insert(at);
            let row = &self.record.steps[at];
            let task = &self.record.task;
            let execution = Execution {
                tenant: task.tenant.clone(),
                task: task.id,
                step: row.name.clone(),
                // Of the attempt that it asks about: its effect key is the one that the outside
                // service was given.
                direction: Direction::Forward,
                attempt: row.attempts,
                epoch: task.epoch,
            };
            let engine = self.engine;
            let limit = engine
                .settings
                .attempt_limits(&self.task_type, at, Direction::Forward)
                .0;
            // A cancel on request does not stop it: what it finds out is what the undo needs to
            // know.
            let question = Question {
                task_type: self.task_type,
                at,
                probe,
                execution,
                inputs: self.inputs_of(at),
                limit,
                facts: self.record.task.facts(),
                log: self.log.attempt(&row.name, LogPart::Probe, row.attempts),
            };
            let turn_log = self.log.clone();
            let cancel = self.tokens.undo();
            self.under_way.push(Box::pin(async move {
                let log = question.log.clone();
                let found = ask(engine, question, cancel).await;
                turn_log.write(engine, log.end()).await;
                Happened::Probed(at, found)
            }));
        }
    }

    /// Takes an answer down. `None`: it was interrupted, and the next owner of the task asks again.
    pub(super) fn probed(&mut self, at: usize, found: Option<Probe<Value>>) {
        self.probes.asked.remove(&at);
        if let Some(found) = found {
            self.probes.found.insert(at, found);
        }
    }
}

struct Question {
    task_type: TaskType,
    at: usize,
    probe: ProbeFn,
    execution: Execution,
    inputs: Inputs,
    limit: Duration,
    facts: TaskFacts,
    log: AttemptLog,
}

async fn ask(engine: &Engine, question: Question, cancel: CancelToken) -> Option<Probe<Value>> {
    let Question {
        task_type,
        at,
        probe,
        execution,
        inputs,
        limit,
        mut facts,
        log,
    } = question;
    let traced = engine.probe_span(&execution, &mut facts);
    let (task, step, attempt) = (execution.task, execution.step.clone(), execution.attempt);
    let ports = &engine.ports;
    let span = tracing::error_span!(
        "probe",
        %task,
        task_type = facts.task_type,
        step,
        %attempt,
        trace_id = facts.trace_id(),
    );
    let context = StepContext::new(
        execution,
        cancel.clone(),
        ports.objects.clone(),
        ports.scratch.clone(),
    );
    let context = context
        .with_services(Arc::new(ReadOnly(ports.services.clone())))
        .of_task(facts)
        .limited_by(time_left(engine, limit))
        .logged_by(log.for_code());
    let context = Arc::new(context);
    let asked = context.clone();
    let processes = engine.processes_of(&task_type, at);
    let code = async move {
        let found = match processes {
            Some(processes) => {
                let code = IsolatedCode {
                    task_type,
                    at,
                    part: CodePart::Probe,
                    inputs: inputs.clone(),
                    own_output: None,
                    context: asked.clone(),
                };
                let found = processes.run(code).await?;
                serde_json::from_value(found).map_err(StepError::permanent)?
            }
            None => probe(&asked, &inputs).await?,
        };
        match found {
            Probe::Done(output) => inputs.output(&output).map(Probe::Done),
            other => Ok(other),
        }
    }
    .instrument(span)
    .instrument(traced.clone());
    let over = async {
        match select(ports.clock.sleep(limit), Box::pin(cancel.cancelled())).await {
            Either::Left(_) => {
                StepError::transient("the probe ran longer than an attempt of its step may")
            }
            Either::Right(_) => StepError::cancelled(),
        }
    };
    let label = CodeLabel {
        task,
        step: step.clone(),
        part: "probe",
    };
    let found: StepResult<Probe<Value>> = match code::run(engine, label, code, over).await {
        Ok(found) => found,
        Err(NotDone::Panicked(panic)) => Err(StepError::permanent(format_args!(
            "the probe panicked: {panic}"
        ))),
        Err(NotDone::Late(error)) => Err(error),
    };
    if cancel.is_cancelled() {
        return None;
    }
    // What it wants written would be lost.
    let found = match found {
        Ok(_) if context.has_sql() => Err(StepError::permanent("a probe writes to no table")),
        found => found,
    };
    // No answer is none: the step is treated as it would be without a probe.
    let found = found.unwrap_or_else(|error| {
        let error = in_log(ports.store.as_ref(), &error);
        tracing::warn!(%task, step, error, "a probe could not tell how far its step came");
        Probe::Unknown
    });
    traced.record("found", word(&found));
    tracing::info!(%task, step, found = word(&found), "a step in doubt was probed");
    Some(found)
}
