//! The values that people have set for limits, as a process remembers them for a moment.

use super::grant::LimitValues;
use std::collections::BTreeMap;
use std::time::Duration;

/// What people have set, and when it was read by this process's timer.
#[derive(Debug, Default)]
pub(crate) struct SetValues {
    pub(super) read_at: Option<Duration>,
    pub(super) values: BTreeMap<String, LimitValues>,
}
