//! Asking a step's probe how far an attempt in doubt came, before the step runs again or is undone.
//! A probe only looks: it has no attempt of its own. How often it has failed stands in the step's row.

use super::attempt::time_left;
use super::code::{self, NotDone};
use super::turn_loop::{Happened, Next, Turn};
use crate::call::ReadOnly;
use crate::cancel::CancelToken;
use crate::change::ChangeError;
use crate::context::{Execution, StepContext};
use crate::draft::Draft;
use crate::engine::Engine;
use crate::engine::faults::{Fault, services_amid, work_amid};
use crate::error::{ErrorClass, StepError, StepResult};
use crate::payloads::in_log;
use crate::plan::Facts;
use crate::ports::{CodeLabel, CodePart, IsolatedCode, StepProcesses};
use crate::retry_decision;
use crate::status::task_log::AttemptLog;
use crate::task::{Inputs, Probe, ProbeFn, TaskFacts, TaskType};
use counterstep_contracts::retry::format_duration;
use counterstep_contracts::{Attempt, Direction, LogPart, OnProbeFailure};
use futures::future::{Either, select};
use serde_json::Value;
use std::pin::pin;
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
            let limit = engine.settings.probe_limit(&self.task_type, at);
            let tried = row.probe.map_or(0, |probe| probe.retries_used);
            // The first try is 1, as of attempts.
            let tried = Attempt(i32::try_from(tried).unwrap_or(i32::MAX).saturating_add(1));
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
                fault: engine.settings.fault_at(&row.name, LogPart::Probe, tried),
                log: self.log.attempt(&row.name, LogPart::Probe, row.attempts),
            };
            let turn_log = self.log.clone();
            let cancel = self.tokens.undo();
            self.under_way.push(Box::pin(async move {
                let (log, attempt) = (question.log.clone(), question.execution.attempt);
                let found = ask(engine, question, cancel).await;
                turn_log.write(engine, log.end()).await;
                Happened::Probed(Probed { at, attempt, found })
            }));
        }
    }

    /// Takes an answer down, and decides what is next.
    pub(super) async fn probed(&mut self, probed: Probed) -> Result<Next, ChangeError> {
        let Probed { at, attempt, found } = probed;
        self.probes.asked.remove(&at);
        let decl = &self.task_type.decl.steps[at];
        match found {
            None => {}
            Some(Ok(found)) => {
                self.probes.found.insert(at, (attempt, found));
            }
            Some(Err(error)) => match self.after_probe(at, &error) {
                retry_decision::Next::Retry(delay) => {
                    let retries = |draft: &mut Draft, facts: &mut Facts| {
                        facts.delayed_undos.insert(at, delay);
                        draft.probe_retries(at, &error, delay)
                    };
                    return self.decide_if_leased(retries).await;
                }
                retry_decision::Next::GiveUp
                    if decl.on_probe_failure == OnProbeFailure::RunAgain =>
                {
                    self.probes.found.insert(at, (attempt, Probe::Unknown));
                }
                retry_decision::Next::GiveUp => {
                    let task = self.record.task.id;
                    let said = in_log(&self.engine.ports.store, &error);
                    tracing::error!(%task, step = decl.name, error = said, "a probe gave up: a person has to decide");
                    let failed = |draft: &mut Draft, _: &mut Facts| draft.probe_failed(at, &error);
                    return self.decide_if_leased(failed).await;
                }
            },
        }
        self.go_on().await
    }

    /// Takes down what a probe has found while nothing can be decided; one that has failed is asked again.
    pub(super) fn note(&mut self, probed: Probed) {
        self.probes.asked.remove(&probed.at);
        if let Some(Ok(found)) = probed.found {
            self.probes.found.insert(probed.at, (probed.attempt, found));
        }
    }

    fn after_probe(&self, at: usize, error: &StepError) -> retry_decision::Next {
        let policies = &self.engine.settings.policies;
        let retry = policies.probe_retry_of(&self.task_type.decl.steps[at]);
        let retries_used = self.record.steps[at]
            .probe
            .map_or(0, |row| row.retries_used);
        retry_decision::decide_retry(
            &retry,
            error.class,
            retries_used,
            self.engine.ports.random.bits(),
        )
    }
}

/// The end of a probe.
#[derive(Debug)]
pub(super) struct Probed {
    at: usize,
    /// The attempt that it was asked about.
    attempt: Attempt,
    /// `None`: it was interrupted, and the next owner of the task asks again.
    found: Option<StepResult<Probe<Value>>>,
}

struct Question {
    task_type: TaskType,
    at: usize,
    probe: ProbeFn,
    execution: Execution,
    inputs: Inputs,
    limit: Duration,
    facts: TaskFacts,
    /// What is planted at this try.
    fault: Option<Fault>,
    log: AttemptLog,
}

async fn ask(
    engine: &Engine,
    question: Question,
    cancel: CancelToken,
) -> Option<StepResult<Probe<Value>>> {
    let Question {
        task_type,
        at,
        probe,
        execution,
        inputs,
        limit,
        mut facts,
        fault,
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
    let services = Arc::new(ReadOnly(ports.services.clone()));
    let context = context
        .with_services(services_amid(fault.as_ref(), services))
        .of_task(facts)
        .limited_by(time_left(engine, limit))
        .logged_by(log.for_code());
    let context = Arc::new(context);
    let code = IsolatedCode {
        task_type,
        at,
        part: CodePart::Probe,
        inputs,
        own_output: None,
        context: context.clone(),
    };
    let looks = look(engine.processes_of(&task_type, at), probe, code);
    let code = work_amid(fault, looks).instrument(span);
    let code = Box::pin(code.instrument(traced.clone()));
    let over = async {
        match select(ports.clock.sleep(limit), pin!(cancel.cancelled())).await {
            Either::Left(_) => StepError::new(
                ErrorClass::TimedOut,
                format_args!("the probe ran longer than {}", format_duration(limit)),
            ),
            Either::Right(_) => StepError::cancelled(),
        }
    };
    let label = CodeLabel {
        task,
        step: step.clone(),
        part: "probe",
        attempt,
    };
    let found: StepResult<Probe<Value>> = match code::run(engine, label, code, over).await {
        Ok(found) => found,
        Err(NotDone::Panicked(panic)) => Err(StepError::new(
            ErrorClass::Panicked,
            format_args!("the probe panicked: {panic}"),
        )),
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
    match &found {
        Ok(found) => {
            traced.record("found", word(found));
            tracing::info!(%task, step, found = word(found), "a step in doubt was probed");
        }
        Err(error) => {
            traced.record("found", "error");
            let error = in_log(&ports.store, error);
            tracing::warn!(%task, step, error, "a probe could not find out how far its step came");
        }
    }
    Some(found)
}

/// Runs the probe's code, here or in a process of its own.
async fn look(
    processes: Option<Arc<dyn StepProcesses>>,
    probe: ProbeFn,
    code: IsolatedCode,
) -> StepResult<Probe<Value>> {
    let (inputs, context) = (code.inputs.clone(), code.context.clone());
    let found = match processes {
        Some(processes) => {
            let found = processes.run(code).await?;
            serde_json::from_value(found).map_err(StepError::permanent)?
        }
        None => probe(&context, &inputs).await?,
    };
    match found {
        Probe::Done(output) => inputs.output(&output).map(Probe::Done),
        other => Ok(other),
    }
}
