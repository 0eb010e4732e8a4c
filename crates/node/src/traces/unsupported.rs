//! A program without traces: the setting is refused, and spans are part of none.

use crate::exit::Exit;
use crate::logging::SpanLayer;
use crate::settings::TraceSettings;
use counterstep_kernel::ports::{NoTraces, Traces};
use futures::future::BoxFuture;
use std::sync::Arc;

/// There is none.
pub(crate) enum Exporting {}

impl Exporting {
    pub(crate) fn beside<T>(self, _: BoxFuture<'_, T>) -> BoxFuture<'_, T> {
        match self {}
    }
}

pub(crate) fn port() -> Arc<dyn Traces> {
    Arc::new(NoTraces)
}

pub(crate) fn open(_: &TraceSettings, _: &str) -> Result<(SpanLayer, Exporting), Exit> {
    Err(Exit::config(
        "setting `otlp_endpoint`: this program was built without traces: build it with `--features servers`, or leave \
         the setting out",
    ))
}
