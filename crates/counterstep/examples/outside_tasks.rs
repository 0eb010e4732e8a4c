//! A retry policy around code that is no step: on Tokio, with a token that ends it, and with an
//! error of one's own.

use counterstep::contracts::Attempt;
use counterstep::prelude::*;
use counterstep::resilience::{Classified, Resilient, RunError, TokioRuntime};
use counterstep::steps::CancelToken;
use counterstep::steps::error::ErrorClass;

const PATIENT: RetryPolicy = RetryPolicy::exponential("50ms")
    .max_retries(5)
    .cap("1s")
    .attempt_timeout("5s");

/// What can go wrong, and what each means for the next attempt.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("the rates are being written")]
    Busy,
    #[error("there are no rates for `{0}`")]
    NoSuchCurrency(String),
}

impl Classified for FetchError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Busy => ErrorClass::Transient,
            Self::NoSuchCurrency(_) => ErrorClass::Permanent,
        }
    }
}

async fn fetch_rate(currency: &str, attempt: Attempt) -> Result<f64, FetchError> {
    match (currency, attempt.0) {
        ("EUR", 1 | 2) => Err(FetchError::Busy),
        ("EUR", _) => Ok(1.08),
        _ => Err(FetchError::NoSuchCurrency(currency.to_owned())),
    }
}

#[tokio::main]
async fn main() {
    let shutdown = CancelToken::new();
    for currency in ["EUR", "XYZ"] {
        match PATIENT
            .on(&TokioRuntime)
            .until(&shutdown)
            .run(|attempt| fetch_rate(currency, attempt))
            .await
        {
            Ok(rate) => println!("{currency}: {rate}"),
            Err(RunError::Failed { error, attempts }) => {
                println!("{currency}: {error}, after attempt {attempts}")
            }
            Err(ended) => println!("{currency}: {ended}"),
        }
    }
}
