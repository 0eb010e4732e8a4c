//! Distributed tasks that finish or are undone.
//!
#![doc = include_str!("../README.md")]
//!
//! ## Where things are
//!
//! | | |
//! |---|---|
//! | [`prelude`], [`distributed_task`] | what a declaration needs |
//! | [`cli::main`] | the program: API, worker, reconciler, and the commands of operators |
//! | [`client`] | submits tasks and follows them, over HTTP or in the process of an engine |
//! | [`Program`], [`Service`], [`run`] | the same in a `main` of your own, or beside a web server of your own |
//! | [`resilience`] | retries, time limits and breakers for code outside of tasks |
//! | [`steps`], [`contracts`] | what a step gets and gives; what is sent and stored |
//! | [`kernel`], [`reconciler`] | the engine's own: no promise of stability beyond what the documents name |
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
