//! Task types as the engine sees them: a declaration (data) and its code (function pointers), both
//! written by `#[distributed_task]`. Knows nothing of states or rows.

use crate::builtin::Work;
use crate::context::StepContext;
use crate::error::{StepError, StepResult, UndoResult};
use crate::orphans::OrphanRule;
use crate::output_limit::OutputLimit;
use crate::ports::KnownType;
use crate::record::TaskRow;
use counterstep_contracts::declaration::NamedPolicy;
use counterstep_contracts::{Host, QueueName, Retention, ScheduleSpec, StepNo, TaskDecl};
use futures::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Implemented by `#[distributed_task]` for the type it is written on.
pub trait DistributedTask: Send + Sync + 'static {
    /// What a client sends.
    type Request: Serialize + DeserializeOwned + Send + Sync + 'static;
    /// What a client gets once the task has completed.
    type Response: Serialize + DeserializeOwned + Send + Sync + 'static;

    /// Declaration and code.
    fn task_type() -> TaskType;
}

/// The code of a custom step.
pub type RunFn = for<'a> fn(&'a StepContext, &'a Inputs) -> BoxFuture<'a, StepResult<Value>>;
/// The evaluation of a built-in step.
pub type BuiltInFn = fn(&Inputs) -> StepResult<Work>;
/// The code of an undo. `None`: the step started and its output is unknown.
pub type UndoFn =
    for<'a> fn(&'a StepContext, Option<Value>, &'a Inputs) -> BoxFuture<'a, UndoResult>;
/// The condition of a step.
pub type WhenFn = fn(&Inputs) -> StepResult<bool>;
/// The code of a probe.
pub type ProbeFn =
    for<'a> fn(&'a StepContext, &'a Inputs) -> BoxFuture<'a, StepResult<Probe<Value>>>;
/// Makes the response of the outputs.
pub type RespondFn = fn(&Inputs) -> StepResult<Value>;
/// Checks a request and gives it its canonical form.
pub type ReadRequestFn = fn(Value) -> Result<Value, RequestError>;

/// Checks an output and gives it its canonical form.
pub type ReadOutputFn = fn(Value) -> Result<Value, RequestError>;

/// What a probe found out about a step whose last attempt is in doubt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe<Out> {
    /// It took effect, and this is its output. Going forward the step is completed with it; an undo
    /// gets it.
    Done(Out),
    /// It did not take effect, and nothing of it is left. Going forward the step runs again; there
    /// is nothing to undo.
    NothingHappened,
    /// It cannot be told. The step runs again, or is undone without its output: as without a probe.
    Unknown,
}

/// What a step runs.
#[derive(Debug, Clone, Copy)]
pub enum Run {
    /// The author's function.
    Custom(RunFn),
    /// The engine, after this says what.
    BuiltIn(BuiltInFn),
}

/// A step's code. Row `n` belongs to row `n` of the declaration's steps.
#[derive(Debug, Clone, Copy)]
pub struct StepCode {
    /// Forward.
    pub run: Run,
    /// Backward, where the author wrote it; a built-in step has its own otherwise.
    pub undo: Option<UndoFn>,
    /// Whether to run at all.
    pub when: Option<WhenFn>,
    /// In place of a run that gave up.
    pub fallback: Option<RunFn>,
    /// Checks the body of the signal that it waits for.
    pub signal: Option<ReadRequestFn>,
    /// Finds out how far an attempt in doubt came, where the author wrote it.
    pub probe: Option<ProbeFn>,
    /// Checks an output that a person supplies, and gives it its canonical form.
    pub read_output: ReadOutputFn,
}

/// A task type: declaration and code.
#[derive(Debug, Clone, Copy)]
pub struct TaskType {
    /// The declaration.
    pub decl: &'static TaskDecl,
    /// The code, row by row.
    pub steps: &'static [StepCode],
    /// Makes the response.
    pub respond: RespondFn,
    /// Checks a request.
    pub read_request: ReadRequestFn,
}

