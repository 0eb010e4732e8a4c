//! The time of the harness's databases: a calendar that nothing corrects while tests run. The
//! machine's may be set back by a moment between two readings, which is a matter for the tests of
//! clocks.

use counterstep_adapters::sqlite::{MachineClock, SystemClocks};
use std::sync::LazyLock;
use std::time::Duration;

/// Calendar and monotonic time, read together once.
static START: LazyLock<(Duration, Duration)> =
    LazyLock::new(|| (SystemClocks.calendar(), SystemClocks.monotonic()));

/// The machine's calendar at the first look, and what has passed since.
#[derive(Debug)]
pub(crate) struct Uncorrected;

impl MachineClock for Uncorrected {
    fn calendar(&self) -> Duration {
        let (calendar, monotonic) = *START;
        calendar + SystemClocks.monotonic().saturating_sub(monotonic)
    }

    fn monotonic(&self) -> Duration {
        SystemClocks.monotonic()
    }
}
