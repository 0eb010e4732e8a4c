//! The HTTP interface of Counterstep, as a library.
//!
//! Owns what HTTP demands: framing, limits, headers, problem documents. Decides nothing about tasks
//! (that is the kernel's), knows no database, broker or object store (those are ports), and imports
//! none of the other hosts.

mod body;
pub mod cli;
mod cursor;
mod form;
mod gauges;
mod headers;
mod intake;
mod json;
mod last_word;
mod origins;
mod problem;
mod query;
mod readiness;
mod request_id;
mod routes;
mod server;
mod settings;
mod shared;
mod view;
mod waiting;

pub use origins::{AllowedHosts, InvalidHost};
pub use server::serve;
pub use settings::ApiSettings;
