//! Panics as lines of the log: one each, in the log's form, with the execution whose code panicked.
//! Must not end the process: where a panic is caught, and what follows, is decided where the code
//! was called.

use counterstep_kernel::audit::one_line;
use counterstep_steps::error::note_panic;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt;
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, Ordering};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

/// Logs panics from now on, in the place of the standard library's lines, which have another form
/// than the log and repeat control characters as they are.
pub(crate) fn log_panics() {
    std::panic::set_hook(Box::new(log));
}

static HIDES: AtomicBool = AtomicBool::new(false);

/// From now on the line of a panic leaves out its message, which may say what code of the user's was handed.
pub(crate) fn hide_messages() {
    HIDES.store(true, Ordering::Relaxed);
}

fn log(panic: &PanicHookInfo<'_>) {
    let backtrace = Backtrace::capture();
    let backtrace =
        (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    let message = one_line(
        panic
            .payload_as_str()
            .unwrap_or("with a value that is no text"),
    );
    let message = if HIDES.load(Ordering::Relaxed) {
        "the message may hold a payload: see the task's audit".into()
    } else {
        message
    };
    if let Some(location) = panic.location() {
        note_panic(location);
    }
    let execution = current().unwrap_or_default();
    tracing::error!(
        task = execution.of("task"),
        step = execution.of("step"),
        direction = execution.of("direction"),
        attempt = execution.of("attempt"),
        location = panic.location().map(display),
        thread = std::thread::current().name(),
        backtrace = backtrace.as_deref().map(str::escape_debug).map(display),
        "panicked: {message}"
    );
}

/// Fields of a span of the kernel: which execution of which step.
#[derive(Debug, Clone, Default)]
struct Execution(Vec<(&'static str, String)>);

impl Execution {
    fn of(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(field, _)| *field == name)
            .map(|(_, value)| value.as_str())
    }
}

impl Visit for Execution {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push((field.name(), format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push((field.name(), value.to_owned()));
    }
}

/// Keeps the fields of the kernel's spans, for the line of a panic.
#[derive(Debug)]
struct Executions;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Executions {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut execution = Execution::default();
            attributes.record(&mut execution);
            span.extensions_mut().insert(execution);
        }
    }
}

/// The layer that [`log_panics`] needs.
pub(crate) fn executions<S: Subscriber + for<'a> LookupSpan<'a>>() -> impl Layer<S> {
    Executions.with_filter(of_kernel())
}

/// The kernel's error spans alone, which name executions: any more would make every event of every
/// level cost something.
pub(crate) fn of_kernel() -> FilterFn {
    fn is_execution(meta: &Metadata<'_>) -> bool {
        meta.is_span() && meta.target().starts_with("counterstep_kernel")
    }
    FilterFn::new(is_execution as fn(&Metadata<'_>) -> bool).with_max_level_hint(LevelFilter::ERROR)
}

/// The execution whose code runs on this thread.
fn current() -> Option<Execution> {
    tracing::dispatcher::get_default(|dispatch| {
        let id = dispatch.current_span().id()?.clone();
        let span = dispatch.downcast_ref::<Registry>()?.span(&id)?;
        span.scope()
            .find_map(|span| span.extensions().get::<Execution>().cloned())
    })
}
