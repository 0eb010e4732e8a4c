//! Breakers of two processes that share their hints: when they open, let one attempt through, and
//! close.

use super::{NoTime, PATIENT, busy};
use counterstep_steps::breaker::{Admission, Breaker, BreakerState, Ticket, Verdict};
use counterstep_steps::contracts::Attempt;
use counterstep_steps::ports::{HintError, Hints};
use counterstep_steps::{BreakerPolicy, Resilient, RunError, StepError};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Hints whose time a test moves.
#[derive(Debug, Default)]
struct Memory {
    now: Mutex<Duration>,
    kept: Mutex<HashMap<String, (String, Duration)>>,
    counted: Mutex<HashMap<String, (u64, Duration)>>,
}

impl Memory {
    fn advance(&self, by: Duration) {
        *self.now.lock().unwrap() += by;
    }

    fn now(&self) -> Duration {
        *self.now.lock().unwrap()
    }
}

#[async_trait::async_trait]
impl Hints for Memory {
    async fn seen(&self, _: &str) -> Result<bool, HintError> {
        Err(HintError("not asked here".to_owned()))
    }

    async fn remember(&self, _: &str, _: Duration) -> Result<(), HintError> {
        Err(HintError("not asked here".to_owned()))
    }

    async fn bump(&self, counter: &str, window: Duration) -> Result<u64, HintError> {
        let (now, mut counted) = (self.now(), self.counted.lock().unwrap());
        counted.retain(|_, (_, until)| *until > now);
        let (count, _) = counted
            .entry(counter.to_owned())
            .or_insert((0, now + window));
        *count += 1;
        Ok(*count)
    }

    async fn get(&self, key: &str) -> Result<Option<String>, HintError> {
        let (now, mut kept) = (self.now(), self.kept.lock().unwrap());
        kept.retain(|_, (_, until)| *until > now);
        Ok(kept.get(key).map(|(value, _)| value.clone()))
    }

    async fn left(&self, key: &str) -> Result<Option<Duration>, HintError> {
        let now = self.now();
        Ok(self
            .kept
            .lock()
            .unwrap()
            .get(key)
            .map(|(_, until)| until.saturating_sub(now)))
    }

    async fn set(&self, key: &str, value: &str, ttl: Duration) -> Result<(), HintError> {
        let now = self.now();
        self.kept
            .lock()
            .unwrap()
            .insert(key.to_owned(), (value.to_owned(), now + ttl));
        Ok(())
    }

    async fn swap(
        &self,
        key: &str,
        was: Option<&str>,
        value: &str,
        ttl: Duration,
    ) -> Result<bool, HintError> {
        if self.get(key).await?.as_deref() != was {
            return Ok(false);
        }
        self.set(key, value, ttl).await.map(|()| true)
    }
}

const BREAKER: BreakerPolicy = BreakerPolicy::named("payments")
    .after_failures(3)
    .within("1m")
    .open_for("30s");
const LIMIT: Duration = Duration::from_secs(10);

/// Two processes with a breaker each, on the same hints.
fn two_breakers() -> (Arc<Memory>, [Breaker; 2]) {
    let (hints, runtime) = (Arc::new(Memory::default()), Arc::new(NoTime::default()));
    let breaker = || Breaker::new("payments", BREAKER, hints.clone(), runtime.clone());
    (hints.clone(), [breaker(), breaker()])
}

async fn admitted(breaker: &Breaker) -> Ticket {
    match breaker.admit(LIMIT).await {
        Admission::Go(ticket) => ticket,
        Admission::Wait(left) => panic!("it is to wait for {left:?}"),
    }
}

async fn fails(breaker: &Breaker, times: usize) {
    for _ in 0..times {
        let ticket = admitted(breaker).await;
        breaker.report(ticket, Verdict::Failed).await;
    }
}

#[tokio::test]
async fn failures_of_two_processes_within_the_window_open_the_breaker_of_both() {
    let (hints, [one, two]) = two_breakers();
    fails(&one, 2).await;
    hints.advance(BREAKER.within);
    fails(&two, 2).await;
    assert_eq!(
        one.standing().await,
        BreakerState::Closed,
        "the first two are out of the window"
    );
    fails(&one, 1).await;
    for breaker in [&one, &two] {
        assert_eq!(
            breaker.admit(LIMIT).await,
            Admission::Wait(BREAKER.open_for)
        );
    }
    hints.advance(Duration::from_secs(20));
    assert_eq!(
        two.admit(LIMIT).await,
        Admission::Wait(Duration::from_secs(10))
    );
}

