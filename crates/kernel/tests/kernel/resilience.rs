//! Policies around code outside of tasks, on a runtime without time: a sleep ends at once and is
//! written down.

use counterstep_kernel::breaker::{Admission, Breaker, Standing, Ticket, Verdict};
use counterstep_kernel::contracts::Attempt;
use counterstep_kernel::error::ErrorClass;
use counterstep_kernel::ports::{HintError, Hints};
use counterstep_kernel::{
    BreakerPolicy, CancelReason, CancelToken, Classified, Resilient, RetryPolicy, RunError,
    Runtime, StepError,
};
use futures::future::BoxFuture;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PATIENT: RetryPolicy = RetryPolicy::exponential("1s")
    .max_retries(3)
    .cap("3s")
    .jitter(false);

/// Sleeps end at once; time limits end at once where that is told, else never.
#[derive(Debug, Default)]
struct NoTime {
    slept: Mutex<Vec<Duration>>,
    drawn: AtomicU64,
    limits_end: bool,
    cancels: Option<CancelToken>,
}

impl NoTime {
    fn slept(&self) -> Vec<u64> {
        self.slept
            .lock()
            .unwrap()
            .iter()
            .map(Duration::as_secs)
            .collect()
    }
}

impl Runtime for NoTime {
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        self.slept.lock().unwrap().push(time);
        match &self.cancels {
            // The token is cancelled while it waits.
            Some(token) => {
                token.cancel(CancelReason::Requested);
                Box::pin(std::future::pending())
            }
            None => Box::pin(std::future::ready(())),
        }
    }

    fn bits(&self) -> u128 {
        u128::from(self.drawn.fetch_add(1, Ordering::Relaxed))
    }

    fn timeout(&self, _: Duration) -> BoxFuture<'static, ()> {
        if self.limits_end {
            Box::pin(std::future::ready(()))
        } else {
            Box::pin(std::future::pending())
        }
    }
}

/// Fails so often, and then gives the number of its attempt.
async fn after(
    failures: i32,
    attempt: Attempt,
    error: fn() -> StepError,
) -> Result<i32, StepError> {
    if attempt.0 <= failures {
        Err(error())
    } else {
        Ok(attempt.0)
    }
}

fn busy() -> StepError {
    StepError::transient("busy")
}

#[tokio::test]
async fn retries_come_after_the_first_try_with_the_delays_of_the_policy() {
    let runtime = NoTime::default();
    assert_eq!(
        PATIENT
            .on(&runtime)
            .run(|attempt| after(3, attempt, busy))
            .await
            .unwrap(),
        4
    );
    assert_eq!(runtime.slept(), [1, 2, 3], "the third of 1, 2, 4 is capped");

    let error = PATIENT
        .on(&runtime)
        .run(|attempt| after(4, attempt, busy))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, RunError::Failed { error, attempts: Attempt(4) } if error.message == "busy"),
        "{error}"
    );
    assert_eq!(
        runtime.slept().len(),
        6,
        "nobody waits after the last attempt"
    );
}

#[tokio::test]
async fn jitter_takes_up_to_half_of_a_delay() {
    let runtime = NoTime::default();
    PATIENT
        .jitter(true)
        .on(&runtime)
        .run(|attempt| after(3, attempt, busy))
        .await
        .unwrap();
    for (slept, whole) in runtime.slept.lock().unwrap().iter().zip([1, 2, 3]) {
        let whole = Duration::from_secs(whole);
        assert!((whole / 2..=whole).contains(slept), "{slept:?}");
    }
}

#[tokio::test]
async fn what_will_not_pass_ends_it_and_a_rate_limit_is_honoured() {
    let runtime = NoTime::default();
    for error in [|| StepError::permanent("no"), || StepError::cancelled()] {
        let ended = PATIENT
            .on(&runtime)
            .run(|attempt| after(9, attempt, error))
            .await
            .unwrap_err();
        assert!(
            matches!(
                ended,
                RunError::Failed {
                    attempts: Attempt(1),
                    ..
                }
            ),
            "{ended}"
        );
    }
    assert!(runtime.slept().is_empty());
    let patience = || StepError::rate_limited(Duration::from_secs(60), "slowly");
    PATIENT
        .on(&runtime)
        .run(|attempt| after(1, attempt, patience))
        .await
        .unwrap();
    assert_eq!(runtime.slept(), [60], "longer than the cap");
}

