//! What the document says of each route, beside the code that answers it. Must not answer a request.

mod examples;
mod params;

pub(super) mod events;
pub(super) mod links;
pub(super) mod process;
pub(super) mod submitting;
pub(super) mod tasks;

use crate::openapi::{LOCATION, Operation};
use counterstep_contracts::operation::Declared;
use counterstep_contracts::operation::tasks::RunTaskAgain;
use params::{KEY, REPLAYED, RETRY_AFTER};

/// Its declaration, with the headers that only its own handler reads and writes.
pub(super) fn run_again() -> Operation {
    Operation::from(&Declared::of::<RunTaskAgain>())
        .headers(&[KEY])
        .answered_with(&[LOCATION, RETRY_AFTER, REPLAYED])
}
