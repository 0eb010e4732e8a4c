//! What the client of a test does about the signals that its task, and those below it, wait for.

use counterstep_contracts::{StepStatus, TaskId, WaitDecl};
use counterstep_kernel::Engine;
use counterstep_kernel::client::{self, SignalRefusal};
use counterstep_kernel::record::{StepRow, TaskRecord};
use counterstep_steps::Registry;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

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

/// An answer to a step of this name.
#[derive(Debug)]
struct Planned {
    step: String,
    answer: Answer,
    /// The first task that is seen to wait for it, and for which no other one is planned.
    task: Option<TaskId>,
    is_sent: bool,
}

/// What the client still has to do.
#[derive(Debug)]
pub(crate) struct Answers(Mutex<Vec<Planned>>);

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
        let planned = planned.into_iter().map(|(step, answer)| Planned {
            step,
            answer,
            task: None,
            is_sent: false,
        });
        Self(Mutex::new(planned.collect()))
    }

    /// Sends those of a task for which it is time.
    ///
    /// # Panics
    /// When one in time is refused, or a late one is not.
    pub(crate) async fn send(&self, engine: &Engine, record: &TaskRecord) {
        let task_type = engine.registry.of(&*record.task);
        let signals = |row: &&StepRow| {
            let step = task_type.and_then(|of| of.decl.step(&row.name));
            step.is_some_and(|step| matches!(step.waits, Some(WaitDecl::Signal { .. })))
        };
        for row in record.steps.iter().filter(signals) {
            let Some(answer) = self.due(record.task.id, row) else {
                continue;
            };
            let (Answer::InTime(body) | Answer::Late(body)) = &answer else {
                continue;
            };
            let step = &row.name;
            let sent = client::signal(engine, record.task.id, step, body.clone(), "test").await;
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
        let awaited = |it: &&Planned| it.task == Some(record.task.id) && waits(&it.step);
        let mut awaited = planned.iter().filter(awaited).peekable();
        awaited.peek().is_some() && awaited.all(|it| !matches!(it.answer, Answer::InTime(_)))
    }

    /// Takes the answer of a step, where it is time.
    fn due(&self, task: TaskId, row: &StepRow) -> Option<Answer> {
        let is_open = matches!(row.status, StepStatus::Pending | StepStatus::Waiting);
        let waits = row.status == StepStatus::Waiting && row.signal.is_none();
        let mut planned = self.planned();
        let of = |it: &Planned, task: Option<TaskId>| it.step == row.name && it.task == task;
        let mut own = planned.iter().enumerate();
        let own = own.find(|(_, it)| of(it, Some(task)) && !(waits && it.is_sent));
        let at = match own {
            Some((at, _)) => at,
            None => planned.iter().position(|it| of(it, None))?,
        };
        let it = &mut planned[at];
        if waits {
            it.task = Some(task);
        }
        let is_due = match it.answer {
            Answer::InTime(_) => waits,
            Answer::Late(_) => !is_open,
            Answer::Never => false,
        };
        if it.is_sent || !is_due {
            return None;
        }
        (it.task, it.is_sent) = (Some(task), true);
        Some(it.answer.clone())
    }

    fn planned(&self) -> MutexGuard<'_, Vec<Planned>> {
        self.0.lock()
    }
}
