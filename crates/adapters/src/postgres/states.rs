//! The states of tasks, as conditions and values of queries. Must not decide what a state means.

use super::statement::Str;
use crate::columns;

/// Those that have not ended, as the index on them has it: those that have are most of the table.
macro_rules! open {
    () => {
        "t.status NOT IN ('completed', 'failed', 'cancelled', 'resolved')"
    };
}
pub(super) use open;

/// The states in which a task has ended, or has not.
pub(super) fn states(ended: bool) -> Vec<Str<'static>> {
    columns::states(ended).map(Into::into).collect()
}

/// The states in which a task is parked.
pub(super) fn parked_states() -> Vec<Str<'static>> {
    columns::parked_states().map(Into::into).collect()
}
