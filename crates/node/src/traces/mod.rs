//! Traces: the spans of this process for a collector of OpenTelemetry, and their place in the traces
//! of others. What is in a span is decided where it is made; nothing here reads it.

mod collector;
mod contexts;
mod queue;

pub(crate) use queue::Exporting;

use crate::exit::Exit;
use crate::logging::SpanLayer;
use crate::settings::{TraceSettings, machine};
use collector::Collector;
use contexts::SpanContexts;
use counterstep_kernel::ports::Traces;
use counterstep_steps::traces::TRACES;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::EnvResourceDetector;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use queue::Queue;
use std::sync::Arc;
use tracing::level_filters::LevelFilter;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::FilterFn;

/// For engines: it also sees the layer of a program that has one of its own.
pub(crate) fn port() -> Arc<dyn Traces> {
    Arc::new(SpanContexts)
}

/// Makes the layer, and what exports its spans. Connects to nothing.
///
/// # Errors
/// [`Exit`] with the kind `Config`, naming the setting at fault.
pub(crate) fn open(settings: &TraceSettings, role: &str) -> Result<(SpanLayer, Exporting), Exit> {
    let resource = resource(role);
    let (queue, exporting) = queue::queue(Collector::open(settings, &resource)?);
    Ok((layer(settings, queue, resource), exporting))
}

fn layer(settings: &TraceSettings, queue: Queue, resource: Resource) -> SpanLayer {
    // Whether a trace is recorded is decided once, where it begins, and stands in each `traceparent`.
    let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(settings.sample)));
    let provider = SdkTracerProvider::builder()
        .with_sampler(sampler)
        .with_resource(resource)
        .with_span_processor(queue)
        .build();
    // Of the log no line: what a step logs may be anything. A span of the program's own code is exported where it has this target:
    // whether what is in it may leave the installation is known where it is made.
    let filter = FilterFn::new(|meta| meta.target() == TRACES);
    let filter = filter.with_max_level_hint(LevelFilter::DEBUG);
    OpenTelemetryLayer::new(provider.tracer("counterstep"))
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_filter(filter)
        .boxed()
}

/// What this process is. The variables of OpenTelemetry count before what is known here.
fn resource(role: &str) -> Resource {
    let (machine, process) = (machine(), std::process::id());
    let resource = Resource::builder_empty()
        .with_service_name(format!("counterstep-{role}"))
        .with_attributes([
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", format!("{machine}:{process}")),
            KeyValue::new("host.name", machine),
        ])
        .with_detector(Box::new(EnvResourceDetector::new()));
    let named = std::env::var("OTEL_SERVICE_NAME");
    match named.ok().filter(|name| !name.is_empty()) {
        Some(name) => resource.with_service_name(name).build(),
        None => resource.build(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry_sdk::trace::SpanData;
    use tracing_subscriber::layer::SubscriberExt;

    /// The spans that `work` makes for a collector.
    fn spans_of(sample: f64, work: impl FnOnce()) -> Vec<SpanData> {
        let settings = TraceSettings {
            endpoint: "http://127.0.0.1:1".to_owned(),
            token_file: None,
            header_files: std::collections::BTreeMap::new(),
            ca_file: None,
            allow_plaintext: false,
            sample,
        };
        let resource = resource("test");
        let collector = Collector::open(&settings, &resource).unwrap();
        let (queue, mut exporting) = queue::queue(collector);
        let subscriber = tracing_subscriber::registry().with(layer(&settings, queue, resource));
        tracing::subscriber::with_default(subscriber, work);
        exporting.waiting()
    }

    #[test]
    fn spans_of_another_target_and_lines_of_the_log_are_not_exported() {
        let spans = spans_of(1.0, || {
            let attempt = tracing::debug_span!(target: TRACES, "attempt", step = "resize");
            attempt.in_scope(|| {
                tracing::error!(target: "my_app", "hunter2");
                tracing::debug!(target: TRACES, "step_retries");
                // The log's own spans stand between.
                let _log = tracing::error_span!(target: "counterstep_kernel", "attempt").entered();
                tracing::error_span!(target: "my_app", "not exported").in_scope(|| {});
                tracing::info_span!(target: TRACES, "draws").in_scope(|| {});
            });
        });
        let [draws, attempt] = &spans[..] else {
            panic!("two spans: {spans:#?}")
        };
        assert_eq!((&*draws.name, &*attempt.name), ("draws", "attempt"));
        assert_eq!(draws.parent_span_id, attempt.span_context.span_id());
        let events: Vec<_> = attempt.events.iter().map(|event| &*event.name).collect();
        assert_eq!(events, ["step_retries"]);
    }

    #[test]
    fn a_span_is_recorded_as_its_parent_is_whatever_the_share() {
        let traces = SpanContexts;
        for (sample, flags, recorded) in [(0.0, "01", 1), (1.0, "00", 0)] {
            let parent = format!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-{flags}");
            let spans = spans_of(sample, || {
                let span = tracing::debug_span!(target: TRACES, "turn");
                traces.set_parent(&span, &parent);
                let traceparent = traces.traceparent(&span).unwrap();
                assert!(traceparent.starts_with(&parent[..36]) && traceparent.ends_with(flags));
                assert_ne!(traceparent, parent);
                span.in_scope(|| assert_eq!(traces.current(), Some(traceparent)));
            });
            assert_eq!(spans.len(), recorded, "{spans:#?}");
        }
        assert_eq!(traces.traceparent(&tracing::Span::none()), None);
        assert_eq!(traces.current(), None);
    }

    #[test]
    fn spans_for_which_there_is_no_room_are_dropped_and_hold_up_nothing() {
        let spans = spans_of(1.0, || {
            for _ in 0..5_000 {
                drop(tracing::debug_span!(target: TRACES, "turn"));
            }
        });
        assert_eq!(spans.len(), queue::ROOM);
    }
}
