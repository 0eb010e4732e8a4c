//! What an author of tasks touches: task types, contexts, errors, built-in steps, schedules, and
//! retry and breaker policies.
//!
//! Owns what a step is and what it can say, and the ports that its context needs. Knows no state, no
//! row and no engine: what becomes of a step is the kernel's.

// So that what `#[distributed_task]` writes also compiles inside this crate.
extern crate self as counterstep_steps;

pub mod blocking;
pub mod breaker;
pub mod builtin;
pub mod call;
pub mod cancel;
pub mod children;
pub mod context;
pub mod declare;
pub mod digest;
pub mod error;
#[doc(hidden)]
pub mod guards;
mod json;
pub mod keys;
pub mod log;
pub mod orphans;
pub mod output_limit;
pub mod policies;
pub mod ports;
pub mod progress;
mod remote;
pub mod resilience;
pub mod retry_decision;
pub mod runtime;
pub mod schedule;
pub mod scratch;
mod services;
pub mod sql;
pub mod state;
pub mod task;
pub mod times;
pub mod traces;
pub mod verified;
pub mod waits;
#[cfg(feature = "zip")]
mod zip;

/// What a declaration of a task type needs, in one import.
pub mod prelude {
    pub use crate::orphans::{Orphan, OrphanAction, OrphanRule};
    // The derive refers to its crate by this name: programs need no dependency of their own.
    pub use crate::schemars::{self, JsonSchema};
    pub use crate::{
        AutoDisable, AwaitSignal, AwaitTask, Blocking, BranchOutcome, Branches, BreakerPolicy,
        CancelReason, ChildFailure, ChildOutcome, Classify, DistributedTask, EachOutcome, FileName,
        ForEach, HttpCall, IntoStepError, Limit, LogLevel, MaybeSignal, Probe, Registry,
        RetryPolicy, Schedule, ScratchDraft, ScratchFile, Sleep, Slept, Sql, State, StepContext,
        StepError, StepResult, StoredFile, StoredFiles, TableRight, UndoResult, UploadMany,
        UploadOne, UploadedFile,
    };
}

pub use blocking::{Blocking, ScratchWriter, SourceReader};
pub use builtin::{BuiltInStep, FileSource, Upload, UploadMany, UploadOne, Work};
pub use call::HttpCall;
pub use cancel::{CancelReason, CancelToken};
pub use children::{
    AwaitTask, BranchOutcome, Branches, ChildFailure, ChildOutcome, EachOutcome, ForEach,
};
pub use context::{Execution, ObjectsContext, StepContext};
pub use counterstep_contracts as contracts;
pub use counterstep_contracts::{
    AutoDisable, BreakerPolicy, FileName, Limit, LogLevel, RetryPolicy, StoredFile, StoredFiles,
    UploadedFile,
};
pub use error::{Classify, ErrorClass, IntoStepError, StepError, StepResult, UndoResult};
pub use log::TaskLog;
pub use progress::Meter;
pub use resilience::{Classified, Resilient, RunError};
pub use runtime::Runtime;
pub use schedule::Schedule;
pub use schemars;
pub use scratch::{ScratchDraft, ScratchFile};
pub use sql::{Sql, SqlRefused, SqlValue};
pub use state::State;
pub use task::{DistributedTask, Inputs, Probe, Registry, TableRight, TableRights, TaskType};
pub use times::DbTime;
pub use waits::{AwaitSignal, MaybeSignal, Sleep, Slept};
