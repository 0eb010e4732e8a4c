//! What a process knows of pauses, as a value. Must not read anything.

use counterstep_contracts::QueueName;
use std::collections::BTreeSet;

/// What a process knows of pauses.
#[derive(Debug)]
pub(crate) struct KnownPauses {
    pub(super) queues: BTreeSet<QueueName>,
    /// Whether it is paused itself.
    pub(super) is_here: bool,
}

impl KnownPauses {
    /// Those of these queues and lanes that this process may take from.
    pub(super) fn open_here(&self, queues: &[QueueName]) -> Vec<QueueName> {
        match self.is_here {
            true => Vec::new(),
            false => self.open(queues),
        }
    }

    /// Those of these queues and lanes that are not paused themselves.
    pub(super) fn open(&self, queues: &[QueueName]) -> Vec<QueueName> {
        let open = queues
            .iter()
            .filter(|queue| !self.queues.contains(&queue.base()));
        open.cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_a_queue_its_lanes_are_paused_and_with_the_process_all() {
        let named = |name: &str| QueueName(name.to_owned());
        let queues = [
            "zips",
            "zips.urgent",
            "zips.backlog",
            "videos",
            "videos.urgent",
        ]
        .map(named);
        let pauses = |names: &[&str], is_here| KnownPauses {
            queues: names.iter().map(|name| named(name)).collect(),
            is_here,
        };
        assert_eq!(pauses(&["zips"], false).open_here(&queues), queues[3..]);
        assert_eq!(pauses(&[], false).open_here(&queues), queues);
        assert_eq!(pauses(&[], true).open_here(&queues), []);
        assert_eq!(pauses(&["zips"], true).open(&queues), queues[3..]);
    }
}
