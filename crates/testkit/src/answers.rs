//! What the client of a test does about the signals that its task waits for.

use counterstep_contracts::{StepStatus, WaitDecl};
use counterstep_kernel::Engine;
use counterstep_kernel::client::{self, SignalRefusal};
use counterstep_kernel::record::TaskRecord;
use counterstep_steps::Registry;
use serde_json::Value;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a client does about a signal that a task waits for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    /// Sends it while the task waits.
    InTime(Value),
    /// Sends it once the task waits no longer.
    Late(Value),
    /// Sends nothing.
    Never,
}

/// What the client still has to do, by step.
#[derive(Debug)]
pub(crate) struct Answers(Mutex<Vec<(String, Answer)>>);

impl Answers {
    /// # Panics
    /// When one is for a step that waits for no signal.
    pub(crate) fn of(planned: Vec<(String, Answer)>, registry: &Registry) -> Self {
        let signals = |name: &str| {
            let mut steps = registry.iter().flat_map(|known| known.decl.steps);
            steps.any(|it| it.name == name && matches!(it.waits, Some(WaitDecl::Signal { .. })))
        };
        for (step, _) in &planned {
            assert!(
                signals(step),
                "the form answers `{step}`, and no step of that name waits for a signal"
            );
        }
        Self(Mutex::new(planned))
    }

    /// Sends those for which it is time.
    ///
    /// # Panics
    /// When one in time is refused, or a late one is not.
    pub(crate) async fn send(&self, engine: &Engine, record: &TaskRecord) {
        for row in &record.steps {
            let Some((step, answer)) = self.due(&row.name, row.status) else {
                continue;
            };
            let (Answer::InTime(body) | Answer::Late(body)) = &answer else {
                continue;
            };
            let sent = client::signal(engine, record.task.id, &step, body.clone(), "test").await;
            match (&answer, sent) {
                (Answer::InTime(_), Ok(_)) => {}
                (Answer::InTime(_), Err(error)) => {
                    panic!("the signal of {step} is refused: {error}")
                }
                (_, Err(SignalRefusal::TooLate { .. })) => {}
                (_, sent) => panic!("a late signal of {step} is not refused: {sent:?}"),
            }
        }
    }

    /// Whether no signal that the task waits for is to come in time, and one of them late or never.
    pub(crate) fn let_deadlines_pass(&self, record: &TaskRecord) -> bool {
        let waits = |step: &str| {
            let mut rows = record.steps.iter();
            rows.any(|row| row.name == step && row.status == StepStatus::Waiting)
        };
        let planned = self.planned();
        let mut awaited = planned.iter().filter(|(step, _)| waits(step)).peekable();
        awaited.peek().is_some() && awaited.all(|(_, it)| !matches!(it, Answer::InTime(_)))
    }

    /// Takes the answer of a step, where it is time.
    fn due(&self, step: &str, status: StepStatus) -> Option<(String, Answer)> {
        let waits = matches!(status, StepStatus::Pending | StepStatus::Waiting);
        let is_due = |(of, answer): &(String, Answer)| {
            of == step
                && match answer {
                    Answer::InTime(_) => status == StepStatus::Waiting,
                    Answer::Late(_) => !waits,
                    Answer::Never => false,
                }
        };
        let mut planned = self.planned();
        let at = planned.iter().position(is_due)?;
        Some(planned.remove(at))
    }

    fn planned(&self) -> MutexGuard<'_, Vec<(String, Answer)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
