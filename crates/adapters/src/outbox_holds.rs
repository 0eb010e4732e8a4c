//! How long a row of the outbox is hidden from other relays, the same in both databases.

use std::fmt::Debug;
use std::time::Duration;

/// While the relay that took it publishes it.
pub(crate) const RELAY_HOLD: Duration = Duration::from_secs(15);

/// Where this program cannot read it. It stays for a newer one, and blocks no other row meanwhile. Short: the newer one may run beside this one.
pub(crate) const UNREADABLE_HOLD: Duration = Duration::from_secs(300);

/// One line for all rows of a pass.
pub(crate) fn warn_of_unreadable(rows: &[i64], first: &dyn Debug) {
    tracing::warn!(count = rows.len(), first = ?rows.first(), fault = ?first, "events in the outbox cannot be read; tried again in 5 minutes");
}
