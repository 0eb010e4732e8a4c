//! The clock and the chance of an engine, for policies and breakers.

use super::{Clock, Ports, Random};
use counterstep_steps::runtime::Runtime;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;

/// The runtime of an engine: its clock and its chance.
#[derive(Debug, Clone)]
pub struct PortsRuntime {
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
}

impl From<&Ports> for PortsRuntime {
    fn from(ports: &Ports) -> Self {
        Self {
            clock: ports.clock.clone(),
            random: ports.random.clone(),
        }
    }
}

impl Runtime for PortsRuntime {
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        self.clock.sleep(time)
    }

    fn bits(&self) -> u128 {
        self.random.bits()
    }
}
