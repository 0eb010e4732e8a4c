//! Task types as data and code, and the registry of those that a process knows.

mod amounts;
mod awaited;
mod facts;
mod inputs;
mod registry;
mod request;
mod signal_schema;
mod tables;
mod taken;
mod types;

pub use amounts::{AmountFields, AmountSums};
pub use awaited::MissingType;
pub use facts::{TaskFacts, trace_id};
pub use inputs::{Inputs, REQUEST, output};
pub use registry::{KnownType, Registry, RegistryError, TypeRef, UpkeepMistake};
pub use request::{ReadOutputFn, ReadRequestFn, RequestError, read_request};
pub use tables::{TableRight, TableRights};
pub use types::{
    BuiltInFn, DistributedTask, KeyFn, LabelsFn, Probe, ProbeFn, RespondFn, Run, RunFn, SchemaFn,
    StepCode, TaskType, UndoFn, WhenFn, guarded,
};
