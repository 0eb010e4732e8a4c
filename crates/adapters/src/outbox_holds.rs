//! What both databases do with rows of the outbox that a relay takes: for how long they are hidden from others, and what becomes of
//! those that cannot be read.

use crate::columns::Unreadable;
use crate::rows::OutboxRead;
use counterstep_kernel::ports::OutboxRow;
use std::time::Duration;

/// How long other relays skip a row that a relay has taken to publish.
pub(crate) const RELAY_HOLD: Duration = Duration::from_secs(15);

/// How long a row that this program cannot read is skipped. It stays for a newer program, which may run
/// beside this one, and blocks no other row.
pub(crate) const UNREADABLE_HOLD: Duration = Duration::from_secs(300);

/// The rows that can be read, and the ids of the others, with one line in the log for all of these.
pub(crate) fn sort_out(rows: Vec<OutboxRead>) -> (Vec<OutboxRow>, Vec<i64>) {
    let (mut read, mut unreadable, mut first) = (Vec::new(), Vec::new(), None);
    for row in rows {
        let id = row.id;
        match row.decode() {
            Ok(row) => read.push(row),
            Err(Unreadable(fault, _)) => {
                unreadable.push(id);
                first.get_or_insert(fault);
            }
        }
    }
    if let Some(fault) = first {
        let (count, first) = (unreadable.len(), unreadable[0]);
        tracing::warn!(
            count,
            first,
            fault,
            "events in the outbox cannot be read; tried again in 5 minutes"
        );
    }
    (read, unreadable)
}
