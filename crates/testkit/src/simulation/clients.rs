//! The clients of a run. Each sends a request until it has an answer, with the same key; some send it once more, some cancel.

use super::choice::Choice;
use super::people;
use super::process::{Kind, Processes};
use super::world::World;
use crate::form::{Form, try_submit};
use counterstep_contracts::TaskId;
use counterstep_contracts::http::CancelOutcome;
use counterstep_kernel::Engine;
use counterstep_kernel::client::{self, Refusal, SubmitError};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

/// What clients were told.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Tasks that were accepted.
    pub(super) accepted: BTreeSet<TaskId>,
    /// Tasks of which a cancel was accepted.
    pub(super) cancelled: BTreeSet<TaskId>,
    /// Signals that were accepted, by task and step.
    pub(super) signals: BTreeMap<(TaskId, String), Value>,
    /// Requests that were refused for good.
    pub(super) refused: u32,
}

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A client from its begin to its last answer.
pub(super) async fn client(
    world: Arc<World>,
    processes: Processes,
    told: Arc<Mutex<Told>>,
    number: u32,
    form: Form,
) {
    let mut choice = Choice::of(world.seed, &format!("client {number}"));
    let most = u64::try_from(world.options.faults_for.as_millis()).unwrap_or(u64::MAX);
    sleep(Duration::from_millis(choice.below(most / 2))).await;
    let key = format!("key {number}");
    let form = form.key(&key);
    let Some(task) = submit(&world, &processes, &mut choice, &form).await else {
        told.lock().refused += 1;
        return;
    };
    world.note(("accepted", task.0), || {
        format!("client {number} has its answer: {task}")
    });
    told.lock().accepted.insert(task);
    if !form.answers.is_empty() {
        let planned = form.answers.clone();
        let answers = people::answer(
            world.clone(),
            processes.clone(),
            told.clone(),
            task,
            planned,
        );
        world.tasks.start(world.bag, Box::pin(answers));
    }
    if choice.chance(200) {
        sleep(Duration::from_millis(choice.below(20_000))).await;
        let again = submit(&world, &processes, &mut choice, &form).await;
        if again != Some(task) {
            world.watch.fails(format!(
                "12: client {number} sent its request twice with one key, and was answered {task} and then {again:?}"
            ));
        }
    }
    if choice.chance(250) {
        sleep(Duration::from_millis(choice.below(10_000))).await;
        cancel(&world, &processes, &mut choice, task, &told).await;
    }
}

/// Sends a request until it is answered. `None`: it is refused for good.
async fn submit(
    world: &Arc<World>,
    processes: &Processes,
    choice: &mut Choice,
    form: &Form,
) -> Option<TaskId> {
    loop {
        let form = form.clone();
        let sent = send(world, processes, choice, move |engine| {
            Box::pin(async move { try_submit(&engine, form).await })
        });
        let answer = sent.await;
        if let Some(Err(error)) = &answer {
            world.watch.reached(match error {
                SubmitError::InProgress => "request in progress",
                SubmitError::TooSlow => "request too slow",
                SubmitError::PlaceTaken => "place taken by another",
                SubmitError::Disabled(_) => "request of a disabled type",
                _ => "request without an answer",
            });
        }
        match answer {
            Some(Ok(task)) => return Some(task),
            Some(Err(
                SubmitError::Store(_)
                | SubmitError::InProgress
                | SubmitError::TooSlow
                | SubmitError::Objects(_)
                | SubmitError::PlaceTaken
                | SubmitError::Disabled(_)
                | SubmitError::TooManyAtOnce(_),
            ))
            | None => sleep(Duration::from_millis(choice.within(200, 3_000))).await,
            Some(Err(error)) => {
                world.note(("refused", error.to_string()), || {
                    format!("refused: {error}")
                });
                return None;
            }
        }
    }
}

async fn cancel(
    world: &Arc<World>,
    processes: &Processes,
    choice: &mut Choice,
    task: TaskId,
    told: &Mutex<Told>,
) {
    // As often as a person would.
    for is_first in [true, false, false, false, false] {
        let sent = send(world, processes, choice, move |engine| {
            Box::pin(async move {
                client::cancel(&engine, task, "client")
                    .await
                    .map(|cancelled| (cancelled.answer.outcome, cancelled.again))
            })
        });
        match sent.await {
            Some(Ok((outcome, again))) => {
                if is_first && again {
                    world.watch.fails(format!(
                        "15: the first cancel of task {task} was answered as one that came before"
                    ));
                }
                world.note(("cancelled", task.0), || {
                    format!("cancel of {task}: {outcome:?}")
                });
                world.watch.reached(match outcome {
                    CancelOutcome::NothingHadRun => "cancelled before a step",
                    CancelOutcome::Undoing => "cancelled between steps",
                    CancelOutcome::Stopping => "cancelled in a step",
                    CancelOutcome::AlreadyCancelled => "cancelled twice",
                });
                told.lock().cancelled.insert(task);
                return;
            }
            Some(Err(Refusal::Change(_))) | None => {
                sleep(Duration::from_millis(choice.within(200, 3_000))).await;
            }
            Some(Err(_)) => return,
        }
    }
}

/// Has an API process do something, as a handler does: it goes on when the client is gone. `None`: no answer.
pub(super) async fn send<T: Send + 'static>(
    world: &Arc<World>,
    processes: &Processes,
    choice: &mut Choice,
    handle: impl FnOnce(Engine) -> BoxFuture<'static, T>,
) -> Option<T> {
    let up: Vec<_> = {
        let processes = processes.lock();
        let apis = processes.iter().filter(|it| it.kind == Kind::Api);
        apis.filter_map(|it| it.running.as_ref())
            .map(|it| (it.engine.clone(), it.link.clone()))
            .collect()
    };
    if up.is_empty() {
        return None;
    }
    let (engine, link) = choice.one_of(&up).clone();
    let (answer, answered) = oneshot::channel();
    let handled = handle(engine);
    world.tasks.start(
        link.bag,
        Box::pin(async move {
            // An error: the client waits no longer.
            let _ = answer.send(handled.await);
        }),
    );
    timeout(PATIENCE, answered).await.ok()?.ok()
}