/// What a step may read: the request and the committed outputs of earlier steps, by step name.
#[derive(Debug, Clone, Default)]
pub struct Inputs {
    request: Value,
    outputs: BTreeMap<String, Value>,
    limit: OutputLimit,
}

/// The source name of the request; no step may have it.
pub const REQUEST: &str = "request";

impl Inputs {
    /// Of a request and the outputs committed so far.
    #[must_use]
    pub fn new(request: Value, outputs: BTreeMap<String, Value>) -> Self {
        Self {
            request,
            outputs,
            limit: OutputLimit::default(),
        }
    }

    /// The same, for what is made of them a limit of its own.
    #[must_use]
    pub fn within(self, limit: OutputLimit) -> Self {
        Self { limit, ..self }
    }

    /// Turns what was made of them into what is stored.
    ///
    /// # Errors
    /// As [`output`]; permanent, too, when it is too large.
    pub fn output<T: Serialize>(&self, value: &T) -> StepResult<Value> {
        self.limit.check(value)?;
        output(value)
    }

    /// The value of a source, `request` or a step's name; `None` for a step that was skipped.
    #[must_use]
    pub fn value(&self, source: &str) -> Option<&Value> {
        if source == REQUEST {
            Some(&self.request)
        } else {
            self.outputs.get(source)
        }
    }

    /// Reads a source that is always there.
    ///
    /// # Errors
    /// Permanent, when it is missing or has another shape: the declaration changed under a running
    /// task.
    pub fn read<T: DeserializeOwned>(&self, source: &str) -> StepResult<T> {
        self.read_optional(source)?.ok_or_else(|| {
            StepError::permanent(format_args!(
                "the output of `{source}` is missing: was the declaration changed without a new version?"
            ))
        })
    }

    /// Reads a source that a condition may have skipped.
    ///
    /// # Errors
    /// Permanent, when it has another shape.
    pub fn read_optional<T: DeserializeOwned>(&self, source: &str) -> StepResult<Option<T>> {
        let Some(value) = self.value(source) else {
            return Ok(None);
        };
        T::deserialize(value).map(Some).map_err(|error| {
            StepError::permanent(format_args!(
                "the stored value of `{source}` does not fit the declared type ({error}): was the type changed without a new version?"
            ))
        })
    }
}

/// Turns a step's output into what is stored.
///
/// # Errors
/// Permanent, when the type's `Serialize` refuses, or a text in it holds the character U+0000,
/// which no database column takes.
pub fn output<T: Serialize>(value: &T) -> StepResult<Value> {
    let value = serde_json::to_value(value).map_err(|error| {
        StepError::permanent(format_args!(
            "the output cannot be written as JSON: {error}"
        ))
    })?;
    if depth(&value) > DEPTH_LIMIT {
        return Err(StepError::permanent(format_args!(
            "the output is nested deeper than {DEPTH_LIMIT} levels, and could not be read back"
        )));
    }
    if holds_nul(&value) {
        return Err(StepError::permanent(
            "a text in the output holds the character U+0000, which cannot be stored",
        ));
    }
    Ok(value)
}

/// Well below the limit of the parser that reads it back, which counts the row around it too.
const DEPTH_LIMIT: usize = 64;

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn holds_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(list) => list.iter().any(holds_nul),
        Value::Object(map) => map
            .iter()
            .any(|(key, inner)| key.contains('\0') || holds_nul(inner)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at `{pointer}`")]
pub struct RequestError {
    /// JSON path of the culprit; `.` for the whole.
    pub pointer: String,
    /// What was wrong and what was expected.
    pub message: String,
}

/// Calls code of a declaration that is not awaited (a condition, a response, a built-in step's
/// function) with a net under panics: one of them must not take a decision, or a request, with it.
pub(crate) fn guarded<T>(what: &str, call: impl FnOnce() -> StepResult<T>) -> StepResult<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let said = crate::error::panic_message(panic.as_ref());
        Err(StepError::new(
            crate::error::ErrorClass::Panicked,
            format_args!("{what} panicked: {said}"),
        ))
    })
}

