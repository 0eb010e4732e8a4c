//! When tasks that a process has left are looked at again: one after the other, however many there are.

use std::time::Duration;

/// A task that was left is looked at again after this at the earliest, ...
const SOONEST: Duration = Duration::from_secs(1);

/// ... and those of a long queue one after the other, with this pause: each look is a read.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// The time of the next look.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    /// By this process's timer.
    next: Duration,
}

impl Looks {
    /// A task is looked at again after this at the latest.
    pub(crate) const LATEST: Duration = Duration::from_secs(60);

    /// When to look again at one more task.
    pub(crate) fn next(&mut self, now: Duration) -> Duration {
        self.next = (self.next + BETWEEN_LOOKS)
            .max(now + SOONEST)
            .min(now + Self::LATEST);
        self.next.saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_that_were_left_are_looked_at_one_after_the_other() {
        let mut looks = Looks::default();
        let now = Duration::from_secs(100);
        assert_eq!(looks.next(now), Duration::from_secs(1));
        assert_eq!(looks.next(now), Duration::from_millis(1020));
        for _ in 0..10_000 {
            looks.next(now);
        }
        assert_eq!(looks.next(now), Looks::LATEST);
        assert_eq!(looks.next(now + Duration::from_secs(3600)), SOONEST);
    }
}
