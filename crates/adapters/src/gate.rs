//! A gate. Whoever finds nobody inside goes in at once and alone; those who come meanwhile wait, and go together as
//! soon as the one inside is through.
//!
//! So a lone caller waits for nobody, and under load each crossing carries as many as have gathered: the more there are,
//! the less each of them costs. Several crossings at a time would carry fewer each; there is a second one only where a
//! crossing's worth is waiting, or where the first one takes long. Must not know what is carried.

use futures::future::BoxFuture;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Takes some of those who wait, in order, out of the line.
pub(crate) type Pick<T> = fn(&mut VecDeque<T>) -> Vec<T>;

/// Carries them across. What becomes of each it tells them itself.
pub(crate) type Carry<T> = Box<dyn Fn(Vec<T>) -> BoxFuture<'static, ()> + Send + Sync>;

struct Inner<T> {
    line: Mutex<Line<T>>,
    width: usize,
    full: usize,
    pick: Pick<T>,
    carry: Carry<T>,
}

struct Line<T> {
    inside: usize,
    waiting: VecDeque<T>,
}

/// The gate. Cheap to clone.
pub(crate) struct Gate<T>(Arc<Inner<T>>);

impl<T> Clone for Gate<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Gate<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("width", &self.0.width).finish_non_exhaustive()
    }
}

/// The right to be inside. Its end lets those in who wait.
pub(crate) struct Pass<T: Send + 'static>(Gate<T>);

impl<T: Send + 'static> Gate<T> {
    /// For `width` crossings at a time at most; `full` of those who wait are worth one of their own.
    pub(crate) fn new(width: usize, full: usize, pick: Pick<T>, carry: Carry<T>) -> Self {
        let line = Mutex::new(Line { inside: 0, waiting: VecDeque::new() });
        Self(Arc::new(Inner { line, width, full, pick, carry }))
    }

    fn line(&self) -> MutexGuard<'_, Line<T>> {
        self.0.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes in, or leaves `who` in the line.
    #[cfg(any(test, feature = "postgres"))]
    pub(crate) fn enter(&self, who: impl FnOnce() -> T) -> Option<Pass<T>> {
        let mut line = self.line();
        if line.inside == 0 {
            line.inside = 1;
            return Some(Pass(self.clone()));
        }
        line.waiting.push_back(who());
        let worth_one = line.waiting.len() >= self.0.full;
        drop(line);
        if worth_one {
            self.hurry();
        }
        None
    }

    /// Leaves `who` in the line, whose first ones go in at once where nobody is inside, or they are worth a crossing.
    #[cfg(any(test, feature = "sqlite"))]
    pub(crate) fn wait(&self, who: T) {
        let mut line = self.line();
        line.waiting.push_back(who);
        let goes = line.inside == 0 || line.waiting.len() >= self.0.full;
        drop(line);
        if goes {
            self.hurry();
        }
    }

    /// Lets those in who wait, beside those who are inside, where there is room.
    pub(crate) fn hurry(&self) {
        let mut line = self.line();
        if line.inside >= self.0.width {
            return;
        }
        let picked = (self.0.pick)(&mut line.waiting);
        if !picked.is_empty() {
            line.inside += 1;
            drop(line);
            self.send(picked);
        }
    }

    /// Sends some across who have a place inside.
    fn send(&self, picked: Vec<T>) {
        let pass = Pass(self.clone());
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            // The process ends. Those who wait hear that nobody will carry them.
            drop(picked);
            return;
        };
        runtime.spawn(async move {
            (pass.0.0.carry)(picked).await;
            drop(pass);
        });
    }

    /// A place in the line of whom `who` knows.
    pub(crate) fn place<'a>(&'a self, who: impl Fn(&T) -> bool + Send + Sync + 'a) -> Place<'a, T> {
        Place { gate: self, who: Box::new(who) }
    }

    /// Takes those out of the line who do not want to wait any longer. Whether there were any: if not, they are on their way.
    fn leave(&self, who: impl Fn(&T) -> bool) -> bool {
        let mut line = self.line();
        let before = line.waiting.len();
        line.waiting.retain(|waiting| !who(waiting));
        line.waiting.len() < before
    }
}

/// A place in the line, given up with this value.
pub(crate) struct Place<'a, T: Send + 'static> {
    gate: &'a Gate<T>,
    who: Box<dyn Fn(&T) -> bool + Send + Sync + 'a>,
}

impl<T: Send + 'static> Place<'_, T> {
    /// Gives it up. Whether it was still there: if not, they are on their way.
    pub(crate) fn leave(&self) -> bool {
        self.gate.leave(&self.who)
    }
}

