//! What the server refuses this process for want of a permission. The server answers no request that it refuses, so that each
//! would wait for its time limit: a refusal is heard beside it, and remembered for readiness checks.

use async_nats::{Event, ServerError};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long a refusal is remembered: the server's permissions may have changed since. What a process still
/// needs is refused again before that.
const COUNTS_FOR: Duration = Duration::from_secs(60);

/// Pause before a refused request is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Subjects that were refused, and when.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    subjects: Mutex<BTreeMap<String, Instant>>,
    heard: Notify,
}

impl Refusals {
    /// Remembers a refusal; and forgets all with a new connection, which may be another user's.
    pub(super) fn hear(&self, event: &Event) {
        match event {
            Event::Connected => self.subjects().clear(),
            Event::ServerError(ServerError::Other(text)) => {
                let Some(subject) = subject_of(text) else {
                    return;
                };
                self.subjects().insert(subject, Instant::now());
                self.heard.notify_waiters();
            }
            _ => {}
        }
    }

    /// Waits until a subject is refused.
    pub(super) async fn refused(&self, subject: &str) {
        let since = Instant::now();
        loop {
            let mut heard = std::pin::pin!(self.heard.notified());
            // Before the look: what is heard between the two counts too.
            heard.as_mut().enable();
            if self.subjects().get(subject).is_some_and(|at| *at >= since) {
                return;
            }
            heard.await;
        }
    }

    /// Whether it was refused a moment ago, so that another try is of no use yet.
    pub(super) fn is_fresh(&self, subject: &str) -> bool {
        let subjects = self.subjects();
        subjects
            .get(subject)
            .is_some_and(|at| at.elapsed() < AGAIN_AFTER)
    }

    /// Forgets that it was refused.
    pub(super) fn forget(&self, subject: &str) {
        self.subjects().remove(subject);
    }

    /// All that was refused lately.
    pub(super) fn all(&self) -> Vec<String> {
        let mut subjects = self.subjects();
        subjects.retain(|_, at| at.elapsed() < COUNTS_FOR);
        subjects.keys().cloned().collect()
    }

    fn subjects(&self) -> MutexGuard<'_, BTreeMap<String, Instant>> {
        self.subjects.lock()
    }
}

/// From `Permissions Violation for Publish to "work.x"`; a subscription may have `using queue "x"` behind its subject.
fn subject_of(text: &str) -> Option<String> {
    let begins = [
        "permissions violation for publish to",
        "permissions violation for subscription to",
    ];
    let lower = text.to_lowercase();
    if !begins.iter().any(|begin| lower.starts_with(begin)) {
        return None;
    }
    text.split('"').nth(1).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_its_subject_and_other_errors_do_not() {
        for (text, subject) in [
            (
                "Permissions Violation for Publish to \"$JS.ACK.x.Y.1\"",
                Some("$JS.ACK.x.Y.1"),
            ),
            (
                "Permissions Violation for Subscription to \"_INBOX.a.>\"",
                Some("_INBOX.a.>"),
            ),
            (
                "permissions violation for subscription to \"a\" using queue \"b\"",
                Some("a"),
            ),
            ("maximum payload violation", None),
        ] {
            assert_eq!(subject_of(text).as_deref(), subject, "{text}");
        }
    }

    #[tokio::test]
    async fn a_wait_ends_with_its_own_subject_and_a_new_connection_forgets() {
        let refusals = Refusals::default();
        let refuse = |subject: &str| {
            let text = format!("Permissions Violation for Publish to \"{subject}\"");
            refusals.hear(&Event::ServerError(ServerError::Other(text)));
        };
        refuse("b");
        let waits = refusals.refused("a");
        let hears = async {
            refuse("c");
            tokio::task::yield_now().await;
            refuse("a");
        };
        futures::join!(waits, hears);
        assert_eq!(refusals.all(), ["a", "b", "c"]);
        assert!(refusals.is_fresh("a") && !refusals.is_fresh("d"));
        refusals.hear(&Event::Connected);
        assert!(refusals.all().is_empty());
    }
}
