//! What comes to queues and leaves them in a minute, as the processes that are alive have counted it, and when a queue would be empty.
//! For people; decides nothing.

use crate::ports::{QueueFlow, Workers};
use counterstep_contracts::QueueName;
use counterstep_contracts::workers::WorkerState;
use std::collections::BTreeMap;
use std::time::Duration;

/// Tasks in a minute, to the hundredth.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct QueueRates {
    /// Those that came to wait.
    pub came_per_minute: f64,
    /// Those that wait no more.
    pub left_per_minute: f64,
}

impl QueueRates {
    /// When none of so many tasks would wait, were it to go on like this; `None`: none waits, or they do not become fewer.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "an estimate for people: what is beyond 2^53 tasks does not matter"
    )]
    pub fn time_to_empty(&self, depth: u64) -> Option<Duration> {
        let fewer = self.left_per_minute - self.came_per_minute;
        if depth == 0 || fewer <= 0.0 {
            return None;
        }
        Duration::try_from_secs_f64((depth as f64 / fewer * 60.0).ceil()).ok()
    }
}

/// By queue, over all processes that are alive.
#[must_use]
pub(crate) fn rates_of(workers: &Workers) -> BTreeMap<QueueName, QueueRates> {
    let alive = workers.rows.iter();
    let alive = alive.filter(|seen| seen.state(workers.now) == WorkerState::Alive);
    let mut rates: BTreeMap<QueueName, QueueRates> = BTreeMap::new();
    for flow in alive.map(|seen| &seen.row.activity.flow) {
        add(&mut rates, flow);
    }
    for rates in rates.values_mut() {
        for rate in [&mut rates.came_per_minute, &mut rates.left_per_minute] {
            *rate = (*rate * 100.0).round() / 100.0;
        }
    }
    rates
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of five minutes are far below 2^53"
)]
fn add(rates: &mut BTreeMap<QueueName, QueueRates>, flow: &QueueFlow) {
    // The first tasks of a process that has just started say nothing of a minute.
    let minutes = (flow.window.as_secs_f64() / 60.0).max(1.0);
    for (queue, moved) in &flow.queues {
        let rates = rates.entry(queue.clone()).or_default();
        rates.came_per_minute += moved.came as f64 / minutes;
        rates.left_per_minute += moved.left as f64 / minutes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::TasksMoved;

    fn flow(seconds: u64, came: u64, left: u64) -> QueueFlow {
        let queue = QueueName("lamps".to_owned());
        QueueFlow {
            window: Duration::from_secs(seconds),
            queues: BTreeMap::from([(queue, TasksMoved { came, left })]),
        }
    }

    fn rates(came: f64, left: f64) -> QueueRates {
        QueueRates {
            came_per_minute: came,
            left_per_minute: left,
        }
    }

    #[test]
    fn rates_of_processes_are_added_each_over_its_own_time_and_no_less_than_a_minute() {
        let mut found = BTreeMap::new();
        for flow in [flow(240, 8, 4), flow(120, 0, 6), flow(2, 1, 0)] {
            add(&mut found, &flow);
        }
        assert_eq!(found[&QueueName("lamps".to_owned())], rates(3.0, 4.0));
    }

    #[test]
    fn a_queue_has_an_end_only_where_its_tasks_become_fewer() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(rates(20.0, 24.5).time_to_empty(12), seconds(160));
        assert_eq!(rates(0.0, 3.0).time_to_empty(1), seconds(20));
        assert_eq!(rates(0.0, 3.0).time_to_empty(0), None, "it is empty");
        assert_eq!(rates(3.0, 3.0).time_to_empty(9), None, "it stays as it is");
        assert_eq!(rates(4.0, 3.0).time_to_empty(9), None, "it grows");
    }
}
