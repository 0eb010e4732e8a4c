//! Long polls that wait for tasks to come to rest. One listener for all of them: if each heard every signal of every
//! task, a thousand waiting clients would cost a thousand wake-ups a change.

use counterstep_contracts::TaskId;
use counterstep_kernel::ports::{Signal, Signals};
use futures::StreamExt;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Who waits for which task. A task stays in it for as long as somebody does.
type Tasks = Arc<Mutex<HashMap<TaskId, Arc<Notify>>>>;

/// The listener and those who wait.
#[derive(Debug)]
pub(crate) struct Waiting {
    tasks: Tasks,
    listener: JoinHandle<()>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl Waiting {
    /// Listens from now on, on the runtime of the caller.
    pub(crate) fn start(signals: &dyn Signals) -> Self {
        let tasks = Tasks::default();
        let mut signals = signals.subscribe();
        let known = tasks.clone();
        let listener = tokio::spawn(async move {
            while let Some(signal) = signals.next().await {
                let Signal::Rests(task) = signal else { continue };
                if let Some(waiting) = lock(&known).get(&task) {
                    waiting.notify_waiters();
                }
            }
        });
        Self { tasks, listener }
    }

    /// Waits for a task's rest from now on. Look at the task after this and before waiting: what happened earlier is
    /// not heard.
    pub(crate) fn for_rest_of(&self, task: TaskId) -> WaitFor {
        let rest = lock(&self.tasks).entry(task).or_default().clone();
        WaitFor { task, rest, tasks: self.tasks.clone() }
    }
}

/// One who waits for a task.
pub(crate) struct WaitFor {
    task: TaskId,
    pub(crate) rest: Arc<Notify>,
    tasks: Tasks,
}

impl Drop for WaitFor {
    fn drop(&mut self) {
        let mut tasks = lock(&self.tasks);
        // The map's own and this one: nobody else waits.
        if Arc::strong_count(&self.rest) <= 2 {
            tasks.remove(&self.task);
        }
    }
}

fn lock(tasks: &Tasks) -> MutexGuard<'_, HashMap<TaskId, Arc<Notify>>> {
    tasks.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use counterstep_adapters::system::LocalSignals;
    use std::time::Duration;

    #[tokio::test]
    async fn everyone_who_waits_for_a_task_hears_of_its_rest_and_is_then_forgotten() {
        let signals = LocalSignals::new();
        let waiting = Waiting::start(&signals);
        let [one, other] = [TaskId(uuid(1)), TaskId(uuid(2))];
        let (first, second, stranger) =
            (waiting.for_rest_of(one), waiting.for_rest_of(one), waiting.for_rest_of(other));
        {
            let mut all = std::pin::pin!(futures::future::join(first.rest.notified(), second.rest.notified()));
            // Registers both before the signal is sent.
            assert!(futures::poll!(all.as_mut()).is_pending());
            signals.send(Signal::Changed(one));
            signals.send(Signal::Rests(one));
            tokio::time::timeout(Duration::from_secs(10), all).await.expect("both are told");
        }
        drop((first, second));
        assert_eq!(lock(&waiting.tasks).keys().collect::<Vec<_>>(), [&other]);
        drop(stranger);
        assert!(lock(&waiting.tasks).is_empty());
    }

    fn uuid(number: u128) -> uuid::Uuid {
        uuid::Uuid::from_u128(number)
    }
}
