//! The judge: which state follows which event. One pure function, passed by live runs, cancels,
//! operators and recovery alike. No clock, no database, no await; and no arm that accepts an
//! unforeseen case.

mod event;
mod step_rules;
mod task_rules;

pub use event::{Event, LifecycleEvent, Operator, StepEvent};

use counterstep_contracts::{OnExhausted, StepStatus, TaskStatus};

/// What the judge knows of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepState {
    /// State of the step.
    pub status: StepStatus,
    /// Neither pure nor waived.
    pub effects: bool,
    /// An attempt of it that may have had effects has started at some time: also true of a step
    /// that went back to Pending because its scratch was lost, and false of one whose calls were
    /// provably never sent.
    pub started: bool,
}

impl StepState {
    /// Whether an undo of the task has to undo this step: it started, it has effects, and it is not
    /// settled.
    #[must_use]
    pub(crate) const fn needs_undo(self) -> bool {
        self.effects
            && match self.status {
                StepStatus::Running
                | StepStatus::Completed
                | StepStatus::InDoubt
                | StepStatus::Compensating => true,
                StepStatus::Pending | StepStatus::Waiting | StepStatus::Failed => self.started,
                StepStatus::Skipped
                | StepStatus::Compensated
                | StepStatus::CompensationFailed
                | StepStatus::Resolved => false,
            }
    }
}

/// What the judge knows of a task.
#[derive(Debug, Clone, Copy)]
pub struct State<'a> {
    /// Where it stands; `None`: it does not exist yet.
    pub status: Option<TaskStatus>,
    /// A cancel was accepted.
    pub cancel_requested: bool,
    /// Another task has submitted it.
    pub is_child: bool,
    /// Its steps.
    pub steps: &'a [StepState],
}

impl State<'_> {
    /// Whether any step has to be undone.
    #[must_use]
    pub fn has_effects(&self) -> bool {
        self.steps.iter().any(|step| step.needs_undo())
    }
}

/// What an event leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Ruling {
    /// The task's state after the event.
    pub task: TaskStatus,
    /// The step concerned and its state after the event.
    pub step: Option<(usize, StepStatus)>,
}

/// An event that cannot happen in this state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("`{event}` cannot happen to a task that is {}: {why}", status.map_or("not there", TaskStatus::as_str))]
pub struct Illegal {
    /// The event's stable name.
    pub event: &'static str,
    /// The task's state.
    pub status: Option<TaskStatus>,
    /// What stands against it.
    pub why: &'static str,
}

/// Decides.
///
/// # Errors
/// [`Illegal`], when the event cannot happen in this state. Nothing has changed then.
pub fn judge(state: &State<'_>, event: Event) -> Result<Ruling, Illegal> {
    let illegal = |why| Illegal {
        event: event.name(),
        status: state.status,
        why,
    };
    match event {
        Event::Task(event) => {
            let task = task_rules::rule(state, event).map_err(illegal)?;
            Ok(Ruling { task, step: None })
        }
        Event::Step(at, event) => {
            let Some(status) = state.status else {
                return Err(illegal("the task does not exist yet"));
            };
            let Some(step) = state.steps.get(at).copied() else {
                return Err(illegal("it has no such step"));
            };
            let to = step_rules::rule(state, status, step, event).map_err(illegal)?;
            Ok(Ruling {
                task: status,
                step: Some((at, to)),
            })
        }
    }
}

/// Where a step's giving up leads the task.
fn after_giving_up(state: &State<'_>, policy: OnExhausted) -> TaskStatus {
    match policy {
        OnExhausted::DeadLetter => TaskStatus::DeadLettered,
        OnExhausted::Fail => TaskStatus::Failed,
        OnExhausted::Compensate if state.has_effects() => TaskStatus::Compensating,
        OnExhausted::Compensate => TaskStatus::Failed,
    }
}
