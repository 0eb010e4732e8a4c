//! The queues that this process cannot fetch from, for its row in the worker registry. Owns the words that may stand there: a
//! broker may repeat a URL with its password. Must not decide anything.

use crate::engine::Engine;
use crate::error::bounded_line;
use crate::ports::{FetchError, QueueError};
use crate::workers::registration::RegistrationState;
use counterstep_contracts::QueueName;

/// Maximum bytes of what a broker has answered.
const MESSAGE_LIMIT: usize = 300;

/// Maximum number of queues that are named.
const NAMED: usize = 100;

/// A fetch for a host that serves these queues has ended. Where it failed, `failed` has the queues that it was for: a paused queue is not
/// fetched from.
pub(crate) fn note(
    engine: &Engine,
    served: &[QueueName],
    failed: Option<(&[QueueName], &QueueError)>,
) {
    // Then there is no broker, and the error is the database's.
    if engine.ports.queue.hands_out_tasks() {
        return;
    }
    let mut known = engine.registration.known();
    let errors = &mut known.fetch_errors;
    if !errors.is_empty() {
        errors.retain(|queue, _| !served.contains(queue));
    }
    if let Some((queues, error)) = failed {
        let message = words(&error.0);
        let failed = queues.iter().map(|queue| (queue.clone(), message.clone()));
        errors.extend(failed);
    }
}

/// All of them. What is known of a consumer comes first: where all consumers of a fetch are denied, it fails as a whole too.
pub(crate) fn all(engine: &Engine, known: &RegistrationState) -> Vec<FetchError> {
    let denied = engine.ports.queue.denied_consumers().into_iter();
    let denied = denied.map(|error| FetchError {
        message: words(&error.message),
        ..error
    });
    let failed = known.fetch_errors.iter();
    let failed = failed.map(|(queue, message)| FetchError {
        queue: queue.clone(),
        message: message.clone(),
        consumer: None,
    });
    denied.chain(failed).take(NAMED).collect()
}

/// A short line, and of a URL not its user and password.
fn words(text: &str) -> String {
    let shown: Vec<_> = text.split(' ').map(without_password).collect();
    bounded_line(shown.join(" "), MESSAGE_LIMIT)
}

fn without_password(word: &str) -> String {
    let parts = word.split_once("://");
    let parts = parts.and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?.1)));
    parts.map_or_else(
        || word.to_owned(),
        |(scheme, rest)| format!("{scheme}://{rest}"),
    )
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn what_a_broker_has_answered_is_one_short_line_without_passwords() {
        for (text, shown) in [
            ("not connected to NATS", "not connected to NATS"),
            (
                "cannot reach nats://kim:s3@cret@n1:4222, or tls://n2",
                "cannot reach nats://n1:4222, or tls://n2",
            ),
            ("two\nlines", "two\\nlines"),
        ] {
            assert_eq!(words(text), shown);
        }
        assert_eq!(words(&"ä".repeat(10_000)).len(), 300);
    }
}
