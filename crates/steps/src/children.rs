//! Steps that submit other tasks and wait for them, as values: the declaration's function says which
//! tasks, the engine submits them with the step's start, and undoes them with the step. Knows no row
//! and no state of a task.

use crate::builtin::{BuiltInStep, ChildRequest, LONGEST_WAIT, Tasks, TasksShape, Wait, Work};
use crate::error::{StepError, StepResult};
use crate::json::to_json;
use crate::task::DistributedTask;
use crate::waits::read;
use counterstep_contracts::{TaskId, TaskStatus, WaitDecl};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::marker::PhantomData;

/// Default maximum of tasks of a [`ForEach`] that are under way at a time.
const AT_A_TIME: usize = 10;

/// A task of another type: it is submitted when the step starts, and the step waits for it, without
/// a slot and without a lease. Its output is the response of that task. Where the task does not
/// complete, the step fails as permanent. The undo of the step stops the task, or undoes it where
/// it has completed.
///
/// ```
/// # use counterstep_steps::{AwaitTask, DistributedTask};
/// # fn step<BookSeat: DistributedTask<Request = u8>>(seat: &u8) -> AwaitTask<BookSeat> {
/// AwaitTask::of(seat).within("2h")
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct AwaitTask<T>(Tasks, PhantomData<fn() -> T>);

impl<T: DistributedTask> AwaitTask<T> {
    /// With this request.
    #[must_use]
    pub fn of(request: &T::Request) -> Self {
        let mut tasks = Tasks::new(TasksShape::One);
        tasks.push::<T>(request);
        Self(tasks.all(), PhantomData)
    }

    /// At most this long from the step's start; without it, as long as it takes. `duration` as in
    /// declarations: `"30m"`, `"72h"`, `"7d"`.
    ///
    /// # Panics
    /// When it is none; the step fails then.
    #[must_use]
    pub fn within(mut self, duration: &str) -> Self {
        self.0.within = read(duration);
        self
    }
}

impl<T: DistributedTask> BuiltInStep for AwaitTask<T> {
    type Output = T::Response;
    const OUTPUT: &'static str = "the response of its task";
    const WAITS: Option<WaitDecl> = Some(WaitDecl::Tasks { of: Some(T::NAME) });
    fn into_work(self) -> Work {
        Work::Wait(Wait::Tasks(self.0))
    }
}

/// A task for each request of a list, a limited number at a time. Its output is the list of their responses,
/// in the order of the requests. When one does not complete, no other is submitted, the step fails
/// as permanent, and its undo stops those that run and undoes those that have completed.
/// [`outcomes`](Self::outcomes) lets some of them fail.
///
/// ```
/// # use counterstep_steps::{DistributedTask, ForEach};
/// # fn step<Resize: DistributedTask<Request = String>>(names: &[String]) -> ForEach<Resize> {
/// ForEach::of(names).at_a_time(20)
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ForEach<T>(Tasks, PhantomData<fn() -> T>);

impl<T: DistributedTask> ForEach<T> {
    /// With these requests, at most 10,000.
    pub fn of<'a>(requests: impl IntoIterator<Item = &'a T::Request>) -> Self {
        let mut tasks = Tasks::new(TasksShape::Responses);
        for request in requests {
            tasks.push::<T>(request);
        }
        Self(tasks.all(), PhantomData)
    }

    /// Maximum number of tasks under way at a time; 10 by default. 0 counts as 1.
    #[must_use]
    pub fn at_a_time(mut self, tasks: usize) -> Self {
        self.0.at_a_time = tasks.max(1);
        self
    }

    /// At most this long for all of them, from the step's start.
    ///
    /// # Panics
    /// When `duration` is none; the step fails then.
    #[must_use]
    pub fn within(mut self, duration: &str) -> Self {
        self.0.within = read(duration);
        self
    }

    /// Gives how each of them ended, also of those that did not complete, and waits for all.
    #[must_use]
    pub fn outcomes(mut self) -> EachOutcome<T> {
        self.0.shape = TasksShape::Outcomes;
        self.0.need = 0;
        EachOutcome(self.0, PhantomData)
    }
}