/// Checks that a value is a `T` (a request, or the body of a signal) with no field that `T` does
/// not know, and gives it the form in which it is stored.
///
/// # Errors
/// [`RequestError`] names the first field at fault.
pub fn read_request<T: Serialize + DeserializeOwned>(value: Value) -> Result<Value, RequestError> {
    let mut unknown = None;
    let mut track = serde_path_to_error::Track::new();
    let deserializer = serde_path_to_error::Deserializer::new(value, &mut track);
    let parsed: Result<T, _> = serde_ignored::deserialize(deserializer, |path| {
        unknown.get_or_insert_with(|| path.to_string());
    });
    let request = parsed.map_err(|error| RequestError {
        pointer: track.path().to_string(),
        message: error.to_string(),
    })?;
    if let Some(pointer) = unknown {
        let message = "unknown field: the declared type has no field of this name".to_owned();
        return Err(RequestError { pointer, message });
    }
    serde_json::to_value(&request).map_err(|error| RequestError {
        pointer: ".".to_owned(),
        message: error.to_string(),
    })
}

/// The task types that a process knows.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    types: BTreeMap<(&'static str, u32), TaskType>,
    /// Worked out once: every claim compares one.
    definitions: BTreeMap<(&'static str, u32), String>,
    policies: Vec<NamedPolicy>,
    /// By name.
    pub(crate) schedules: BTreeMap<String, ScheduleSpec>,
    /// Services that steps call, and the types that call each, as far as they were named.
    services: BTreeMap<&'static str, BTreeSet<&'static str>>,
    /// By the type's name.
    pub(crate) orphans: BTreeMap<String, OrphanRule>,
    pub(crate) other_orphans: Option<OrphanRule>,
    /// By the type's name.
    pub(crate) retention: BTreeMap<String, Retention>,
}

/// Two declarations that cannot stand side by side.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// The same name and version twice.
    #[error(
        "task type `{name}` version {version} is registered twice: give one of them another name or version"
    )]
    Twice {
        /// Its name.
        name: &'static str,
        /// Its version.
        version: u32,
    },
    /// Two names, one route.
    #[error(
        "task types `{first}` and `{second}` both have the route `{route}`: rename one of them"
    )]
    SameRoute {
        /// One name.
        first: &'static str,
        /// The other.
        second: &'static str,
        /// What both become.
        route: String,
    },
}

impl Registry {
    /// With no type yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a task type; panics where it collides with another, because that is a mistake in the
    /// program.
    ///
    /// # Panics
    /// When [`try_with`](Self::try_with) would err.
    #[must_use]
    pub fn with<T: DistributedTask>(self) -> Self {
        match self.try_with(T::task_type()) {
            Ok(registry) => registry,
            Err(error) => panic!("{error}"),
        }
    }

    /// Adds a task type.
    ///
    /// # Errors
    /// When name and version, or the route, are taken by another one.
    pub fn try_with(mut self, task_type: TaskType) -> Result<Self, RegistryError> {
        let (name, version) = (task_type.decl.name, task_type.decl.version);
        if let Some(other) = self
            .iter()
            .find(|other| other.decl.name != name && other.decl.route() == task_type.decl.route())
        {
            let (first, second, route) = (other.decl.name, name, task_type.decl.route());
            return Err(RegistryError::SameRoute {
                first,
                second,
                route,
            });
        }
        self.definitions
            .insert((name, version), task_type.decl.definition_hash());
        if self.types.insert((name, version), task_type).is_some() {
            return Err(RegistryError::Twice { name, version });
        }
        Ok(self)
    }

