//! The engine of Counterstep.
//!
//! Owns the judge, the plan, the turn, compensation, recovery, and the ports that they run on. Knows no database,
//! broker, cache or web framework, and takes no time, chance or thread but through a port.

pub mod builtin;
pub mod cancel;
pub mod context;
pub mod declare;
pub mod draft;
pub mod error;
pub mod keys;
pub mod plan;
pub mod policy;
pub mod ports;
pub mod record;
pub mod saga;
pub mod scratch;
pub mod task;
pub mod transition;

pub use builtin::{BuiltInStep, FileSource, Upload, UploadMany, UploadOne};
pub use cancel::{CancelReason, CancelToken};
pub use context::{Execution, ObjectsContext, StepContext};
pub use counterstep_contracts as contracts;
pub use counterstep_contracts::{FileName, RetryPolicy, StoredFile, StoredFiles, UploadedFile};
pub use error::{Classify, ErrorClass, StepError, StepResult, UndoResult};
pub use scratch::{ScratchDraft, ScratchFile};
pub use task::{DistributedTask, Inputs, Registry, TaskType};