impl<T: Send + 'static> Drop for Place<'_, T> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl<T: Send + 'static> Drop for Pass<T> {
    fn drop(&mut self) {
        let picked = {
            let mut line = self.0.line();
            let picked = (self.0.0.pick)(&mut line.waiting);
            if picked.is_empty() {
                line.inside -= 1;
                return;
            }
            picked
        };
        // The place inside stays taken, by them.
        self.0.send(picked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use std::sync::mpsc;

    fn all(line: &mut VecDeque<u32>) -> Vec<u32> {
        line.drain(..).collect()
    }

    fn telling() -> (Carry<u32>, mpsc::Receiver<Vec<u32>>) {
        let (to, from) = mpsc::channel();
        let carry: Carry<u32> = Box::new(move |who| {
            to.send(who).unwrap();
            futures::future::ready(()).boxed()
        });
        (carry, from)
    }

    #[tokio::test]
    async fn those_who_come_meanwhile_go_together() {
        let (carry, carried) = telling();
        let gate = Gate::new(2, 3, all, carry);
        let first = gate.enter(|| 1).expect("the gate is open");
        assert!(gate.enter(|| 2).is_none());
        assert!(gate.enter(|| 3).is_none());
        assert!(carried.try_recv().is_err(), "somebody is inside");
        drop(first);
        tokio::task::yield_now().await;
        assert_eq!(carried.try_recv().unwrap(), [2, 3]);
        tokio::task::yield_now().await;
        assert!(gate.enter(|| 4).is_some(), "they are through");
    }

    #[tokio::test]
    async fn whoever_leaves_the_line_is_not_carried() {
        let (carry, carried) = telling();
        let gate = Gate::new(2, 3, all, carry);
        let first = gate.enter(|| 1);
        assert!(gate.enter(|| 2).is_none());
        assert!(gate.enter(|| 3).is_none());
        let place = gate.place(|who| *who == 2);
        assert!(place.leave());
        assert!(!place.leave(), "it has left");
        drop(first);
        tokio::task::yield_now().await;
        assert_eq!(carried.try_recv().unwrap(), [3]);
    }

    #[tokio::test]
    async fn a_second_crossing_starts_where_enough_wait_or_somebody_is_in_a_hurry() {
        let (carry, carried) = telling();
        let gate = Gate::new(2, 3, all, carry);
        let _first = gate.enter(|| 1);
        assert!(gate.enter(|| 2).is_none());
        assert!(gate.enter(|| 3).is_none());
        assert!(carried.try_recv().is_err(), "two are not worth a crossing");
        assert!(gate.enter(|| 4).is_none());
        tokio::task::yield_now().await;
        assert_eq!(carried.try_recv().unwrap(), [2, 3, 4]);
        assert!(gate.enter(|| 5).is_none());
        gate.hurry();
        tokio::task::yield_now().await;
        assert_eq!(carried.try_recv().unwrap(), [5]);
    }

    #[tokio::test]
    async fn whoever_waits_for_a_free_gate_goes_in() {
        let (carry, carried) = telling();
        let gate = Gate::new(1, usize::MAX, all, carry);
        gate.wait(1);
        gate.wait(2);
        gate.wait(3);
        for expected in [vec![1], vec![2, 3]] {
            tokio::task::yield_now().await;
            assert_eq!(carried.try_recv().unwrap(), expected);
        }
        tokio::task::yield_now().await;
        gate.wait(4);
        tokio::task::yield_now().await;
        assert_eq!(carried.try_recv().unwrap(), [4]);
    }

    #[tokio::test]
    async fn as_many_as_are_worth_a_crossing_do_not_wait_for_the_one_inside() {
        let (to, carried) = mpsc::channel();
        let carry: Carry<u32> = Box::new(move |who| {
            to.send(who).unwrap();
            futures::future::pending().boxed()
        });
        let gate = Gate::new(2, 2, all, carry);
        for who in 1..=5 {
            gate.wait(who);
            tokio::task::yield_now().await;
        }
        assert_eq!(carried.try_iter().collect::<Vec<_>>(), [vec![1], vec![2, 3]]);
    }

    #[test]
    fn without_a_runtime_those_who_wait_are_dropped() {
        let (carry, carried) = telling();
        let gate = Gate::new(2, 3, all, carry);
        let first = gate.enter(|| 1);
        assert!(gate.enter(|| 2).is_none());
        drop(first);
        assert!(carried.try_recv().is_err());
        assert!(gate.enter(|| 3).is_some());
    }
}
