//! What the spool of a process holds, on its page of metrics: answered from memory, also while no server answers.

use counterstep_kernel::Engine;
use counterstep_kernel::workers::worker_registry::kept_results;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// Appends it to a page. A process without a spool shows that it has nothing.
pub(super) fn write(engine: &Engine, page: &mut String) {
    let kept = kept_results(engine).unwrap_or_default();
    let (results, bytes, oldest) = <(Gauge, Gauge, Gauge)>::default();
    let set = |gauge: &Gauge, value: u64| gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
    set(&results, kept.results);
    set(&bytes, kept.bytes);
    set(&oldest, kept.oldest.unwrap_or_default().as_secs());
    let mut registry = Registry::with_prefix("counterstep");
    registry.register(
        "spool_results",
        "Results of attempts that this process keeps on its disk until the database takes them",
        results,
    );
    registry.register_with_unit(
        "spool",
        "Size of the results that this process keeps on its disk",
        Unit::Bytes,
        bytes,
    );
    registry.register_with_unit(
        "spool_oldest",
        "Age of the oldest result that this process keeps on its disk; 0 where there is none",
        Unit::Seconds,
        oldest,
    );
    // A text takes whatever is written to it.
    let _ = encode_registry(page, &registry);
}
