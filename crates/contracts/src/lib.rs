//! What the parts of Counterstep say to each other, as plain data.
//!
//! Owns ids, states, declarations, worker messages, domain events, HTTP bodies and problem codes.
//! It knows serde, schemars and nothing else: no I/O, no clock, no decision about which state follows which
//! (that is `counterstep_kernel::saga`).

pub mod access;
pub mod alert;
mod archive_name;
pub mod breaker;
pub mod bulk;
pub mod bytes;
pub mod cause;
pub mod children;
pub mod commands;
pub mod dead_letter;
pub mod declaration;
pub mod disable;
pub mod durations;
pub mod event;
pub mod file;
pub mod first_request;
pub mod flow;
pub mod forms;
pub mod gate;
pub mod groups;
pub mod http;
pub mod ids;
pub mod installation;
pub mod labels;
pub mod limit;
pub mod link;
pub mod log;
pub mod message;
pub mod note;
pub mod open_effects;
pub mod operation;
pub mod operator;
pub mod overrides;
pub mod pace;
pub mod problem;
pub mod progress;
pub mod queue;
pub mod retention;
pub mod retry;
pub mod run_again;
pub mod schedule;
pub mod search;
pub mod settled;
pub mod state;
pub mod task_type;
pub mod view;
pub mod webhook;
pub mod workers;

pub use breaker::BreakerPolicy;
pub use children::ParentRef;
pub use declaration::{
    FallbackDecl, Host, IsolateDecl, OnExhausted, OnLost, OnProbeFailure, OnUndoFailure, StepDecl,
    StepKind, TaskDecl, UndoDecl, WaitDecl, WhenCutOff,
};
pub use disable::AutoDisable;
pub use event::{CloudEvent, StatusChange, StepChange, TaskEvent};
pub use file::{FileName, FileNameError, StoredFile, StoredFiles, UploadedFile};
pub use flow::{Beyond, ConcurrencyDecl, FlowDecl, Priority};
pub use ids::{Attempt, AuditSeq, ChangeId, Epoch, QueueName, Rev, StepNo, TaskId, Tenant};
pub use labels::{LabelError, Labels};
pub use limit::{Limit, LimitFault, LimitScope, Rate};
pub use log::{LogLevel, LogLine, LogPart};
pub use message::WorkerMessage;
pub use overrides::{
    AutoDisableOverride, BreakerOverride, CooldownOverride, OrphanOverride, Overrides,
    RetryOverride,
};
pub use problem::{Problem, ProblemCode};
pub use progress::{AttemptProgress, TaskProgress};
pub use retention::{Keep, Retention};
pub use retry::{Backoff, RetryPolicy};
pub use schedule::{Misfire, Overlap, ScheduleOrigin, ScheduleSpec};
pub use settled::{Settled, SettledAs};
pub use state::{Direction, Outcome, StepStatus, TaskStatus, WaitReason};
