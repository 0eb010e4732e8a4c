//! Logs on standard error: text for people, JSON lines for machines.

use crate::settings::LogFormat;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

/// Starts logging. A second call in one process changes nothing.
pub fn start(filter: &str, format: LogFormat) {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|error| {
        eprintln!("the log filter `{filter}` cannot be read ({error}); logging at `info`");
        EnvFilter::new("info")
    });
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_span_events(FmtSpan::NONE).with_writer(std::io::stderr);
    let started = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    // Only an earlier start makes this fail, and then there is a log already.
    let _ = started;
}
