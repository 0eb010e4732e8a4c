//! What the code that `#[distributed_task]` writes refers to: traits whose bounds are the checks
//! that tokens cannot make. Owned by the macro; nothing else uses it, and nothing in it runs a
//! step.
//!
//! A check is a bound whose `Self` is the type the author wrote, so that the compiler points at
//! that type, and whose message carries a diagnostic code (`BuiltInStep` carries one too). The
//! codes are listed in `counterstep_macros::code`.

mod policies;

use crate::call::HttpCall;
use crate::context::StepContext;
use crate::error::{StepError, StepResult, UndoResult};
use crate::task::{self, Inputs, Probe, SchemaFn};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::fmt::Display;
use std::marker::PhantomData;
use std::panic::UnwindSafe;

pub use policies::{auto_disable, breaker, limit, policy};

pub use counterstep_contracts::declaration::{InputDecl, NamedBreaker, NamedPolicy};
pub use futures::future::BoxFuture;
pub use serde_json::Value;

/// Who reads: the run of a step. `S` is the step's marker.
#[derive(Debug)]
pub struct RunOf<S>(PhantomData<S>);
/// Who reads: the undo of a step.
#[derive(Debug)]
pub struct UndoOf<S>(PhantomData<S>);
/// Who reads: the condition of a step.
#[derive(Debug)]
pub struct WhenOf<S>(PhantomData<S>);
/// Who reads: the fallback of a step.
#[derive(Debug)]
pub struct FallbackOf<S>(PhantomData<S>);
/// Who reads: the probe of a step.
#[derive(Debug)]
pub struct ProbeOf<S>(PhantomData<S>);
/// Who reads: the response. `S` is the marker of the task's request, so that two tasks do not share
/// a reader.
#[derive(Debug)]
pub struct RespondOf<S>(PhantomData<S>);

/// The reader runs where the value was made.
#[derive(Debug)]
pub struct SameHost;
/// The reader runs, or may run, on another host.
#[derive(Debug)]
pub struct OtherHost;

/// The value is there whenever the reader runs.
#[derive(Debug)]
pub struct Always;
/// The value is missing where a condition skipped its step.
#[derive(Debug)]
pub struct Sometimes;

/// A marker of the request or of a step, and the type it gives.
pub trait Source {
    /// The type.
    type Output;
}

/// `Reader` may read this type from `From`. `From` is inferred: it is the only source of that type,
/// or the compiler says that it cannot choose.
#[diagnostic::on_unimplemented(
    message = "CS0034: neither the request nor an earlier step gives `{Self}`",
    label = "nothing that runs earlier gives this type",
    note = "expected the type of the request or of the output of a step with a lower number, outside the own group",
    note = "change the type, or number the step that gives it before this one"
)]
pub trait Given<Reader, From> {
    /// `request`, or the step's name.
    const SOURCE: &'static str;
    /// [`Always`] or [`Sometimes`].
    type Presence;
    /// [`SameHost`] or [`OtherHost`].
    type Way;
}

/// This type is what the step `S` gives.
#[diagnostic::on_unimplemented(
    message = "CS0035: this parameter is named like an earlier step, but takes `{Self}`",
    label = "that step gives `{Output}`",
    note = "a parameter that is named like a step reads that step",
    note = "take `&{Output}`, or give the parameter another name to read by type"
)]
pub trait NamedInput<Output> {}
impl<T> NamedInput<T> for T {}

/// A value of this type means the same on every host. A blanket impl over a std auto trait that
/// `ScratchFile` opts out of, so that whatever holds a scratch file is out as well.
#[diagnostic::on_unimplemented(
    message = "CS0036: `{Self}` must not leave the host that made it",
    label = "this is read on another host than the one that makes it",
    note = "it holds a `ScratchFile`, or something else that is not `UnwindSafe`; local files never cross hosts",
    note = "read it on the same host, or upload the file in a step there and read the stored file",
    note = "an undo may run on any host; requests and responses travel too"
)]
pub trait CrossesHosts {}
#[diagnostic::do_not_recommend]
impl<T: UnwindSafe> CrossesHosts for T {}

/// A value of this type can go the `Way` from its maker to its reader.
#[diagnostic::on_unimplemented(
    message = "CS0036: `{Self}` must not leave the host that made it",
    label = "this is read on another host than the one that makes it",
    note = "it holds a `ScratchFile`, or something else that is not `UnwindSafe`; local files never cross hosts",
    note = "read it on the same host, or upload the file in a step there and read the stored file"
)]
pub trait Reaches<Way> {}
impl<T> Reaches<SameHost> for T {}
impl<T: CrossesHosts> Reaches<OtherHost> for T {}

/// A value that is read as `&T`.
#[diagnostic::on_unimplemented(
    message = "CS0037: the step that gives `{Self}` has a `when`, so there may be none",
    label = "this may be missing",
    note = "take `Option<&{Self}>` and say what happens without it"
)]
pub trait AlwaysThere<Presence> {}
impl<T> AlwaysThere<Always> for T {}

