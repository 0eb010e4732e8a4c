//! The engine of Counterstep.
//!
//! Owns the judge, the plan, the turn, compensation, recovery, and the ports that they run on.
//! Knows no database, broker, cache or web framework, and takes no time, chance or thread but
//! through a port.

// So that what `#[distributed_task]` writes also compiles inside this crate.
extern crate self as counterstep_kernel;

pub mod audit;
pub mod breaker;
pub mod builtin;
pub mod call;
pub mod cancel;
pub mod client;
pub mod context;
pub mod declare;
pub mod disable;
pub mod documents;
mod doubt;
pub mod draft;
pub mod engine;
pub mod error;
pub mod events;
pub mod faults;
pub mod fsck;
pub mod host;
pub mod intents;
pub mod isolation;
pub mod journal;
pub mod keys;
pub mod losses;
pub mod operator;
pub mod orphans;
mod outbox;
pub mod output_limit;
pub mod plan;
mod poison;
pub mod policies;
pub mod policy;
pub mod ports;
pub mod presence;
pub mod progress;
mod quarantine;
pub mod record;
pub mod recovery;
pub mod relay;
pub mod repair;
pub mod resilience;
pub mod retention;
pub mod saga;
pub mod schedule;
pub mod scratch;
pub mod sql;
pub mod status;
pub mod task;
pub mod times;
pub mod transition;
pub mod turn;
pub mod verified;
pub mod waits;

pub use builtin::{BuiltInStep, FileSource, Upload, UploadMany, UploadOne, Work};
pub use call::HttpCall;
pub use cancel::{CancelReason, CancelToken};
pub use context::{Execution, ObjectsContext, StepContext};
pub use counterstep_contracts as contracts;
pub use counterstep_contracts::{
    AutoDisable, BreakerPolicy, FileName, RetryPolicy, StoredFile, StoredFiles, UploadedFile,
};
pub use engine::{Engine, EngineSettings};
pub use error::{Classify, ErrorClass, StepError, StepResult, UndoResult};
pub use progress::Meter;
pub use resilience::{Classified, Resilient, RunError, Runtime};
pub use schedule::Schedule;
pub use scratch::{ScratchDraft, ScratchFile};
pub use sql::{Sql, SqlRefused, SqlValue};
pub use task::{DistributedTask, Inputs, Probe, Registry, TaskType};
pub use waits::{AwaitSignal, MaybeSignal, Sleep, Slept};
