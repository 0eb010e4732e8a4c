//! What the client of a test does about the signals that its task waits for.

use counterstep_contracts::StepStatus;
use counterstep_kernel::Engine;
use counterstep_kernel::client::{self, SignalRefusal};
use counterstep_kernel::record::TaskRecord;
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
    pub(crate) const fn new(planned: Vec<(String, Answer)>) -> Self {
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

    /// Whether a signal is not to come in time.
    pub(crate) fn let_deadlines_pass(&self) -> bool {
        let late = |(_, answer): &(String, Answer)| !matches!(answer, Answer::InTime(_));
        self.planned().iter().any(late)
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