/// A value that is read as `Option<&T>`.
#[diagnostic::on_unimplemented(
    message = "CS0038: `{Self}` is always there: what gives it has no `when`",
    label = "this is never missing",
    note = "take `&{Self}`"
)]
pub trait MayBeMissing<Presence> {}
impl<T> MayBeMissing<Sometimes> for T {}

/// What the undo of a step takes as that step's output.
#[diagnostic::on_unimplemented(
    message = "CS0039: this undo takes `Option<{Self}>`, but its step gives `{Output}`",
    label = "the step gives `{Output}`",
    note = "take `Option<{Output}>`: the step's own output, `None` where it started and its output is unknown"
)]
pub trait UndoneOutput<Output> {}
impl<T> UndoneOutput<T> for T {}

/// What the function of a custom step returns.
#[diagnostic::on_unimplemented(
    message = "CS0040: a custom step cannot return `{Self}`",
    label = "expected `StepResult<Output>`",
    note = "return `StepResult<Output>`, and say with `.transient(..)` or `.permanent(..)` what an error means"
)]
pub trait StepReturn {
    /// What the step gives to later steps.
    type Output;
    /// The result itself.
    ///
    /// # Errors
    /// Those of the step.
    fn into_result(self) -> StepResult<Self::Output>;
}
impl<T> StepReturn for Result<T, StepError> {
    type Output = T;
    fn into_result(self) -> StepResult<T> {
        self
    }
}

/// A type whose values can be stored in a step's row.
#[diagnostic::on_unimplemented(
    message = "CS0041: `{Self}` cannot be the output of a step",
    label = "this cannot be stored",
    note = "an output is written to the step's row and read from it: it must be `Serialize`, `DeserializeOwned`, \
            `Send`, `Sync` and `'static`",
    note = "derive `serde::Serialize` and `serde::Deserialize` for it"
)]
pub trait Storable: Serialize + DeserializeOwned + Send + Sync + 'static {}
#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Storable for T {}

/// What the function of an undo returns.
#[diagnostic::on_unimplemented(
    message = "CS0042: an undo cannot return `{Self}`",
    label = "expected `UndoResult`",
    note = "return `UndoResult`: \"it is not there\" is `Ok(())`, everything else is a `StepError`"
)]
pub trait UndoReturn {
    /// The result itself.
    ///
    /// # Errors
    /// Those of the undo.
    fn into_result(self) -> UndoResult;
}
impl UndoReturn for UndoResult {
    fn into_result(self) -> UndoResult {
        self
    }
}

/// What a plain function that is an undo returns.
#[diagnostic::on_unimplemented(
    message = "CS0058: a plain function that returns `{Self}` is no undo",
    label = "expected `HttpCall<()>`",
    note = "return an `HttpCall`, which the engine sends, or make it an `async fn` that returns `UndoResult`"
)]
pub trait UndoCall: Sized {
    /// Sends it.
    fn send(self, ctx: &StepContext) -> BoxFuture<'_, UndoResult>;
}
impl<T: Storable> UndoCall for HttpCall<T> {
    fn send(self, ctx: &StepContext) -> BoxFuture<'_, UndoResult> {
        Box::pin(async move { ctx.call(self).await.map(drop) })
    }
}

/// What the fallback of a step gives.
#[diagnostic::on_unimplemented(
    message = "CS0051: this fallback gives `{Self}`, but its step gives `{Output}`",
    label = "the step gives `{Output}`",
    note = "a fallback's output takes the place of its step's: return `StepResult<{Output}>`"
)]
pub trait FallbackOutput<Output> {}
impl<T> FallbackOutput<T> for T {}

/// What the probe of a step returns, where the step gives `Output`.
#[diagnostic::on_unimplemented(
    message = "CS0056: a probe cannot return `{Self}`, its step gives `{Output}`",
    label = "expected `StepResult<Probe<{Output}>>`",
    note = "return `StepResult<Probe<{Output}>>`: `Probe::Done(output)`, `Probe::NothingHappened` or `Probe::Unknown`"
)]
pub trait ProbeReturn<Output> {
    /// The result with the output as it is stored.
    ///
    /// # Errors
    /// Those of the probe.
    fn into_found(self) -> StepResult<Probe<Value>>;
}
impl<T: Storable> ProbeReturn<T> for StepResult<Probe<T>> {
    fn into_found(self) -> StepResult<Probe<Value>> {
        Ok(match self? {
            Probe::Done(output) => Probe::Done(task::output(&output)?),
            Probe::NothingHappened => Probe::NothingHappened,
            Probe::Unknown => Probe::Unknown,
        })
    }
}

/// What `respond` returns.
#[diagnostic::on_unimplemented(
    message = "CS0044: `respond` returns `{Self}`, but the declaration says `type Response = {Response}`",
    label = "expected `{Response}`",
    note = "return the type that `type Response` names"
)]
pub trait ResponseReturn<Response> {}
impl<T> ResponseReturn<T> for T {}

