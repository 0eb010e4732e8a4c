//! Counterstep: distributed tasks that finish or are undone.
//!
//! Declare a task's steps with [`distributed_task`], write their code, and hand the types to
//! [`cli::main`]: the program is then API, worker, reconciler and operator's tool in one.
//!
//! This crate wires the others together and owns the command line. It decides nothing about tasks.

extern crate self as counterstep;

pub mod cli;
pub mod client;
#[cfg(doctest)]
mod documents;
mod program;
pub mod run;
mod service;
#[cfg(test)]
mod step_logs;

pub use clap;
pub use counterstep_api::{AllowedHosts, ApiSettings, Beside, MountedApi};
pub use counterstep_contracts as contracts;
pub use counterstep_kernel as kernel;
pub use counterstep_kernel::Engine;
pub use counterstep_macros::distributed_task;
pub use counterstep_node::{Exit, Layers, Settings, step_process};
pub use counterstep_reconciler as reconciler;
pub use counterstep_reconciler::ReconcilerSettings;
pub use counterstep_steps as steps;
pub use counterstep_worker::WorkerSettings;
pub use program::Program;
pub use run::Roles;
pub use service::Service;

/// Policies around code outside of tasks.
pub mod resilience {
    pub use counterstep_kernel::ports::PortsRuntime;
    pub use counterstep_node::TokioRuntime;
    pub use counterstep_steps::breaker::{Admission, Breaker, BreakerState, Ticket, Verdict};
    pub use counterstep_steps::resilience::{Classified, Resilient, Retried, RunError};
    pub use counterstep_steps::runtime::Runtime;
}

/// What a declaration needs.
pub mod prelude {
    pub use counterstep_contracts::{Keep, Misfire, Overlap, Retention};
    pub use counterstep_macros::distributed_task;
    pub use counterstep_steps::prelude::*;
}