#[tokio::test]
async fn half_open_one_attempt_of_all_probes_and_its_answer_closes() {
    let (hints, [one, two]) = two_breakers();
    let late = admitted(&two).await;
    fails(&one, 3).await;
    hints.advance(BREAKER.open_for);
    assert_eq!(two.standing().await, BreakerState::HalfOpen);
    assert_eq!(two.probing().await, None);
    let probe = admitted(&one).await;
    assert!(probe.is_probe());
    assert_eq!(two.probing().await, Some(BREAKER.open_for / 2));
    assert!(matches!(two.admit(LIMIT).await, Admission::Wait(_)));
    two.report(late, Verdict::Answered).await;
    assert_eq!(
        one.standing().await,
        BreakerState::HalfOpen,
        "an attempt from before says nothing about now"
    );
    one.report(probe, Verdict::Answered).await;
    assert_eq!(two.standing().await, BreakerState::Closed);
    fails(&two, 2).await;
    assert_eq!(
        one.standing().await,
        BreakerState::Closed,
        "failures from before it opened are not counted again"
    );
    fails(&two, 1).await;
    assert!(matches!(one.standing().await, BreakerState::Open(_)));
}

#[tokio::test]
async fn a_probe_that_fails_opens_it_again_and_one_that_is_lost_is_followed_by_another() {
    let (hints, [one, two]) = two_breakers();
    fails(&one, 3).await;
    hints.advance(BREAKER.open_for);
    fails(&one, 1).await;
    assert_eq!(
        two.admit(LIMIT).await,
        Admission::Wait(BREAKER.open_for),
        "one failed probe is enough"
    );
    hints.advance(BREAKER.open_for);

    let cancelled = admitted(&one).await;
    one.report(cancelled, Verdict::Unknown).await;
    assert_eq!(two.probing().await, None, "it was given back");
    let lost = admitted(&two).await;
    assert!(lost.is_probe());
    drop(lost);
    assert!(matches!(one.admit(LIMIT).await, Admission::Wait(_)));
    hints.advance(LIMIT);
    assert!(
        admitted(&one).await.is_probe(),
        "a caller that does not report loses its place with its limit"
    );
}

#[tokio::test]
async fn of_all_that_open_it_at_once_one_does_and_a_late_failure_changes_nothing() {
    let (hints, [one, two]) = two_breakers();
    let late: Vec<Ticket> = futures::future::join_all((0..20).map(|_| admitted(&one))).await;
    futures::future::join_all(
        late.into_iter()
            .map(|ticket| two.report(ticket, Verdict::Failed)),
    )
    .await;
    hints.advance(Duration::from_secs(15));
    one.report(Ticket::default(), Verdict::Failed).await;
    assert_eq!(
        two.standing().await,
        BreakerState::Open(Duration::from_secs(15)),
        "it is not open any longer for that"
    );
}

#[tokio::test]
async fn a_person_closes_an_open_one_and_failures_from_before_count_no_more() {
    let (hints, [one, two]) = two_breakers();
    assert_eq!(one.close().await, Some(false), "it is not open");
    fails(&one, 3).await;
    assert_eq!(two.close().await, Some(true));
    assert_eq!(one.standing().await, BreakerState::Closed);
    assert_eq!(two.close().await, Some(false), "once more");
    fails(&one, 2).await;
    assert_eq!(two.standing().await, BreakerState::Closed);
    fails(&one, 1).await;
    assert!(matches!(two.standing().await, BreakerState::Open(_)));

    // Half-open: the answer of a probe from before says nothing about the new round.
    hints.advance(BREAKER.open_for);
    let probe = admitted(&one).await;
    assert_eq!(two.close().await, Some(true));
    one.report(probe, Verdict::Failed).await;
    assert_eq!(two.standing().await, BreakerState::Closed);
}

#[tokio::test]
async fn behind_an_open_breaker_nothing_is_tried() {
    let (_, [breaker, other]) = two_breakers();
    let runtime = NoTime::default();
    let mut calls = 0;
    let error = PATIENT
        .max_retries(9)
        .on(&runtime)
        .behind(&breaker)
        .run(|_| {
            calls += 1;
            async { Err::<(), _>(busy()) }
        })
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            RunError::Open {
                left: BREAKER_OPEN,
                attempts: Attempt(3)
            }
        ),
        "{error}"
    );
    assert_eq!(calls, 3);
    let error = PATIENT
        .on(&runtime)
        .behind(&other)
        .run(|_| async { Ok::<_, StepError>(()) })
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            RunError::Open {
                attempts: Attempt(0),
                ..
            }
        ),
        "{error}"
    );
}

const BREAKER_OPEN: Duration = BREAKER.open_for;
