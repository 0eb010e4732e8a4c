//! What people have set, as a process has read it last. Must not read anything itself.

use parking_lot::Mutex;
use std::time::Duration;

/// How long a value that was read is used. What a person has set meanwhile holds here from then on.
const FRESH_FOR: Duration = Duration::from_secs(1);

/// How long an older value is used while one caller reads it again. A process that had no reason to read for longer waits for
/// the answer.
const USED_FOR: Duration = Duration::from_secs(2);

/// A value of a type, with the time at which its read began, by the timer of the process.
#[derive(Debug)]
pub(crate) struct SettingCache<T>(Mutex<Cached<T>>);

#[derive(Debug)]
struct Cached<T> {
    /// When the last read began, unless it has failed.
    reading: Option<Duration>,
    known: Option<(Duration, T)>,
}

impl<T> Cached<T> {
    fn is_younger_than(&self, bound: Duration, now: Duration) -> bool {
        self.known
            .as_ref()
            .is_some_and(|(at, _)| age(now, *at) < bound)
    }
}

fn age(now: Duration, at: Duration) -> Duration {
    now.saturating_sub(at)
}

/// The caller is to read, since this time by the timer of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) struct Read(Duration);

impl<T> Default for SettingCache<T> {
    fn default() -> Self {
        Self(Mutex::new(Cached {
            reading: None,
            known: None,
        }))
    }
}

impl<T> SettingCache<T> {
    /// Whether the caller is to read. Of a value that has just become old one caller reads, and the others use it meanwhile;
    /// where there is none, or only a much older one, each caller reads.
    pub(crate) fn read_at(&self, now: Duration) -> Option<Read> {
        let mut cached = self.0.lock();
        let is_read = cached.reading.is_some_and(|at| age(now, at) < FRESH_FOR);
        let bound = if is_read { USED_FOR } else { FRESH_FOR };
        if cached.is_younger_than(bound, now) {
            return None;
        }
        cached.reading = Some(now);
        Some(Read(now))
    }

    /// Whether what is known was read a moment ago.
    pub(crate) fn is_fresh(&self, now: Duration) -> bool {
        self.0.lock().is_younger_than(FRESH_FOR, now)
    }

    /// What was read, unless a later read has been answered before.
    pub(crate) fn learn(&self, Read(at): Read, value: T) {
        let known = &mut self.0.lock().known;
        if known.as_ref().is_none_or(|(newest, _)| *newest <= at) {
            *known = Some((at, value));
        }
    }

    /// It could not be read: what is known counts as read then.
    pub(crate) fn keep(&self, Read(at): Read) {
        if let Some((known, _)) = &mut self.0.lock().known {
            *known = at.max(*known);
        }
    }

    /// It could not be read: the next caller tries again, and uses what is known.
    pub(crate) fn read_again(&self) {
        self.0.lock().reading = None;
    }

    /// It is not as it was read any more.
    pub(crate) fn forget(&self) {
        self.0.lock().known = None;
    }

    pub(crate) fn is_known(&self) -> bool {
        self.0.lock().known.is_some()
    }

    /// Of what is known; `None`: nothing is.
    pub(crate) fn map<R>(&self, look: impl FnOnce(&T) -> R) -> Option<R> {
        let cached = self.0.lock();
        cached.known.as_ref().map(|(_, value)| look(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(7);

    fn known(cache: &SettingCache<u32>) -> Option<u32> {
        cache.map(|value| *value)
    }

    #[test]
    fn before_the_first_answer_every_caller_reads_and_of_an_old_value_one() {
        let cache = SettingCache::default();
        let read = cache.read_at(NOW).expect("it is to be read");
        // The first caller has not had its answer, or had none.
        assert!(cache.read_at(NOW).is_some());
        assert!(!cache.is_known());
        cache.learn(read, 1);
        assert!(cache.read_at(NOW).is_none());
        let later = NOW + FRESH_FOR;
        assert!(cache.is_fresh(NOW));
        assert!(cache.read_at(later).is_some());
        assert!(cache.read_at(later).is_none());
        assert!(!cache.is_fresh(later));
        assert_eq!(known(&cache), Some(1));
        cache.read_again();
        assert!(cache.read_at(later).is_some());
        assert_eq!(known(&cache), Some(1));
        cache.forget();
        assert!(cache.read_at(later).is_some());
        assert!(cache.read_at(later).is_some());
        assert_eq!(known(&cache), None);
    }

    #[test]
    fn a_value_that_was_not_read_for_long_is_used_by_none() {
        let cache = SettingCache::default();
        cache.learn(cache.read_at(NOW).expect("it is to be read"), 1);
        let hours_later = NOW + Duration::from_secs(7200);
        let read = cache.read_at(hours_later).expect("it is to be read");
        assert!(cache.read_at(hours_later).is_some());
        cache.keep(read);
        assert!(cache.read_at(hours_later).is_none());
        assert_eq!(known(&cache), Some(1));
    }

    #[test]
    fn a_late_answer_replaces_none_to_a_later_read() {
        let cache = SettingCache::default();
        let early = cache.read_at(NOW).expect("it is to be read");
        let late = cache.read_at(NOW + FRESH_FOR).expect("it is to be read");
        cache.learn(late, 2);
        cache.learn(early, 1);
        assert_eq!(known(&cache), Some(2));
    }
}
