//! Hosts that are lost at a moment that a test names, however busy the machine is.

use counterstep_contracts::{Host, TaskId};
use counterstep_kernel::Engine;
use counterstep_kernel::engine::faults::Fault;
use counterstep_kernel::turn::turn;
use counterstep_steps::CancelToken;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

/// What has not happened after this long never will.
const LIMIT: Duration = Duration::from_secs(60);

/// Gives the task a turn on a worker and drops it as soon as `moment` has come: like a process that
/// dies, it says nothing to anyone.
pub(crate) async fn lost_at(engine: &Engine, task: TaskId, moment: impl Fn() -> bool) {
    let (token, until) = (CancelToken::new(), Instant::now() + LIMIT);
    let mut look = tokio::time::interval(Duration::from_millis(5));
    let mut turn = pin!(turn(engine, Host::Worker, task, &token));
    loop {
        tokio::select! {
            // The turn is never polled again once the moment has come: it cannot run into a limit
            // first.
            biased;
            () = poll_fn(|_| if moment() { Poll::Ready(()) } else { Poll::Pending }) => return,
            end = &mut turn => panic!("its turn ended before it was lost: {end:?}"),
            _ = look.tick() => assert!(Instant::now() < until, "the moment never came"),
        }
    }
}

/// The same at a fault that hangs.
pub(crate) async fn lost_in(engine: &Engine, task: TaskId, fault: &Fault) {
    let before = fault.struck();
    lost_at(engine, task, || fault.struck() > before).await;
}