impl<T: DistributedTask> BuiltInStep for ForEach<T> {
    type Output = Vec<T::Response>;
    const OUTPUT: &'static str = "the responses of its tasks";
    const WAITS: Option<WaitDecl> = Some(WaitDecl::Tasks { of: Some(T::NAME) });
    fn into_work(self) -> Work {
        Work::Wait(Wait::Tasks(self.0))
    }
}

/// A [`ForEach`] of which some may fail. Its output is how each of them ended, in the order of the
/// requests. A task that does not complete is undone by itself, as any task is.
#[derive(Debug, Clone, PartialEq)]
pub struct EachOutcome<T>(Tasks, PhantomData<fn() -> T>);

impl<T: DistributedTask> EachOutcome<T> {
    /// Fails, as permanent, as soon as fewer than `tasks` can complete. All are waited for.
    #[must_use]
    pub fn at_least(mut self, tasks: usize) -> Self {
        self.0.need = tasks;
        self
    }

    /// Goes on as soon as `tasks` have completed: the others are told to stop and are undone, and no other is
    /// submitted. Fails, as permanent, as soon as fewer can complete.
    #[must_use]
    pub fn first_completed(mut self, tasks: usize) -> Self {
        self.0.need = tasks.max(1);
        self.0.stops_early = true;
        self
    }

    /// As [`ForEach::at_a_time`].
    #[must_use]
    pub fn at_a_time(mut self, tasks: usize) -> Self {
        self.0.at_a_time = tasks.max(1);
        self
    }

    /// As [`ForEach::within`].
    ///
    /// # Panics
    /// When `duration` is none; the step fails then.
    #[must_use]
    pub fn within(mut self, duration: &str) -> Self {
        self.0.within = read(duration);
        self
    }
}

impl<T: DistributedTask> BuiltInStep for EachOutcome<T> {
    type Output = Vec<ChildOutcome<T::Response>>;
    const OUTPUT: &'static str = "how each of its tasks ended";
    const WAITS: Option<WaitDecl> = Some(WaitDecl::Tasks { of: Some(T::NAME) });
    fn into_work(self) -> Work {
        Work::Wait(Wait::Tasks(self.0))
    }
}

/// Tasks of several types side by side: branches of several steps each. All of them have to
/// complete, or [any](Self::any) one, or a [quorum](Self::quorum). Its output is how each of them
/// ended, in the order in which they were added; [`BranchOutcome::response_of`] reads a response.
///
/// ```
/// # use counterstep_steps::{Branches, DistributedTask};
/// # fn step<ByRail: DistributedTask<Request = u8>, ByRoad: DistributedTask<Request = u8>>(parcel: &u8) -> Branches {
/// Branches::new().with::<ByRail>(parcel).with::<ByRoad>(parcel).any()
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Branches(Tasks);

impl Default for Branches {
    fn default() -> Self {
        Self::new()
    }
}

impl Branches {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        let mut tasks = Tasks::new(TasksShape::Branches);
        tasks.at_a_time = usize::MAX;
        Self(tasks)
    }

    /// Adds a branch: a task of this type.
    #[must_use]
    pub fn with<T: DistributedTask>(mut self, request: &T::Request) -> Self {
        self.0.push::<T>(request);
        if !self.0.stops_early {
            self.0.need = self.0.list.len();
        }
        self
    }

    /// One of them has to complete; then the others are told to stop and are undone.
    #[must_use]
    pub fn any(self) -> Self {
        self.quorum(1)
    }

    /// `branches` of them have to complete, at least one; then the others are told to stop and are undone,
    /// and the step goes on when they are.
    #[must_use]
    pub fn quorum(mut self, branches: usize) -> Self {
        self.0.need = branches.max(1);
        self.0.stops_early = true;
        self
    }

    /// At most this long from the step's start.
    ///
    /// # Panics
    /// When `duration` is none; the step fails then.
    #[must_use]
    pub fn within(mut self, duration: &str) -> Self {
        self.0.within = read(duration);
        self
    }
}

