//! What the kernel's ports are made of: one cargo feature a technology.
//!
//! An adapter writes, reads and waits; it decides nothing. Which state follows which, who may
//! retry, what is undone: all of that has been decided before it gets here. [`embedded`] puts the
//! set together that needs no server.

#[cfg(feature = "azure")]
pub mod azure;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod batch;
#[cfg(any(feature = "sqlite", feature = "folder"))]
pub mod blocking_calls;
#[cfg(feature = "buckets")]
pub mod buckets;
pub mod client_certificate;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod columns;
#[cfg(feature = "embedded")]
pub mod embedded;
#[cfg(all(feature = "sqlite", feature = "system"))]
pub mod file_signals;
pub mod finding;
#[cfg(feature = "folder")]
pub mod folder;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "jwt")]
pub mod jwks;
#[cfg(any(feature = "folder", feature = "buckets"))]
mod key_checks;
#[cfg(feature = "system")]
pub mod local;
#[cfg(feature = "local-queue")]
pub mod local_queue;
#[cfg(feature = "nats")]
pub mod nats;
pub mod nats_rights;
#[cfg(any(feature = "sqlite", feature = "folder"))]
pub mod new_folders;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod outbox_holds;

#[cfg(feature = "payload-keys")]
pub mod payload_keys;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod rows;
#[cfg(feature = "s3")]
pub mod s3;
#[cfg(feature = "sqlite")]
pub mod spool;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(feature = "step-processes")]
pub mod step_processes;
#[cfg(feature = "system")]
pub mod step_threads;
#[cfg(feature = "system")]
pub mod system;
#[cfg(any(feature = "tls", feature = "http"))]
mod this_machine;
#[cfg(any(feature = "tls", feature = "http"))]
pub use this_machine::is_this_machine;
#[cfg(feature = "tls")]
pub mod tls;
pub mod transient;