    /// Makes a policy that code outside of tasks uses known by its name, so that settings may
    /// change it.
    #[must_use]
    pub fn with_policy(mut self, policy: NamedPolicy) -> Self {
        self.policies.push(policy);
        self
    }

    /// Says that steps of these types call a service of this name, so that a process can tell at
    /// its start that the settings do not have it. Calls need no such word.
    #[must_use]
    pub fn with_service(mut self, name: &'static str) -> Self {
        self.services.entry(name).or_default();
        self
    }

    /// Adds a task type whose steps call these services: [`with`](Self::with) and
    /// [`with_service`](Self::with_service), and a process can tell which types cannot run without
    /// a service that the settings do not have.
    ///
    /// # Panics
    /// As `with` does.
    #[must_use]
    pub fn with_calls<T: DistributedTask>(mut self, services: &[&'static str]) -> Self {
        for &service in services {
            self.services
                .entry(service)
                .or_default()
                .insert(T::task_type().decl.name);
        }
        self.with::<T>()
    }

    /// The services that steps were said to call, by name.
    pub fn services(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.services.keys().copied()
    }

    /// The services that steps of a type were said to call, by name.
    pub fn services_of<'a>(
        &'a self,
        task_type: &'a TaskType,
    ) -> impl Iterator<Item = &'static str> + 'a {
        self.services
            .iter()
            .filter(|(_, types)| types.contains(task_type.decl.name))
            .map(|(service, _)| *service)
    }

    /// The policies of code outside of tasks.
    pub fn policies(&self) -> impl Iterator<Item = &NamedPolicy> {
        self.policies.iter()
    }

    /// The type of this name and version.
    #[must_use]
    pub fn get(&self, name: &str, version: u32) -> Option<TaskType> {
        self.types
            .iter()
            .find(|((n, v), _)| *n == name && *v == version)
            .map(|(_, task_type)| *task_type)
    }

    /// The type under which a task was submitted: name, version and definition are the same. A
    /// changed declaration under the same version would run the wrong code on the wrong outputs.
    #[must_use]
    pub fn of(&self, task: &TaskRow) -> Option<TaskType> {
        let task_type = self.get(&task.task_type, task.version)?;
        (self.definition_of(&task_type) == task.definition_hash).then_some(task_type)
    }

    /// Digest of a registered type's declaration.
    #[must_use]
    pub fn definition_of(&self, task_type: &TaskType) -> &str {
        self.definitions
            .get(&(task_type.decl.name, task_type.decl.version))
            .map_or("", String::as_str)
    }

    /// What a host of this program can run.
    #[must_use]
    pub fn known(&self) -> Vec<KnownType> {
        self.iter()
            .map(|known| KnownType {
                name: known.decl.name.to_owned(),
                version: known.decl.version,
                definition: self.definition_of(known).to_owned(),
            })
            .collect()
    }

    /// The newest version of the type with this route.
    #[must_use]
    pub fn by_route(&self, route: &str) -> Option<TaskType> {
        self.types
            .values()
            .rfind(|task_type| task_type.decl.route() == route)
            .copied()
    }

    /// The queues on which steps of `host` are dispatched, of all types.
    #[must_use]
    pub fn queues(&self, host: Host) -> Vec<QueueName> {
        self.iter()
            .map(|task_type| task_type.decl.queue_of(host))
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    /// All of them, by name and version.
    pub fn iter(&self) -> impl Iterator<Item = &TaskType> {
        self.types.values()
    }
}

/// The newest version of the type with this declared name.
pub(crate) fn newest(registry: &Registry, name: &str) -> Option<TaskType> {
    registry
        .types
        .values()
        .rfind(|task_type| task_type.decl.name == name)
        .copied()
}

impl TaskType {
    /// Position of a step in declaration and code.
    #[must_use]
    pub fn index_of(&self, no: StepNo) -> Option<usize> {
        self.decl.steps.iter().position(|step| step.no == no)
    }
}
