//! Logs on standard error: text for people, JSON lines for machines.

use crate::panics;
use crate::settings::LogFormat;
use counterstep_steps::traces::TRACES;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{FilterExt, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

/// Logs one line at ERROR for each connection that a client spoils: a head that cannot be parsed, a
/// body that breaks off. What fails on this side has lines of its own.
const CLIENTS_FAULTS: &str = "actix_http::h1";

/// Hears of spans, for traces.
pub type SpanLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Starts logging, panics included. A second call in one process changes nothing.
pub fn start(filter: &str, format: LogFormat, spans: Option<SpanLayer>) {
    let err = std::io::stderr;
    let registry = tracing_subscriber::registry();
    let started = match spans {
        Some(spans) => registry
            .with(spans)
            .with(panics::executions())
            .with(lines(filter, format, err))
            .try_init(),
        None => registry
            .with(panics::executions())
            .with(lines(filter, format, err))
            .try_init(),
    };
    // Only an earlier start makes this fail, and then there is a log already.
    if started.is_ok() {
        panics::log_panics();
    }
    if let Err(error) = filter.parse::<Targets>() {
        tracing::warn!(filter, %error, "invalid log filter; logging at `info`");
    }
}

/// The lines of a log, as far as the filter lets them through; at `info` where it cannot be read.
pub fn lines<S, W>(
    filter: &str,
    format: LogFormat,
    writer: W,
) -> impl Layer<S> + Send + Sync + 'static
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    // `Targets` and not `EnvFilter`: filters by the fields of spans are not needed, and it would
    // bring an engine for regular expressions into every cold build.
    let targets = filter
        .parse()
        .unwrap_or_else(|_| Targets::new().with_default(LevelFilter::INFO));
    // A filter that names one of these is obeyed. What is for traces says what lines say already.
    let silent = [(CLIENTS_FAULTS, "actix_http"), (TRACES, TRACES)];
    let silent = silent
        .into_iter()
        .filter(|(_, name)| !filter.contains(name));
    let targets = targets.with_targets(silent.map(|(target, _)| (target, LevelFilter::OFF)));
    let lines = match format {
        LogFormat::Text => fmt::layer().with_writer(writer).boxed(),
        LogFormat::Json => fmt::layer()
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_writer(writer)
            .boxed(),
    };
    // A filter that names only the program's own code does not take the execution out of its lines.
    lines.with_filter(targets.or(panics::of_kernel()))
}
