//! The HTTP interface of Counterstep, as a library.
//!
//! Owns what HTTP demands: framing, limits, headers, problem documents. Decides nothing about tasks
//! (that is the kernel's), knows no database, broker or object store (those are ports), and imports
//! none of the other hosts.

mod app_state;
mod auth;
mod authorize;
mod body;
mod caller;
pub mod cli;
mod error_pages;
mod events;
mod extra_routes;
mod form;
#[cfg(any(feature = "fuzz", all(test, feature = "shipped")))]
#[doc(hidden)]
pub mod fuzz;
mod gauges;
mod headers;
mod history;
#[cfg(feature = "ui")]
mod in_process;
mod label_header;
mod long_poll;
mod mount;
mod mount_path;
mod openapi;
mod origins;
mod problem;
mod query;
mod readiness;
mod request_id;
mod request_json;
mod request_span;
mod routes;
mod server;
mod settings;
mod shares;
#[cfg(feature = "ui")]
mod ui;

pub use auth::{AuthSettings, InvalidPeer, TrustedPeers};
pub use extra_routes::Beside;
pub use mount::MountedApi;
pub use origins::{AllowedHosts, InvalidHost};
pub use routes::{RouteView, all_routes, openapi_document};
pub use server::serve;
pub use settings::ApiSettings;
