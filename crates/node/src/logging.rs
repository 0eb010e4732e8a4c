//! Logs on standard error: text for people, JSON lines for machines.

use crate::settings::LogFormat;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

/// Starts logging. A second call in one process changes nothing.
pub fn start(filter: &str, format: LogFormat) {
    // `Targets` and not `EnvFilter`: nobody filters by the fields of spans, and it would bring an engine for regular
    // expressions into every cold build.
    let filter: Targets = filter.parse().unwrap_or_else(|error| {
        eprintln!("the log filter `{filter}` cannot be read ({error}); logging at `info`");
        Targets::new().with_default(tracing::level_filters::LevelFilter::INFO)
    });
    let lines = match format {
        LogFormat::Text => fmt::layer().with_writer(std::io::stderr).boxed(),
        LogFormat::Json => fmt::layer().json().flatten_event(true).with_writer(std::io::stderr).boxed(),
    };
    let started = tracing_subscriber::registry().with(lines.with_filter(filter)).try_init();
    // Only an earlier start makes this fail, and then there is a log already.
    let _ = started;
}
