//! Since when the store has answered this process without a gap. What follows from it is decided in `outages`.

use parking_lot::Mutex;
use std::time::Duration;

/// The answers of the store to this process.
#[derive(Debug, Default)]
pub(crate) struct StoreUptime(Mutex<Answers>);

#[derive(Debug, Default)]
enum Answers {
    /// This process does not ask: it is none that goes on for long, or has no step that goes on.
    #[default]
    Unwatched,
    /// None yet.
    None,
    /// By this process's timer.
    Since { first: Duration, last: Duration },
}

impl StoreUptime {
    /// From now on it is watched.
    pub(crate) fn begin(&self) {
        let mut answers = self.0.lock();
        if matches!(*answers, Answers::Unwatched) {
            *answers = Answers::None;
        }
    }

    /// The store has answered now.
    pub(crate) fn answered(&self, now: Duration, gap: Duration) {
        let mut answers = self.0.lock();
        let first = match *answers {
            Answers::Since { first, last } if now.saturating_sub(last) <= gap => first,
            Answers::Unwatched | Answers::None | Answers::Since { .. } => now,
        };
        *answers = Answers::Since { first, last: now };
    }

    /// For how long it has answered without a gap; `None`: that is not watched.
    pub(crate) fn lasts(&self, now: Duration, gap: Duration) -> Option<Duration> {
        match *self.0.lock() {
            Answers::Unwatched => None,
            Answers::Since { first, last } if now.saturating_sub(last) <= gap => {
                Some(now.saturating_sub(first))
            }
            Answers::None | Answers::Since { .. } => Some(Duration::ZERO),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::StoreUptime;
    use std::time::Duration;

    #[test]
    fn contact_lasts_since_the_first_answer_behind_the_last_gap() {
        let seconds = Duration::from_secs;
        let contact = StoreUptime::default();
        let answered = |at| contact.answered(seconds(at), seconds(15));
        let lasts = |at| {
            contact
                .lasts(seconds(at), seconds(15))
                .map(|it| it.as_secs())
        };
        assert_eq!(lasts(1), None, "it is not watched");
        contact.begin();
        assert_eq!(lasts(1), Some(0));
        answered(10);
        assert_eq!(lasts(20), Some(10));
        answered(25);
        assert_eq!(lasts(40), Some(30), "fifteen seconds are no gap");
        assert_eq!(lasts(41), Some(0), "there is no answer");
        answered(41);
        assert_eq!(lasts(41), Some(0));
        answered(50);
        assert_eq!(lasts(60), Some(19));
        contact.begin();
        assert_eq!(lasts(60), Some(19), "another part of the process begins");
    }
}
