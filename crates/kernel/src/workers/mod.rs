//! The processes of an installation, as the worker registry knows them: what each registers of itself, and
//! which of them still answer. Decides of no task.

pub(crate) mod notes;
pub(crate) mod queue_window;
pub mod registration;
pub(crate) mod turns;
pub mod worker_registry;
