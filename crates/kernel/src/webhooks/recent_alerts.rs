//! Which alerts a process has raised a while ago, so that it asks the database for none of them again. Must not
//! know what they say.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;

/// The time for which there is one alert of the same incident.
const HOUR: Duration = Duration::from_secs(3_600);

/// Maximum number of alerts that are remembered; beyond it all are removed, and the database decides.
const MOST: usize = 1_000;

/// What a process has raised in the last hour, by the name of the document, with the time of its own timer.
#[derive(Debug, Default)]
pub(crate) struct RecentAlerts(Mutex<HashMap<String, Duration>>);

impl RecentAlerts {
    pub(super) fn is_new(&self, name: &str, now: Duration) -> bool {
        let mut raised = self.0.lock();
        let known = raised.get(name);
        if known.is_some_and(|at| now.saturating_sub(*at) < HOUR) {
            return false;
        }
        if raised.len() >= MOST {
            raised.clear();
        }
        raised.insert(name.to_owned(), now);
        true
    }

    pub(super) fn forget(&self, name: &str) {
        let mut raised = self.0.lock();
        raised.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_raises_the_same_once_an_hour() {
        let raised = RecentAlerts::default();
        let (at, hour) = (Duration::from_secs(7), Duration::from_secs(3_600));
        assert!(raised.is_new("a", at));
        assert!(!raised.is_new("a", at + hour - Duration::from_millis(1)));
        assert!(raised.is_new("b", at));
        assert!(raised.is_new("a", at + hour));
        raised.forget("a");
        assert!(raised.is_new("a", at + hour));
        for name in 0..2 * MOST {
            raised.is_new(&name.to_string(), at);
        }
        let known = raised.0.lock().len();
        assert!(known <= MOST);
    }
}
