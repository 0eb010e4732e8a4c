//! Long polls that wait for tasks to come to rest. One listener for all of them: if each heard
//! every signal of every task, a thousand waiting clients would cost a thousand wake-ups a change.

use crate::events::FollowedTasks;
use counterstep_contracts::TaskId;
use counterstep_kernel::ports::{Signal, Signals};
use futures::StreamExt;
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The tasks that are waited for. A task stays in it for as long as it is waited for.
type Tasks = Arc<Mutex<HashMap<TaskId, watch::Sender<()>>>>;

/// The listener and those who wait.
#[derive(Debug)]
pub(crate) struct Waiting {
    rests: Rests,
    listener: JoinHandle<()>,
}

/// Where a wait for a task's rest begins. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Rests(Tasks);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl Waiting {
    /// Listens from now on, on the runtime of the caller.
    /// `followed` hears all that is sent.
    pub(crate) fn start(signals: &dyn Signals, followed: Arc<FollowedTasks>) -> Self {
        let tasks = Tasks::default();
        let mut signals = signals.subscribe();
        let known = tasks.clone();
        let listener = tokio::spawn(async move {
            while let Some(signal) = signals.next().await {
                followed.hear(&signal);
                let Signal::Rests(task) = signal else {
                    continue;
                };
                if let Some(waiting) = lock(&known).get(&task) {
                    waiting.send_replace(());
                }
            }
        });
        Self {
            rests: Rests(tasks),
            listener,
        }
    }

    /// Number of tasks that are waited for.
    #[cfg(test)]
    pub(crate) fn tasks(&self) -> usize {
        lock(&self.rests.0).len()
    }

    pub(crate) const fn rests(&self) -> &Rests {
        &self.rests
    }
}

impl Rests {
    /// Waits for a task's rest from now on, also before there is the task. Look at a task that is
    /// there after this: a rest before it does not end the wait.
    pub(crate) fn of(&self, task: TaskId) -> WaitFor {
        let rests = lock(&self.0)
            .entry(task)
            .or_insert_with(|| watch::channel(()).0)
            .subscribe();
        WaitFor {
            task,
            rests: Some(rests),
            tasks: self.0.clone(),
        }
    }
}

/// One who waits for a task.
#[derive(Debug)]
pub(crate) struct WaitFor {
    task: TaskId,
    /// `None` once it is dropped.
    rests: Option<watch::Receiver<()>>,
    tasks: Tasks,
}

impl WaitFor {
    /// Id of the task.
    pub(crate) const fn task(&self) -> TaskId {
        self.task
    }

    /// Ends at once where a rest was announced since the wait began, or since this ended last; else
    /// with the next one.
    pub(crate) async fn rest(&mut self) {
        if let Some(rests) = &mut self.rests {
            // It has no end before this: the sender stays for as long as it has a receiver.
            let _ = rests.changed().await;
        }
    }
}

impl Drop for WaitFor {
    fn drop(&mut self) {
        let mut tasks = lock(&self.tasks);
        // Under the lock, so that of two which end at once the second one finds no other.
        self.rests = None;
        if tasks
            .get(&self.task)
            .is_some_and(|sender| sender.receiver_count() == 0)
        {
            tasks.remove(&self.task);
        }
    }
}

fn lock(tasks: &Tasks) -> MutexGuard<'_, HashMap<TaskId, watch::Sender<()>>> {
    tasks.lock()
}

#[cfg(test)]
mod tests {
    use super::*;
    use counterstep_adapters::system::LocalSignals;
    use std::time::Duration;

    const SOON: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn everyone_who_waits_for_a_task_hears_of_its_rest_and_is_then_forgotten() {
        let signals = LocalSignals::new();
        let waiting = Waiting::start(&signals, Arc::default());
        let [one, other] = [TaskId(uuid(1)), TaskId(uuid(2))];
        let rests = waiting.rests();
        let (mut first, mut second, mut stranger) = (rests.of(one), rests.of(one), rests.of(other));
        signals.send(Signal::Changed(one));
        signals.send(Signal::Rests(one));
        let all = futures::future::join(first.rest(), second.rest());
        tokio::time::timeout(SOON, all)
            .await
            .expect("both are told");
        assert!(
            futures::poll!(std::pin::pin!(first.rest())).is_pending(),
            "once for each rest"
        );
        assert!(futures::poll!(std::pin::pin!(stranger.rest())).is_pending());
        drop((first, second));
        assert_eq!(lock(&rests.0).keys().collect::<Vec<_>>(), [&other]);
        drop(stranger);
        assert!(lock(&rests.0).is_empty());
    }

    #[tokio::test]
    async fn a_rest_that_was_announced_before_it_is_waited_for_ends_the_wait() {
        let signals = LocalSignals::new();
        let waiting = Waiting::start(&signals, Arc::default());
        let task = TaskId(uuid(1));
        let (mut early, mut other) = (waiting.rests().of(task), waiting.rests().of(task));
        signals.send(Signal::Rests(task));
        // By then the listener has passed it on.
        tokio::time::timeout(SOON, other.rest())
            .await
            .expect("the rest");
        assert!(futures::poll!(std::pin::pin!(early.rest())).is_ready());
    }

    fn uuid(number: u128) -> uuid::Uuid {
        uuid::Uuid::from_u128(number)
    }
}
