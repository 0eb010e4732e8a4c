//! Which server of the database a process uses, on its page of metrics: answered from memory, and without an address.

use counterstep_kernel::Engine;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Appends it to a page. A database without a server has none.
pub(super) fn write(engine: &Engine, page: &mut String) {
    let Some(in_use) = engine.ports.store.server_in_use() else {
        return;
    };
    let position: Gauge = Gauge::default();
    position.set(i64::try_from(in_use.position).unwrap_or(i64::MAX));
    let mut registry = Registry::with_prefix("counterstep");
    registry.register(
        "database_server",
        "Position in `database` of the server that this process writes to, from 1",
        position,
    );
    // A text takes whatever is written to it.
    let _ = encode_registry(page, &registry);
}
