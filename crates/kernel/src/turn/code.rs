//! One run of an author's code on the runner of steps: its panic caught, its end bounded, and,
//! where it does not let go of its thread, abandoned. Must not know what the code is for.

use crate::admission::isolation::Isolation;
use crate::engine::Engine;
use crate::error::CaughtPanic;
use crate::ports::{CodeLabel, Observation};
use crate::record::TaskRow;
use futures::FutureExt;
use futures::future::{Either, select};
use parking_lot::Mutex;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tracing::Span;

/// Code that waits is dropped at once when its time is up; code that computes or blocks may take so
/// long to get to a point where it can be.
const LETS_GO_WITHIN: Duration = Duration::from_millis(250);

/// Code that did not come to its end.
#[derive(Debug)]
pub(super) enum NotDone<L> {
    /// It panicked.
    Panicked(CaughtPanic),
    /// Its time was up.
    Late(L),
}

/// What the two sides of a run know of each other.
#[derive(Debug, Default)]
struct Run {
    over: Notify,
    state: Mutex<RunState>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum RunState {
    #[default]
    Running,
    Abandoned,
    Gone,
}

impl Run {
    /// Takes the new state, and gives the old one.
    fn become_(&self, state: RunState) -> RunState {
        std::mem::replace(&mut *self.state.lock(), state)
    }
}

/// Goes away together with the code.
struct Occupied {
    run: Arc<Run>,
    isolation: Arc<Isolation>,
    label: CodeLabel,
}

impl Drop for Occupied {
    fn drop(&mut self) {
        if self.run.become_(RunState::Gone) == RunState::Abandoned {
            let CodeLabel {
                task, step, part, ..
            } = &self.label;
            self.isolation.returned(*task);
            tracing::warn!(%task, step, part, "abandoned code has let go of its thread");
        }
    }
}

/// Ends the code when the turn that waits for it is dropped.
struct EndsWith(Arc<Run>);

impl Drop for EndsWith {
    fn drop(&mut self) {
        self.0.over.notify_one();
    }
}

/// The span of code that is not awaited: a condition, a wait, the response. What it logs names its
/// task and step by it.
pub(super) fn span(task: &TaskRow, step: Option<&str>, part: &'static str) -> Span {
    tracing::error_span!(
        "decision",
        task = %task.id,
        task_type = task.task_type,
        step,
        part,
        trace_id = task.trace_id(),
    )
}

/// Runs `code` until it ends, or `late` does. Late code is dropped where it waits; where it blocks
/// its thread, it is abandoned: nothing waits for it any more, and a process in which there is as much
/// of it as there are slots takes no more tasks until some has returned.
pub(super) async fn run<T, L>(
    engine: &Engine,
    label: CodeLabel,
    code: impl Future<Output = T> + Send + Unpin + 'static,
    late: impl Future<Output = L> + Send,
) -> Result<T, NotDone<L>>
where
    T: Send + 'static,
{
    let run = Arc::new(Run::default());
    let _ends = EndsWith(run.clone());
    let (to, from) = oneshot::channel();
    let occupied = Occupied {
        run: run.clone(),
        isolation: engine.isolation.clone(),
        label: label.clone(),
    };
    let stopped = run.clone();
    let guarded = async move {
        // Declared first, so dropped last: after the code.
        let _occupied = occupied;
        let code = AssertUnwindSafe(code).catch_unwind();
        let over = pin!(stopped.over.notified());
        if let Either::Left((ended, _)) = select(code, over).await {
            // The turn may have given up on it in this moment.
            let _ = to.send(ended.map_err(|panic| CaughtPanic::of(panic.as_ref())));
        }
    };
    let running = engine.ports.steps.start(label.clone(), Box::pin(guarded));
    let (late, running) = match select(running, pin!(late)).await {
        Either::Left(((), _)) => {
            let ended = from.await.unwrap_or_else(|_| Err(CaughtPanic::dropped()));
            return ended.map_err(NotDone::Panicked);
        }
        Either::Right(late) => late,
    };
    run.over.notify_one();
    if let Either::Left(_) = select(running, engine.ports.clock.sleep(LETS_GO_WITHIN)).await {
        return Err(NotDone::Late(late));
    }
    let mut state = run.state.lock();
    if *state == RunState::Running {
        *state = RunState::Abandoned;
        let CodeLabel {
            task, step, part, ..
        } = &label;
        engine.isolation.abandon(*task);
        engine.observe(Observation::Abandoned);
        tracing::error!(
            %task,
            step,
            part,
            "code that blocks its thread was abandoned; its slot is free again, and its thread is not until it returns"
        );
    }
    drop(state);
    Err(NotDone::Late(late))
}
