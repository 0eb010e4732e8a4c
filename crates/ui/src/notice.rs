//! What a page says of what was just done. It comes along in the address, as the name of one of these texts:
//! no text of an address is shown.

use crate::query::Fields;

const NOTICES: &[(&str, &str)] = &[
    ("submitted", "Submitted."),
    ("cancelled", "The cancel is accepted."),
    ("retried", "It goes on, with its retries anew."),
    ("undone", "It is being undone."),
    ("resolved", "Settled."),
    ("signalled", "The signal is accepted."),
    ("recounted", "The lost hosts are counted anew."),
    ("paused", "Paused."),
    ("resumed", "Resumed."),
    ("run", "A task was submitted."),
    ("disabled", "It takes no submissions."),
    ("enabled", "It takes submissions."),
    ("set", "The limit is set."),
    ("reset", "The limit is as it is declared."),
    ("started", "The operation has started."),
    ("stopped", "No further task is begun."),
    ("sent", "It is sent again."),
];

/// What is said, where something was done.
pub(crate) fn of(query: &Fields) -> Option<&'static str> {
    let name = query.get("did")?;
    let known = NOTICES.iter().find(|(known, _)| *known == name);
    known.map(|(_, text)| *text)
}