/// The name of the source that a parameter reads by its type, as `&T`.
#[must_use]
pub const fn by_type<T, Reader, From>() -> &'static str
where
    T: Given<Reader, From> + Reaches<<T as Given<Reader, From>>::Way>,
    T: AlwaysThere<<T as Given<Reader, From>>::Presence>,
{
    <T as Given<Reader, From>>::SOURCE
}

/// The name of the source that a parameter reads by its type, as `Option<&T>`.
#[must_use]
pub const fn by_type_optional<T, Reader, From>() -> &'static str
where
    T: Given<Reader, From> + Reaches<<T as Given<Reader, From>>::Way>,
    T: MayBeMissing<<T as Given<Reader, From>>::Presence>,
{
    <T as Given<Reader, From>>::SOURCE
}

/// The name of the step that a parameter reads by its own name.
#[must_use]
pub const fn by_name<T, From: Source, Way>(source: &'static str) -> &'static str
where
    T: NamedInput<From::Output> + Reaches<Way>,
{
    source
}

/// Checks the type of the request and that of the response.
pub const fn travels<T: CrossesHosts>() {}

/// Checks what an undo takes as its step's output.
pub const fn undoes<T: UndoneOutput<S::Output>, S: Source>() {}

/// Refuses, while compiling, a built-in step that says nothing of an undo and that the engine
/// cannot undo.
#[track_caller]
pub const fn undone_by_the_engine(is_undone: bool) {
    assert!(
        is_undone,
        "CS0057: this step has an effect outside that the engine cannot undo; say `undo = function`, `#[undo(step)]` on \
         another function, or `no_undo = \"reason\"`; a call that only reads is waived too"
    );
}

/// Sends the call that an undo is.
pub fn undo_call<R: UndoCall>(call: R, ctx: &StepContext) -> BoxFuture<'_, UndoResult> {
    call.send(ctx)
}

/// Checks what a fallback gives.
pub const fn falls_back<T: FallbackOutput<S::Output>, S: Source>() {}

/// Checks what `respond` returns.
pub const fn responds<T: ResponseReturn<Response>, Response>() {}

/// What a step's function gives.
///
/// # Errors
/// Those of the step.
pub fn step_result<R: StepReturn<Output = T>, T>(result: R) -> StepResult<T> {
    result.into_result()
}

/// How a step's output is stored, and read from what a person supplies.
pub struct Output<T> {
    /// [`stored`].
    pub stored: fn(&T, &Inputs) -> StepResult<Value>,
    /// [`supplied`].
    pub supplied: task::ReadOutputFn,
}

impl<T> fmt::Debug for Output<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::any::type_name::<Self>())
    }
}

/// The only place of a step's output that asks whether it can be stored.
#[must_use]
pub const fn output<T: Storable>() -> Output<T> {
    Output {
        stored: stored::<T>,
        supplied: supplied::<T>,
    }
}

/// What a step gives, as it is stored.
///
/// # Errors
/// Permanent, when it cannot be written, or is too large.
pub fn stored<T: Storable>(output: &T, inputs: &Inputs) -> StepResult<Value> {
    inputs.output(output)
}

/// What a person supplies in the place of an output, as it is stored.
///
/// # Errors
/// [`task::RequestError`] names the first field that does not fit.
pub fn supplied<T: Storable>(output: Value) -> Result<Value, task::RequestError> {
    task::read_request::<T>(output)
}

/// What a probe gives.
///
/// # Errors
/// Those of the probe; permanent, when its output cannot be written.
pub fn probed<R: ProbeReturn<S::Output>, S: Source>(result: R) -> StepResult<Probe<Value>> {
    result.into_found()
}

/// A label's value.
pub fn label<T: Display + ?Sized>(value: &T) -> String {
    value.to_string()
}

/// What an undo gives.
///
/// # Errors
/// Those of the undo.
pub fn undo_result<R: UndoReturn>(result: R) -> UndoResult {
    result.into_result()
}

/// The output of the step that is to be undone.
///
/// # Errors
/// Permanent, when it has another shape: the declaration changed under a running task.
pub fn undone_output<T: DeserializeOwned>(
    step: &str,
    output: Option<Value>,
) -> StepResult<Option<T>> {
    output.map(serde_json::from_value).transpose().map_err(|error| {
        StepError::permanent(format_args!(
            "the stored output of `{step}` does not fit what its undo takes ({error}): was the type changed without \
             a new version?"
        ))
    })
}

/// Finds the schema of a type that may have none: the constant of the type itself, where it has one, goes
/// before that of [`NoSchema`].
#[derive(Debug)]
pub struct SchemaOf<T>(PhantomData<T>);

impl<T: JsonSchema> SchemaOf<T> {
    /// Makes the schema.
    pub const SCHEMA: Option<SchemaFn> = Some(|generator| generator.subschema_for::<T>());
}

/// What [`SchemaOf`] finds for a type without a schema.
pub trait NoSchema {
    /// The type has no schema.
    const SCHEMA: Option<SchemaFn> = None;
}
impl<T> NoSchema for SchemaOf<T> {}
