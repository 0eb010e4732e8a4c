//! Logs on standard error: text for people, JSON lines for machines.

use crate::panics;
use crate::settings::LogFormat;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

/// Logs one line at ERROR for each connection that a client spoils: a head that cannot be parsed, a
/// body that breaks off. What fails on this side has lines of its own.
const CLIENTS_FAULTS: &str = "actix_http::h1";

/// Starts logging, panics included. A second call in one process changes nothing.
pub fn start(filter: &str, format: LogFormat) {
    // `Targets` and not `EnvFilter`: filters by the fields of spans are not needed, and it would
    // bring an engine for regular expressions into every cold build.
    let parsed = filter.parse::<Targets>();
    let unreadable = parsed.as_ref().err().map(ToString::to_string);
    let targets = parsed.unwrap_or_else(|_| Targets::new().with_default(LevelFilter::INFO));
    // A filter that names the library is obeyed.
    let targets = if filter.contains("actix_http") {
        targets
    } else {
        targets.with_target(CLIENTS_FAULTS, LevelFilter::OFF)
    };
    let lines = match format {
        LogFormat::Text => fmt::layer().with_writer(std::io::stderr).boxed(),
        LogFormat::Json => fmt::layer()
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_writer(std::io::stderr)
            .boxed(),
    };
    let layers = tracing_subscriber::registry()
        .with(panics::executions())
        .with(lines.with_filter(targets));
    // Only an earlier start makes this fail, and then there is a log already.
    if layers.try_init().is_ok() {
        panics::log_panics();
    }
    if let Some(error) = unreadable {
        tracing::warn!(filter, error, "invalid log filter; logging at `info`");
    }
}
