//! The `traceparent` of a span, and the span that a `traceparent` names (W3C Trace Context).

use counterstep_kernel::ports::Traces;
use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// By the layer of OpenTelemetry in the process's log, whichever it is. Without one there is no
/// trace.
#[derive(Debug, Clone, Copy)]
pub(super) struct SpanContexts;

impl Traces for SpanContexts {
    fn set_parent(&self, span: &Span, traceparent: &str) {
        if let Some(parent) = read(traceparent).filter(|_| !span.is_disabled()) {
            // A span that has begun already, or that the layer does not take, stays where it is.
            let _ = span.set_parent(Context::new().with_remote_span_context(parent));
        }
    }

    fn traceparent(&self, span: &Span) -> Option<String> {
        if span.is_disabled() {
            return None;
        }
        write(span.context().span().span_context())
    }

    fn current(&self) -> Option<String> {
        Context::map_current(|context| write(context.span().span_context()))
    }
}

fn read(traceparent: &str) -> Option<SpanContext> {
    let mut parts = traceparent.split('-').skip(1);
    let trace = TraceId::from_hex(parts.next()?).ok()?;
    let span = SpanId::from_hex(parts.next()?).ok()?;
    let flags = u8::from_str_radix(parts.next()?, 16).ok()?;
    // Of the flags, those that this version of the format knows.
    let flags = TraceFlags::new(flags) & TraceFlags::SAMPLED;
    let context = SpanContext::new(trace, span, flags, true, TraceState::default());
    context.is_valid().then_some(context)
}

fn write(context: &SpanContext) -> Option<String> {
    context.is_valid().then(|| {
        let (trace, span) = (context.trace_id(), context.span_id());
        let sampled = u8::from(context.is_sampled());
        format!("00-{trace}-{span}-{sampled:02x}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_read_and_written_as_it_was() {
        for text in [
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
        ] {
            assert_eq!(write(&read(text).unwrap()).as_deref(), Some(text));
        }
        let of_later_version = "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03";
        assert_eq!(
            write(&read(of_later_version).unwrap()).as_deref(),
            Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        );
        for text in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-zz",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
