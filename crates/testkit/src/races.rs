//! Cancels against completions, many of them: the first commit wins, and the answer says which.

use counterstep_contracts::TaskStatus;
use counterstep_contracts::{Host, TaskId};
use counterstep_kernel::Engine;
use counterstep_kernel::client;
use counterstep_kernel::client::Refusal;
use counterstep_kernel::turn::turn;
use counterstep_steps::CancelToken;
use std::time::Duration;

/// How a race came out: who won, of how many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Races {
    /// The cancel was accepted, and the task ended as cancelled.
    pub cancelled: usize,
    /// The cancel was too late, and the task was completed.
    pub completed: usize,
}

/// Lets a cancel and a worker run for the end of each of these tasks, and checks that each accepted
/// cancel ends in Cancelled and each "already completed" was one. The cancel comes later after it
/// has won and earlier after it has lost, so that it stays close to the end of a task on a fast
/// machine and on a busy one. Give it a hundred tasks or more.
///
/// # Panics
/// When an answer does not come true, or one side has won all races.
pub async fn cancel_against_completion(engine: &Engine, tasks: Vec<TaskId>) -> Races {
    let mut races = Races::default();
    let mut delay = Duration::from_millis(1);
    for task in tasks {
        let worker = engine.clone();
        let working = tokio::spawn(async move {
            loop {
                let record = worker
                    .ports
                    .store
                    .load(task)
                    .await
                    .expect("an answer")
                    .expect("the task");
                if record.task.status.is_at_rest() {
                    return record.task.status;
                }
                turn(&worker, Host::Worker, task, &CancelToken::new()).await;
            }
        });
        engine.ports.clock.sleep(delay).await;
        let answer = client::cancel(engine, task, "client").await;
        let ended = working.await.expect("the worker ends");
        match (&answer, ended) {
            (Ok(_), TaskStatus::Cancelled) => {
                races.cancelled += 1;
                delay = delay * 5 / 4 + Duration::from_micros(100);
            }
            (Err(Refusal::TooLate(TaskStatus::Completed)), TaskStatus::Completed) => {
                races.completed += 1;
                delay = delay * 3 / 4;
            }
            _ => panic!("task {task}: the cancel was answered {answer:?}, and the task is {ended}"),
        }
    }
    assert!(
        races.cancelled > 0 && races.completed > 0,
        "there was no race: {races:?}"
    );
    races
}
