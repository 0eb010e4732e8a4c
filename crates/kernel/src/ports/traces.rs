//! How the spans of this process and those of others come into one trace. The kernel makes spans
//! with `tracing` and does not know what becomes of them.

use std::fmt::Debug;
use tracing::Span;

/// Reads and sets the place of spans in traces. Called on the way of every task: it must neither
/// wait nor fail.
pub trait Traces: Debug + Send + Sync {
    /// Makes `span` a child of the span that a W3C `traceparent` names. Before `span` is entered;
    /// later it changes nothing.
    fn set_parent(&self, span: &Span, traceparent: &str);

    /// The `traceparent` of a span; `None` where it is part of no trace.
    fn traceparent(&self, span: &Span) -> Option<String>;

    /// The `traceparent` of the span in which the caller runs.
    fn current(&self) -> Option<String>;
}

/// Knows no traces.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTraces;

impl Traces for NoTraces {
    fn set_parent(&self, _: &Span, _: &str) {}

    fn traceparent(&self, _: &Span) -> Option<String> {
        None
    }

    fn current(&self) -> Option<String> {
        None
    }
}
