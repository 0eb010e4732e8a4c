//! Policies around code outside of tasks, on a runtime without time: a sleep ends at once and is
//! written down.

mod breakers;

use counterstep_steps::contracts::Attempt;
use counterstep_steps::error::ErrorClass;
use counterstep_steps::{
    CancelReason, CancelToken, Classified, Resilient, RetryPolicy, RunError, Runtime, StepError,
};
use futures::future::BoxFuture;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
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

/// Fails `failures` times, and then gives the number of its attempt.
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
    assert_eq!(runtime.slept().len(), 6, "no wait after the last attempt");
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
