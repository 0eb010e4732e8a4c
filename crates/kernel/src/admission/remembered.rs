//! What people have set, as a process remembers it: it is read once a second at most. Must not read anything itself.

use parking_lot::Mutex;
use std::time::Duration;

/// What was read is believed for so long. What a person has set meanwhile holds here from then on.
const BELIEVED: Duration = Duration::from_secs(1);

/// What was read last.
#[derive(Debug)]
pub(crate) struct Remembered<T>(Mutex<Memory<T>>);

#[derive(Debug)]
struct Memory<T> {
    /// When the last read began, by the timer of the process.
    read_at: Option<Duration>,
    /// `None`: nothing is known.
    known: Option<T>,
}

impl<T> Default for Remembered<T> {
    fn default() -> Self {
        Self(Mutex::new(Memory {
            read_at: None,
            known: None,
        }))
    }
}

impl<T> Remembered<T> {
    /// Whether the caller is to read: what is known is old, or nothing is. Of old knowledge one caller reads, and the others
    /// go by it meanwhile; before the first read there is nothing to go by, so that each reads.
    pub(crate) fn is_to_be_read(&self, now: Duration) -> bool {
        let mut memory = self.0.lock();
        let is_fresh = |at| now.saturating_sub(at) < BELIEVED;
        if memory.known.is_some() && memory.read_at.is_some_and(is_fresh) {
            return false;
        }
        memory.read_at = Some(now);
        true
    }

    pub(crate) fn learn(&self, read: T) {
        self.0.lock().known = Some(read);
    }

    /// It could not be read: the next caller tries again, and goes by what is known.
    pub(crate) fn read_again(&self) {
        self.0.lock().read_at = None;
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
        self.0.lock().known.as_ref().map(look)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_the_first_read_every_caller_reads_and_of_old_knowledge_one() {
        let (remembered, now) = (Remembered::default(), Duration::from_secs(7));
        assert!(remembered.is_to_be_read(now));
        // The first caller has not had its answer, or had none.
        assert!(remembered.is_to_be_read(now));
        assert!(!remembered.is_known());
        remembered.learn(1);
        assert!(!remembered.is_to_be_read(now));
        let later = now + BELIEVED;
        assert!(remembered.is_to_be_read(later));
        assert!(!remembered.is_to_be_read(later));
        assert_eq!(remembered.map(|known| *known), Some(1));
        remembered.read_again();
        assert!(remembered.is_to_be_read(later));
        assert_eq!(remembered.map(|known| *known), Some(1));
        remembered.forget();
        assert!(remembered.is_to_be_read(later));
        assert!(remembered.is_to_be_read(later));
        assert_eq!(remembered.map(|known| *known), None);
    }
}
