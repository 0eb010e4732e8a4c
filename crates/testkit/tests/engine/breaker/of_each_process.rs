//! Breakers of processes that share no hints: each has its own, and people see and close those of all.

use super::{PAYMENTS, Sale, breaker};
use crate::errand::only;
use counterstep_adapters::local::LocalHints;
use counterstep_contracts::workers::{BreakerStanding, BreakerView};
use counterstep_kernel::Engine;
use counterstep_kernel::admission::breakers::{
    BreakerDecision, BreakerError, breakers_of_all, close_breaker,
};
use counterstep_kernel::ports::PortsRuntime;

use counterstep_kernel::workers::registration::Part;
use counterstep_kernel::workers::worker_registry::keep_refreshed;
use counterstep_steps::breaker::{Breaker, BreakerState, Ticket, Verdict};
use counterstep_steps::times::DbTime;
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::{Harness, Site};
use std::sync::Arc;

const KIM: BreakerDecision<'static> = BreakerDecision {
    actor: "operator:kim",
    note: "the bank answers again",
};

/// A worker beside the process of a site, with hints of its own.
fn worker(site: &Site) -> Engine {
    let mut ports = site.engine.ports.clone();
    ports.hints = Arc::new(LocalHints::with_clock(&ports.clock));
    let settings = (*site.engine.settings).clone();
    Engine::new(ports, site.engine.registry.clone(), settings, "worker")
}

fn payments(of: &Engine) -> Breaker {
    let runtime = Arc::new(PortsRuntime::from(&of.ports));
    Breaker::new("payments", PAYMENTS, of.ports.hints.clone(), runtime)
}

async fn open(breaker: &Breaker) {
    for _ in 0..3 {
        breaker.report(Ticket::default(), Verdict::Failed).await;
    }
    let state = breaker.standing().await;
    assert!(matches!(state, BreakerState::Open(_)), "{state:?}");
}

async fn shown(site: &Site) -> BreakerView {
    let found = breakers_of_all(&site.engine).await.expect("they are read");
    let [one] = &found[..] else {
        panic!("one breaker: {found:?}")
    };
    one.clone()
}

/// When the worker's row was written.
async fn refreshed(site: &Site, worker: &Engine) -> Option<DbTime> {
    let found = site.engine.ports.store.workers().await.expect("processes");
    let mut rows = found.rows.into_iter();
    let row = rows.find(|seen| *seen.row.id == *worker.id)?;
    Some(row.seen_at)
}

/// Lets it refresh its row once more.
async fn refresh(site: &Site, worker: &Engine) {
    let before = refreshed(site, worker).await;
    eventually("a later row", || async {
        site.clock.advance("1s");
        (refreshed(site, worker).await > before).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_breaker_that_one_process_has_open_is_shown_and_closed_by_another() {
    let site = Harness::embedded(only::<Sale>()).start().await;
    let worker = worker(&site);
    let working = worker.clone();
    let refreshing = tokio::spawn(async move {
        keep_refreshed(
            &working,
            Part::default(),
            Box::pin(std::future::pending::<()>()),
        )
        .await;
    });
    eventually("its first row", || async {
        refreshed(&site, &worker).await.map(drop)
    })
    .await;
    open(&payments(&worker)).await;
    assert_eq!(breaker(&site).standing().await, BreakerState::Closed);
    refresh(&site, &worker).await;
    let found = shown(&site).await;
    assert_ne!(found.state, BreakerStanding::Closed);
    assert_eq!(found.processes, [worker.id.to_string()]);

    let unknown = close_breaker(&site.engine, "bakery", KIM).await;
    assert!(matches!(unknown, Err(BreakerError::Unknown)), "{unknown:?}");
    let closed = close_breaker(&site.engine, "payments", KIM).await;
    let closed = closed.expect("it is closed");
    assert_eq!(closed.state, BreakerStanding::Closed);
    assert_eq!(closed.processes, [worker.id.to_string()]);
    // The next row may be of a refresh that had read what is closed before.
    eventually("a closed breaker", || async {
        refresh(&site, &worker).await;
        let standing = payments(&worker).standing().await;
        (standing == BreakerState::Closed).then_some(())
    })
    .await;
    refresh(&site, &worker).await;
    let found = shown(&site).await;
    assert_eq!(
        (found.state, found.processes),
        (BreakerStanding::Closed, Vec::new())
    );

    // What was closed once does not keep it closed.
    refresh(&site, &worker).await;
    open(&payments(&worker)).await;
    refresh(&site, &worker).await;
    assert_ne!(payments(&worker).standing().await, BreakerState::Closed);
    assert_eq!(shown(&site).await.processes, [worker.id.to_string()]);
    refreshing.abort();
}