impl BuiltInStep for Branches {
    type Output = Vec<BranchOutcome>;
    const OUTPUT: &'static str = "how each of its branches ended";
    const WAITS: Option<WaitDecl> = Some(WaitDecl::Tasks { of: None });
    fn into_work(self) -> Work {
        Work::Wait(Wait::Tasks(self.0))
    }
}

/// How a task that a step has submitted ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildOutcome<R> {
    /// With this response.
    Completed(R),
    /// It did not complete: it was undone, or an operator ended it.
    Failed(ChildFailure),
    /// It was not submitted: enough others had completed.
    NotStarted,
}

/// Why a task that a step has submitted did not complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildFailure {
    /// The task.
    pub task: TaskId,
    /// How it ended: failed, cancelled or resolved; completed, where its response was erased since.
    pub status: TaskStatus,
    /// The class of its failure, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The text of its failure, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl<R> ChildOutcome<R> {
    /// The response, where it completed.
    pub const fn response(&self) -> Option<&R> {
        match self {
            Self::Completed(response) => Some(response),
            Self::Failed(_) | Self::NotStarted => None,
        }
    }
}

/// How a branch ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchOutcome {
    /// Declared name of the type of its task.
    pub of: String,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: ChildOutcome<Value>,
}

impl BranchOutcome {
    /// The response of a branch of this type, where it completed; `None` for one of another type, too.
    ///
    /// # Errors
    /// Permanent, when the response of the type has another form now.
    pub fn response_of<T: DistributedTask>(&self) -> StepResult<Option<T::Response>> {
        if self.of != T::NAME {
            return Ok(None);
        }
        let read = |value: &Value| {
            read_response::<T::Response>(value).map_err(|error| {
                StepError::permanent(format_args!("no response of `{}`: {error}", T::NAME))
            })
        };
        self.outcome.response().map(read).transpose()
    }
}

fn read_response<R: DeserializeOwned>(value: &Value) -> serde_json::Result<R> {
    R::deserialize(value)
}

impl Tasks {
    fn new(shape: TasksShape) -> Self {
        Self {
            list: Vec::new(),
            at_a_time: AT_A_TIME,
            need: 0,
            stops_early: false,
            within: LONGEST_WAIT,
            shape,
            fault: None,
        }
    }

    fn push<T: DistributedTask>(&mut self, request: &T::Request) {
        match to_json(request) {
            Ok(request) => self.list.push(ChildRequest {
                of: T::NAME,
                version: T::task_type().decl.version,
                request,
            }),
            Err(error) => {
                self.fault = Some(format!(
                    "a request of `{}` has no JSON form: {error}",
                    T::NAME
                ));
            }
        }
    }

    fn all(mut self) -> Self {
        self.need = self.list.len();
        self
    }

    /// What the step gives, of how its tasks ended.
    ///
    /// # Errors
    /// Permanent, when one that is needed has no response.
    #[must_use = "what the step gives"]
    pub fn output(&self, outcomes: &[ChildOutcome<Value>]) -> StepResult<Value> {
        let responses = || {
            let response = |outcome: &ChildOutcome<Value>| outcome.response().cloned();
            let missing = || StepError::permanent("a task that the step waits for has no response");
            outcomes
                .iter()
                .map(|outcome| response(outcome).ok_or_else(missing))
                .collect::<StepResult<Vec<Value>>>()
        };
        match self.shape {
            TasksShape::One => {
                let one = responses()?.pop();
                one.ok_or_else(|| StepError::permanent("the step submitted no task"))
            }
            TasksShape::Responses => responses().map(Value::Array),
            TasksShape::Outcomes => crate::task::output(&outcomes),
            TasksShape::Branches => {
                let branch =
                    |(task, outcome): (&ChildRequest, &ChildOutcome<Value>)| BranchOutcome {
                        of: task.of.to_owned(),
                        outcome: outcome.clone(),
                    };
                let branches = self.list.iter().zip(outcomes).map(branch);
                crate::task::output(&branches.collect::<Vec<_>>())
            }
        }
    }
}