#[tokio::test]
async fn each_attempt_has_a_fresh_limit() {
    let runtime = NoTime {
        limits_end: true,
        ..NoTime::default()
    };
    let limited = PATIENT.attempt_timeout("5s");
    let mut attempts = Vec::new();
    let work = |attempt: Attempt| {
        attempts.push(attempt.0);
        async move {
            if attempt.0 <= 2 {
                std::future::pending::<()>().await;
            }
            Ok::<_, StepError>(attempt.0)
        }
    };
    assert_eq!(
        limited.on(&runtime).run(work).await.unwrap(),
        3,
        "the first two ran into their limits"
    );
    assert_eq!(attempts, [1, 2, 3]);
    let hangs = |_| std::future::pending::<Result<(), StepError>>();
    let error = limited.on(&runtime).run(hangs).await.unwrap_err();
    assert!(
        matches!(
            error,
            RunError::TimedOut {
                attempts: Attempt(4),
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(
        error.to_string(),
        "attempt 4 was the last: it ran longer than its limit of 5s"
    );
}

#[tokio::test]
async fn a_cancelled_token_ends_it_before_between_and_during_attempts() {
    let token = CancelToken::new();
    let runtime = NoTime {
        cancels: Some(token.clone()),
        ..NoTime::default()
    };
    let between = PATIENT
        .on(&runtime)
        .until(&token)
        .run(|attempt| after(9, attempt, busy))
        .await
        .unwrap_err();
    assert!(matches!(
        between,
        RunError::Cancelled {
            attempts: Attempt(1),
            reason: CancelReason::Requested
        }
    ));
    let before = PATIENT
        .on(&runtime)
        .until(&token)
        .run(|attempt| after(0, attempt, busy))
        .await
        .unwrap_err();
    assert!(
        matches!(
            before,
            RunError::Cancelled {
                attempts: Attempt(0),
                ..
            }
        ),
        "{before}"
    );

    let token = CancelToken::new();
    let runtime = NoTime::default();
    let hangs = |_| {
        token.cancel(CancelReason::Shutdown);
        std::future::pending::<Result<(), StepError>>()
    };
    let during = PATIENT
        .on(&runtime)
        .until(&token)
        .run(hangs)
        .await
        .unwrap_err();
    assert!(matches!(
        during,
        RunError::Cancelled {
            attempts: Attempt(1),
            reason: CancelReason::Shutdown
        }
    ));
}

#[tokio::test]
async fn an_error_of_ones_own_says_what_it_means() {
    #[derive(Debug, PartialEq)]
    enum Mine {
        Locked,
        Wrong,
    }
    impl Classified for Mine {
        fn class(&self) -> ErrorClass {
            match self {
                Self::Locked => ErrorClass::Transient,
                Self::Wrong => ErrorClass::Permanent,
            }
        }
    }
    let runtime = NoTime::default();
    let work = |attempt: Attempt| async move {
        if attempt.0 == 1 {
            Err::<(), _>(Mine::Locked)
        } else {
            Err(Mine::Wrong)
        }
    };
    let ended = PATIENT.on(&runtime).run(work).await.unwrap_err();
    assert!(matches!(
        ended,
        RunError::Failed {
            error: Mine::Wrong,
            attempts: Attempt(2)
        }
    ));
}

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
        Standing::Closed,
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
    assert_eq!(two.standing().await, Standing::HalfOpen);
    let probe = admitted(&one).await;
    assert!(probe.is_probe());
    assert!(matches!(two.admit(LIMIT).await, Admission::Wait(_)));
    two.report(late, Verdict::Answered).await;
    assert_eq!(
        one.standing().await,
        Standing::HalfOpen,
        "an attempt from before says nothing about now"
    );
    one.report(probe, Verdict::Answered).await;
    assert_eq!(two.standing().await, Standing::Closed);
    fails(&two, 2).await;
    assert_eq!(
        one.standing().await,
        Standing::Closed,
        "failures from before it opened are not counted again"
    );
    fails(&two, 1).await;
    assert!(matches!(one.standing().await, Standing::Open(_)));
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
    hints.advance(Duration::from_millis(1));
    let lost = admitted(&two).await;
    assert!(lost.is_probe());
    drop(lost);
    assert!(matches!(one.admit(LIMIT).await, Admission::Wait(_)));
    hints.advance(LIMIT);
    assert!(
        admitted(&one).await.is_probe(),
        "whoever does not report loses its place with its limit"
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
        Standing::Open(Duration::from_secs(15)),
        "it is not open any longer for that"
    );
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
