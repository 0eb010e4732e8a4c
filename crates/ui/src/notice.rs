//! What a page says of what was just done. It comes along in the address, as the name of one of these texts:
//! no text of an address is shown.

use crate::query::Fields;

/// The parameter of an address that names one of them.
pub(crate) const DID: &str = "did";

const NOTICES: &[(&str, &str)] = &[
    ("submitted", "Submitted."),
    // Of moves: by their names, else by their operations.
    ("undo", "It is being undone."),
    ("cancelTask", "The cancel is accepted."),
    ("retryTask", "It goes on, with its retries anew."),
    ("resolveTask", "Settled."),
    ("sendSignal", "The signal is accepted."),
    ("setRecoveries", "The lost hosts are counted anew."),
    ("runTaskAgain", "Submitted."),
    // Of other decisions: by their operations.
    ("pauseQueue", "Paused."),
    ("resumeQueue", "Resumed."),
    ("pauseWorkers", "Paused."),
    ("resumeWorkers", "Resumed."),
    ("pauseSchedule", "Paused."),
    ("resumeSchedule", "Resumed."),
    ("putSchedule", "The schedule is set."),
    ("runSchedule", "A task was submitted."),
    ("deleteSchedule", "Deleted."),
    ("closeBreaker", "Closed."),
    ("disableTaskType", "It takes no submissions."),
    ("enableTaskType", "It takes submissions."),
    ("setLimit", "The limit is set."),
    ("resetLimit", "The limit is as it is declared."),
    ("putView", "Saved."),
    ("deleteView", "Deleted."),
    ("started", "The operation has started."),
    ("paused", "No further task is begun."),
    ("resumed", "It goes on."),
    ("stopped", "No further task is begun."),
    ("sent", "It is sent again."),
];

/// The first of these names that has a text; none: nothing is said.
pub(crate) fn first_of(names: [&str; 2]) -> &'static str {
    let known = |name| NOTICES.iter().find(|(known, _)| *known == name);
    names
        .into_iter()
        .find_map(known)
        .map_or("", |(name, _)| name)
}

/// What is said, where something was done.
pub(crate) fn of(query: &Fields) -> Option<&'static str> {
    let name = query.get(DID)?;
    let known = NOTICES.iter().find(|(known, _)| *known == name);
    known.map(|(_, text)| *text)
}
