//! Planted faults: for tests, and for the demonstrations of the command line. Nothing plants one by itself.

use crate::context::Execution;
use crate::ports::{ByteStream, ObjectError, ObjectInfo, Objects};
use async_trait::async_trait;
use counterstep_contracts::{Attempt, Direction};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use std::io;
use std::sync::Arc;

/// What is to go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// Permanent error before the step's code runs.
    FailBefore,
    /// Permanent error after the step's code has done its work, so that there is something to undo.
    FailAfter,
    /// Permanent error in the middle of the step's work: the first object that it stores breaks off. A step that stores
    /// none has done its work.
    FailHalfWay,
    /// Transient error after the step's code has done its work.
    FailTransiently,
    /// Panic before the step's code runs.
    Panic,
    /// The step never gets to its work, and never returns; it ignores its cancel token.
    HangBefore,
    /// The step never gets to its work, and never lets go of its thread.
    Block,
    /// The step does its work and then never returns; it ignores its cancel token.
    Hang,
}

/// Objects of which none is ever stored to its end.
#[derive(Debug)]
pub(crate) struct BreakOff(pub(crate) Arc<dyn Objects>);

#[async_trait]
impl Objects for BreakOff {
    async fn put(&self, bucket: &str, key: &str, body: ByteStream) -> Result<u64, ObjectError> {
        let broken = futures::stream::once(async { Err(io::Error::other("planted: breaks off half-way")) });
        let half = body.map_ok(|bytes| bytes.slice(..bytes.len().div_ceil(2))).take(1);
        self.0.put(bucket, key, half.chain(broken).boxed()).await
    }

    async fn get(&self, bucket: &str, key: &str) -> Result<ByteStream, ObjectError> {
        self.0.get(bucket, key).await
    }

    async fn delete_prefix(&self, prefix: &str) -> Result<u64, ObjectError> {
        self.0.delete_prefix(prefix).await
    }

    fn list(&self, prefix: &str) -> BoxStream<'static, Result<ObjectInfo, ObjectError>> {
        self.0.list(prefix)
    }
}

/// A planted fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// At this step.
    pub step: String,
    /// Running it, or undoing it.
    pub direction: Direction,
    /// On this attempt only; `None`: on each.
    pub attempt: Option<Attempt>,
    /// What.
    pub kind: FaultKind,
}

impl Fault {
    /// On each attempt of a step.
    #[must_use]
    pub fn at(step: impl Into<String>, kind: FaultKind) -> Self {
        Self { step: step.into(), direction: Direction::Forward, attempt: None, kind }
    }

    /// On this attempt only.
    #[must_use]
    pub const fn on_attempt(mut self, attempt: i32) -> Self {
        self.attempt = Some(Attempt(attempt));
        self
    }

    /// While undoing.
    #[must_use]
    pub const fn in_undo(mut self) -> Self {
        self.direction = Direction::Undo;
        self
    }

    /// Whether it strikes this execution.
    #[must_use]
    pub fn strikes(&self, execution: &Execution) -> bool {
        self.step == execution.step
            && self.direction == execution.direction
            && self.attempt.is_none_or(|attempt| attempt == execution.attempt)
    }
}
