//! Which queues have brought nothing lately. A task that polling finds while its queue brings something most likely stands
//! behind other messages; where the queue brings nothing, its message is missing.

use crate::ports::Delivery;
use counterstep_contracts::QueueName;
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashSet;

/// The queues of which the last fetch has brought nothing, without their lanes.
#[derive(Debug, Default)]
pub(crate) struct Deliveries(Mutex<HashSet<QueueName>>);

impl Deliveries {
    /// A fetch of at most `max` deliveries from these queues has ended; `found` is empty where it failed.
    pub(crate) fn fetched(&self, queues: &[QueueName], found: &[Delivery], max: usize) {
        let mut silent = self.silent();
        for queue in queues {
            if found.iter().any(|it| is_lane_of(&it.queue, queue)) {
                silent.remove(queue);
            } else if found.len() < max && !silent.contains(queue) {
                silent.insert(queue.clone());
            }
        }
    }

    /// Whether a queue has brought nothing.
    pub(crate) fn are_missing(&self, queue: &QueueName) -> bool {
        self.silent().contains(queue)
    }

    fn silent(&self) -> MutexGuard<'_, HashSet<QueueName>> {
        self.0.lock()
    }
}

/// Without an allocation, as `base` makes one.
fn is_lane_of(lane: &QueueName, queue: &QueueName) -> bool {
    let rest = lane.0.strip_prefix(&queue.0);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::{DeliveryTag, MessageSource};

    fn delivery(queue: &str) -> Delivery {
        let source = MessageSource {
            name: String::new(),
            subject: String::new(),
            payload: Vec::<u8>::new().into(),
        };
        Delivery {
            tag: DeliveryTag(String::new()),
            queue: QueueName(queue.to_owned()),
            is_first: true,
            message: Err(source.poison("a test".to_owned())),
            source,
        }
    }

    #[test]
    fn a_queue_that_a_full_fetch_left_out_is_not_taken_for_a_silent_one() {
        let [a, b] = ["a", "b"].map(|name| QueueName(name.to_owned()));
        let (both, deliveries) = ([a.clone(), b.clone()], Deliveries::default());
        let silent = || [&a, &b].map(|queue| deliveries.are_missing(queue));
        assert_eq!(silent(), [false, false], "before the first fetch");
        deliveries.fetched(&both, &[delivery("a"), delivery("a")], 2);
        assert_eq!(silent(), [false, false], "it was full");
        deliveries.fetched(&both, &[delivery("a.backlog")], 2);
        assert_eq!(silent(), [false, true]);
        deliveries.fetched(&both, &[delivery("b"), delivery("b")], 2);
        assert_eq!(silent(), [false, false]);
        deliveries.fetched(&both, &[], 2);
        assert_eq!(silent(), [true, true]);
    }
}
