//! What the document says of each route, beside the code that answers it. Must not answer a request.

mod examples;
mod params;

pub(super) mod events;
pub(super) mod links;
pub(super) mod process;
pub(super) mod run_again;
pub(super) mod submitting;
pub(super) mod tasks;
pub(super) mod types;
