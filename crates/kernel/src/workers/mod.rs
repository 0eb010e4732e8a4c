//! The processes of an installation, as the worker registry knows them: what each registers of itself, and
//! which of them still answer. Decides of no task.

pub mod registration;
pub mod worker_registry;
