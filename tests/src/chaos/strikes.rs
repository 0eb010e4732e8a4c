//! Which faults a run has, and what they may delay. Must not strike.

use super::judged::LONGEST_ON_THE_WAY;
use crate::sample::Chance;
use std::time::Duration;

/// Which faults strike, and on which servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strikes {
    /// All kinds, on one server of each kind.
    All,
    /// These kinds, on three NATS servers that are one cluster.
    NatsCluster(&'static [&'static str]),
    /// All kinds on one server of each kind, and never too many: what is looked at is what time does. The first process of each
    /// role is never ended, since only one that goes on for long shows what it keeps.
    Soak,
}

impl Strikes {
    /// Between two faults.
    pub(super) fn pause(self, chance: &mut Chance) -> Duration {
        match self {
            Self::All => Duration::from_millis(chance.within(300, 3_000)),
            // A cluster needs as long and longer for another leader: its servers are killed as soon as they agree again.
            Self::NatsCluster(_) => Duration::from_secs(2),
            Self::Soak => Duration::from_millis(chance.within(4_000, 14_000)),
        }
    }

    /// Time after which a task that waits for a host is an anomaly. Without messages, hosts look for tasks that wait for
    /// more than 5 seconds.
    pub(super) fn longest_wait(self) -> Duration {
        match self {
            Self::All | Self::Soak => LONGEST_ON_THE_WAY,
            Self::NatsCluster(_) => Duration::from_secs(20),
        }
    }
}
