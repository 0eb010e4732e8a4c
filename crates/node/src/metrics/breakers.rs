//! The part of a page of metrics that each process has: its figures, its spool, the server of the database that it uses, and the
//! breakers as it sees them.

use counterstep_kernel::{Engine, status};
use counterstep_steps::breaker::BreakerState;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

/// How long an answer of the hints is reused, however many scrapes come.
const KEPT: Duration = Duration::from_secs(5);

/// Timeout of an answer: a scraper has a timeout of its own, often a few seconds.
const PATIENCE: Duration = Duration::from_secs(2);

type States = Vec<(String, BreakerState)>;

/// What a process shows of itself.
#[derive(Debug)]
pub struct ProcessPage {
    engine: Engine,
    breakers: Mutex<Option<(Instant, States)>>,
}

impl ProcessPage {
    /// Of this engine.
    #[must_use]
    pub fn of(engine: &Engine) -> Self {
        Self {
            engine: engine.clone(),
            breakers: Mutex::default(),
        }
    }

    /// Appends it to a page in the text format of OpenMetrics, without the last line of one.
    pub async fn write(&self, page: &mut String) {
        self.engine.recorder.write(page);
        super::spool::write(&self.engine, page);
        super::database::write(&self.engine, page);
        let states = self.breakers().await;
        if states.is_empty() {
            return;
        }
        let family = Family::<Vec<(&'static str, String)>, Gauge>::default();
        for (breaker, found) in &states {
            for (state, is_it) in [
                ("closed", matches!(found, BreakerState::Closed)),
                ("half_open", matches!(found, BreakerState::HalfOpen)),
                ("open", matches!(found, BreakerState::Open(_))),
            ] {
                let series = vec![("breaker", breaker.clone()), ("state", state.to_owned())];
                family.get_or_create(&series).set(is_it.into());
            }
        }
        let mut registry = Registry::with_prefix("counterstep");
        let help = "1 for the state of a breaker as this process sees it, 0 for its other states";
        registry.register("breaker_state", help, family);
        // A text takes whatever is written to it.
        let _ = encode_registry(page, &registry);
    }

    /// None where the hints do not answer.
    // The lock is held while they are asked: those who come meanwhile wait for the answer.
    async fn breakers(&self) -> States {
        let mut last = self.breakers.lock().await;
        if let Some((at, states)) = &*last
            && at.elapsed() < KEPT
        {
            return states.clone();
        }
        let states = timeout(PATIENCE, status::breakers(&self.engine)).await;
        let states = states.unwrap_or_default();
        *last = Some((Instant::now(), states.clone()));
        states
    }
}
