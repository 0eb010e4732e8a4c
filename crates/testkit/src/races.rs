//! Cancels against completions, many of them: whoever commits first wins, and the answer says who.

use counterstep_contracts::TaskStatus;
use counterstep_contracts::{Host, TaskId};
use counterstep_kernel::client::Refusal;
use counterstep_kernel::turn::turn;
use counterstep_kernel::{CancelToken, Engine};
use std::time::Duration;

/// How a race came out: who won, of how many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Races {
    /// The cancel was accepted, and the task ended as cancelled.
    pub cancelled: usize,
    /// The cancel was too late, and the task was completed.
    pub completed: usize,
}

/// Lets a cancel and a worker run for the end of each of these tasks, the cancel a little later each time, and checks that
/// each accepted cancel ends in Cancelled and each "already completed" was one.
///
/// # Panics
/// When an answer does not come true.
pub async fn cancel_against_completion(engine: &Engine, tasks: Vec<TaskId>, spread: Duration) -> Races {
    let mut races = Races::default();
    let count = u32::try_from(tasks.len().max(1)).expect("a count");
    for (at, task) in (0_u32..).zip(tasks) {
        let worker = engine.clone();
        let working = tokio::spawn(async move {
            loop {
                let record = worker.ports.store.load(task).await.expect("an answer").expect("the task");
                if record.task.status.is_at_rest() {
                    return record.task.status;
                }
                turn(&worker, Host::Worker, task, &CancelToken::new()).await;
            }
        });
        // Over the whole time that a turn takes, and not always at the same place in it.
        tokio::time::sleep(spread * (at % 50) / 50 + spread * at / count / 50).await;
        let answer = engine.cancel(task).await;
        let ended = working.await.expect("the worker ends");
        match (&answer, ended) {
            (Ok(_), TaskStatus::Cancelled) => races.cancelled += 1,
            (Err(Refusal::TooLate(TaskStatus::Completed)), TaskStatus::Completed) => races.completed += 1,
            _ => panic!("task {task}: the cancel was answered {answer:?}, and the task is {ended}"),
        }
    }
    races
}
