//! One log line of a kind in a minute, for what clients and senders of messages can cause as often as they like: a disk that they
//! fill with lines, or a line that is lost among theirs, would harm the operator. The next line has the count of those that were
//! left out. Must not know what a line is about.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct Last {
    /// By the timer of the process.
    at: Duration,
    left_out: u64,
}

/// The last line of each kind.
#[derive(Debug, Default)]
pub struct LogLines(Mutex<BTreeMap<&'static str, Last>>);

impl LogLines {
    /// Of none.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// How many lines of the kind were left out since the last one; `None`: this one is left out too.
    #[must_use]
    pub fn next(&self, kind: &'static str, now: Duration) -> Option<u64> {
        let mut lines = self.0.lock();
        let new = Last {
            at: now,
            left_out: 0,
        };
        match lines.get_mut(kind) {
            Some(last) if now.saturating_sub(last.at) < MINUTE => {
                last.left_out += 1;
                None
            }
            Some(last) => Some(std::mem::replace(last, new).left_out),
            None => {
                lines.insert(kind, new);
                Some(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_one_line_a_minute_with_the_count_of_those_that_were_left_out() {
        let lines = LogLines::new();
        let at = |seconds| Duration::from_secs(seconds);
        assert_eq!(lines.next("poison", at(7)), Some(0));
        for second in 7..67 {
            assert_eq!(lines.next("poison", at(second)), None);
        }
        assert_eq!(lines.next("webhook", at(60)), Some(0));
        assert_eq!(lines.next("poison", at(67)), Some(60));
        assert_eq!(lines.next("poison", at(68)), None);
        assert_eq!(lines.next("poison", at(3_600)), Some(1));
    }
}
