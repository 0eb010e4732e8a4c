//! A harness on the embedded adapters, planted faults, a sweep over all of them, and the invariants that must hold after each:
//! for Counterstep's own tests and for its users'.
//!
#![doc = include_str!("../README.md")]

mod answers;
pub mod clock;
mod database;
pub mod form;
pub mod golden;
pub mod harness;
pub mod invariants;
pub mod lossy_queue;
pub mod many_tasks;
mod planted;
pub mod races;
pub mod seed;
#[cfg(feature = "servers")]
pub mod servers;
mod service_of;
#[cfg(feature = "services")]
pub mod services;
pub mod simulation;
pub mod sweep;
mod task_tree;
mod test_task;
pub mod through;
pub mod trail;

pub use clock::TestClock;
// What a service of a test gets and answers: see [`Harness::service`].
pub use counterstep_kernel::ports::{ServiceAnswer, ServiceError, ServiceRequest};
pub use form::{Form, two_files};
pub use harness::Harness;
pub use lossy_queue::LossyQueue;
pub use many_tasks::Site;
pub use test_task::TestTask;
