//! Breakers on the hints of an adapter, with the adapter's own time: what two processes make of one
//! between them.

use super::eventually;
use counterstep_contracts::BreakerPolicy;
use counterstep_kernel::ports::{Ports, Random};
use counterstep_steps::breaker::{Admission, Breaker, BreakerState, Ticket, Verdict};
use counterstep_steps::runtime::Runtime;
use futures::future::{BoxFuture, join_all};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

const SHORT: BreakerPolicy = BreakerPolicy::per_step()
    .after_failures(3)
    .open_for("150ms");
const LIMIT: Duration = Duration::from_secs(60);

/// The suite is about answers, on a machine that may be busy: a breaker here always waits for them.
#[derive(Debug)]
struct Patient(Arc<dyn Random>);

impl Runtime for Patient {
    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    fn bits(&self) -> u128 {
        self.0.bits()
    }
}

/// Breakers of two processes, of no other case: a server may be shared.
pub(crate) fn of_two(one: &Ports, two: &Ports) -> [Breaker; 2] {
    let key = Uuid::now_v7().to_string();
    [one, two].map(|ports| {
        Breaker::new(
            &key,
            SHORT,
            ports.hints.clone(),
            Arc::new(Patient(ports.random.clone())),
        )
    })
}

async fn fail_until_open(breakers: &[Breaker; 2]) {
    let reports = (0..20).map(|at| breakers[at % 2].report(Ticket::default(), Verdict::Failed));
    join_all(reports).await;
    eventually("half-open", || async {
        (breakers[0].standing().await == BreakerState::HalfOpen).then_some(())
    })
    .await;
}

/// Asks fifty times at once; gives the one ticket.
async fn one_probe(breakers: &[Breaker; 2]) -> Ticket {
    let answers = join_all((0..50).map(|at| breakers[at % 2].admit(LIMIT))).await;
    let mut probes: Vec<_> = answers
        .into_iter()
        .filter_map(|answer| match answer {
            Admission::Go(ticket) => Some(ticket),
            Admission::Wait(_) => None,
        })
        .collect();
    assert!(probes.len() == 1 && probes[0].is_probe(), "{probes:?}");
    probes.remove(0)
}

pub(crate) async fn failures_open_it(ports: &Ports) {
    let breakers = of_two(ports, ports);
    for (at, standing) in [(0, BreakerState::Closed), (1, BreakerState::Closed)] {
        breakers[at]
            .report(Ticket::default(), Verdict::Failed)
            .await;
        assert_eq!(breakers[1 - at].standing().await, standing);
    }
    breakers[0].report(Ticket::default(), Verdict::Failed).await;
    assert_ne!(breakers[1].standing().await, BreakerState::Closed);
}

pub(crate) async fn of_fifty_attempts_of_two_processes_one_probes(ports: &Ports) {
    probes_between(&of_two(ports, ports)).await;
}

pub(crate) async fn probes_between(breakers: &[Breaker; 2]) {
    fail_until_open(breakers).await;
    let lost = one_probe(breakers).await;
    breakers[0].report(lost, Verdict::Unknown).await;
    // The place that was given back ends a millisecond later.
    let failed = eventually("another probe", || async {
        match breakers[1].admit(LIMIT).await {
            Admission::Go(ticket) => Some(ticket),
            Admission::Wait(_) => None,
        }
    })
    .await;
    breakers[1].report(failed, Verdict::Failed).await;
    assert_ne!(breakers[0].standing().await, BreakerState::Closed);
    eventually("half-open", || async {
        (breakers[0].standing().await == BreakerState::HalfOpen).then_some(())
    })
    .await;
    let probe = one_probe(breakers).await;
    breakers[0].report(probe, Verdict::Answered).await;
    assert_eq!(breakers[1].standing().await, BreakerState::Closed);
    // What was counted before belongs to a round that is over.
    breakers[1].report(Ticket::default(), Verdict::Failed).await;
    assert_eq!(breakers[0].standing().await, BreakerState::Closed);
}
