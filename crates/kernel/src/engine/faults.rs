//! Planted faults: for tests, and for the demonstrations of the command line. Nothing plants one by
//! itself.

use crate::error::{StepError, StepResult};
use crate::ports::{
    ByteStream, HttpServices, ObjectError, ObjectInfo, Objects, ServiceAnswer, ServiceError,
    ServiceRequest,
};
use async_trait::async_trait;
use counterstep_contracts::{Attempt, LogPart};
use futures::future::Either;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What is to go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// Permanent error before the step's code runs.
    FailBefore,
    /// Permanent error after the step's code has done its work, so that there is something to undo.
    FailAfter,
    /// Permanent error in the middle of the step's work: the first object that it stores breaks
    /// off. A step that stores none has done its work.
    FailHalfWay,
    /// Transient error after the step's code has done its work.
    FailTransiently,
    /// No service that the code calls gives an answer. What the code makes of that is its result.
    NoAnswer,
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
        let broken =
            futures::stream::once(async { Err(io::Error::other("planted: breaks off half-way")) });
        let half = body
            .map_ok(|bytes| bytes.slice(..bytes.len().div_ceil(2)))
            .take(1);
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

/// Services of which none gives an answer to code that this fault strikes.
#[derive(Debug)]
struct Silent(Fault);

#[async_trait]
impl HttpServices for Silent {
    async fn call(&self, _: ServiceRequest) -> Result<ServiceAnswer, ServiceError> {
        self.0.strike();
        Err(ServiceError::Unanswered("planted: no answer".to_owned()))
    }

    fn knows(&self, _: &str) -> bool {
        true
    }
}

/// The services that code may call which this fault strikes.
pub(crate) fn services_amid(
    fault: Option<&Fault>,
    services: Arc<dyn HttpServices>,
) -> Arc<dyn HttpServices> {
    match fault.filter(|fault| fault.kind == FaultKind::NoAnswer) {
        Some(fault) => Arc::new(Silent(fault.clone())),
        None => services,
    }
}

/// Work, and what this fault makes of it.
pub(crate) fn work_amid<'a, T>(
    fault: Option<Fault>,
    work: impl Future<Output = StepResult<T>> + Send + 'a,
) -> impl Future<Output = StepResult<T>> + Send + 'a
where
    T: Send + 'a,
{
    // No async function: its future would hold the work twice.
    match fault {
        None => Either::Left(work),
        Some(fault) => Either::Right(Box::pin(async move {
            fault.before_work().await?;
            fault.after_work(work.await).await
        })),
    }
}

/// A planted fault. Its clones share the count of its strikes.
#[derive(Debug, Clone)]
pub struct Fault {
    /// At this step.
    pub step: String,
    /// Running it, undoing it, or finding out how far it came.
    pub part: LogPart,
    /// On this attempt only; `None`: on each. Of a probe: on this try, the first of which is 1.
    pub attempt: Option<Attempt>,
    /// Kind of the fault.
    pub kind: FaultKind,
    struck: Arc<AtomicUsize>,
    hanging: Arc<AtomicUsize>,
}

impl Fault {
    /// On each attempt of a step.
    #[must_use]
    pub fn at(step: impl Into<String>, kind: FaultKind) -> Self {
        Self {
            step: step.into(),
            part: LogPart::Run,
            attempt: None,
            kind,
            struck: Arc::default(),
            hanging: Arc::default(),
        }
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
        self.part = LogPart::Undo;
        self
    }

    /// In its probe.
    #[must_use]
    pub const fn in_probe(mut self) -> Self {
        self.part = LogPart::Probe;
        self
    }

    /// Whether it strikes this attempt, or this try, of a part of the step.
    #[must_use]
    pub fn strikes(&self, step: &str, part: LogPart, attempt: Attempt) -> bool {
        self.step == step && self.part == part && self.attempt.is_none_or(|only| only == attempt)
    }

    /// How often it has struck in this process. One that strikes behind the work counts when the
    /// work is done.
    #[must_use]
    pub fn struck(&self) -> usize {
        self.struck.load(Ordering::SeqCst)
    }

    /// How many attempts hang in it now. One leaves the count when its code is dropped.
    #[must_use]
    pub fn hanging(&self) -> usize {
        self.hanging.load(Ordering::SeqCst)
    }

    async fn hang<T>(&self) -> T {
        struct Hanging(Arc<AtomicUsize>);
        impl Drop for Hanging {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        self.hanging.fetch_add(1, Ordering::SeqCst);
        let _hanging = Hanging(self.hanging.clone());
        std::future::pending().await
    }

    fn strike(&self) {
        self.struck.fetch_add(1, Ordering::SeqCst);
    }

    /// What it does before the work of an execution that it strikes.
    async fn before_work(&self) -> StepResult<()> {
        match self.kind {
            FaultKind::FailBefore => {
                self.strike();
                Err(StepError::permanent("planted: fails before its work"))
            }
            FaultKind::Panic => {
                self.strike();
                panic!("planted: panics")
            }
            FaultKind::HangBefore => {
                self.strike();
                self.hang().await
            }
            FaultKind::Block => {
                self.strike();
                loop {
                    std::thread::park();
                }
            }
            FaultKind::FailHalfWay
            | FaultKind::FailAfter
            | FaultKind::FailTransiently
            | FaultKind::NoAnswer
            | FaultKind::Hang => Ok(()),
        }
    }

    /// What it makes of the result of the work.
    async fn after_work<T>(&self, result: StepResult<T>) -> StepResult<T> {
        let error = match self.kind {
            FaultKind::FailHalfWay => StepError::permanent("planted: breaks off half-way"),
            FaultKind::FailAfter => StepError::permanent("planted: fails after its work"),
            FaultKind::FailTransiently => StepError::transient("planted: fails for now"),
            FaultKind::Hang => {
                self.strike();
                return self.hang().await;
            }
            FaultKind::FailBefore
            | FaultKind::NoAnswer
            | FaultKind::Panic
            | FaultKind::HangBefore
            | FaultKind::Block => return result,
        };
        self.strike();
        Err(error)
    }
}
