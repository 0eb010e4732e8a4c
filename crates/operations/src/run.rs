//! An operation as something that runs: its function, and all of them as one list without their types. Must not know how a
//! caller has asked.

use crate::{Cx, Refused};
use counterstep_contracts::ProblemCode;
use counterstep_contracts::operation::{BadTarget, Declared, Operation, Target};
use counterstep_steps::task::read_request;
use futures::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt;

/// An operation that runs.
pub trait Run: Operation {
    /// Refuses a target that this process does not know, before the input is read.
    ///
    /// # Errors
    /// Where it is unknown.
    fn find(_cx: &Cx, _target: &Self::Target) -> Result<(), Refused> {
        Ok(())
    }

    /// Does what it asks for. One that changes something is not dropped before its end.
    fn run(
        cx: Cx,
        target: Self::Target,
        input: Self::Input,
    ) -> impl Future<Output = Result<Self::Output, Refused>> + Send;
}

/// What an operation answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// The path to what it has made.
    pub location: Option<String>,
    /// JSON, as its type writes it: a `Value` in between would sort the fields.
    pub body: Option<Vec<u8>>,
}

/// Reads what the segments of a path name.
type OnTarget = fn(&[&str]) -> Result<Box<dyn Targeted>, Refused>;

/// An operation that runs, without its types.
#[derive(Clone, Copy)]
pub struct Running {
    /// Its declaration.
    pub declared: Declared,
    on: OnTarget,
}

/// An operation on what an address has named.
pub trait Targeted: Send + Sync {
    /// Refuses a target that this process does not know.
    ///
    /// # Errors
    /// Where it is unknown.
    fn find(&self, cx: &Cx) -> Result<(), Refused>;

    /// Does what it asks for. `input` is null, where it takes none.
    fn run(self: Box<Self>, cx: Cx, input: Value) -> BoxFuture<'static, Result<Answer, Refused>>;
}

struct On<O: Run>(O::Target);

impl Running {
    /// This operation.
    #[must_use]
    pub const fn of<O: Run>() -> Self {
        Self {
            declared: Declared::of::<O>(),
            on: |segments| Ok(Box::new(On::<O>(O::Target::parse(segments)?))),
        }
    }

    /// The operation on what the segments of its path name, those that vary, in its order.
    ///
    /// # Errors
    /// Where a segment has another form than it must have.
    pub fn on(&self, segments: &[&str]) -> Result<Box<dyn Targeted>, Refused> {
        (self.on)(segments)
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.declared.about.id)
    }
}

impl<O: Run> Targeted for On<O> {
    fn find(&self, cx: &Cx) -> Result<(), Refused> {
        O::find(cx, &self.0)
    }

    fn run(self: Box<Self>, cx: Cx, input: Value) -> BoxFuture<'static, Result<Answer, Refused>> {
        Box::pin(async move {
            let output = O::run(cx, self.0, read_input(input)?).await?;
            let body = (size_of::<O::Output>() > 0).then(|| serde_json::to_vec(&output));
            let body = body.transpose();
            let other = O::OTHER.filter(|it| (it.is_it)(&output));
            Ok(Answer {
                status: other.map_or(O::ABOUT.status, |it| it.status),
                location: O::location(&output),
                body: body.map_err(|error| Refused::internal("writing an answer", &error))?,
            })
        })
    }
}

/// A body as its declared type, with no field that the type does not know.
///
/// # Errors
/// Names the first field at fault.
pub fn read_input<T: Serialize + DeserializeOwned>(input: Value) -> Result<T, Refused> {
    let input = read_request::<T>(input).map_err(|error| {
        // A field that may be missing is a place of its own in pointers, which tells clients nothing.
        crate::invalid(error.message).at(error.pointer.replace(".?", ""))
    })?;
    serde_json::from_value(input).map_err(|error| Refused::internal("reading a body", &error))
}

impl From<BadTarget> for Refused {
    fn from(bad: BadTarget) -> Self {
        Self::new(ProblemCode::MalformedParameter, bad.detail).at(bad.pointer)
    }
}
