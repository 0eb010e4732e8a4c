//! Tasks that came to rest, by the labels that the settings name. Owns the bound on their values.

use super::figures::Series;
use super::label_key;
use counterstep_contracts::{Labels, TaskStatus};
use counterstep_kernel::ports::{MOST_LABEL_VALUES, OTHER};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use std::collections::HashSet;

/// The counters, one for each type, state and combination of values.
#[derive(Debug)]
pub(super) struct Ended {
    counters: Family<Series, Counter>,
    /// Names, and their names in metrics.
    labels: Vec<(String, String)>,
    /// The combinations of values that are shown as they are: the first ones that this process met.
    shown: Mutex<HashSet<Vec<String>>>,
}

impl Ended {
    pub(super) fn new(counters: Family<Series, Counter>, labels: &[String]) -> Self {
        let keys = labels.iter().map(|name| (name.clone(), label_key(name)));
        Self {
            counters,
            labels: keys.collect(),
            shown: Mutex::default(),
        }
    }

    /// Whether tasks are counted by labels: then the series are made as they come.
    pub(super) fn has_labels(&self) -> bool {
        !self.labels.is_empty()
    }

    pub(super) fn count(&self, task_type: &str, status: TaskStatus, labels: &Labels) {
        let values = self.bounded(labels);
        let own = self.labels.iter().map(|(_, key)| key.clone().into());
        let mut series = series(task_type, status);
        series.extend(own.zip(values));
        self.counters.get_or_create(&series).inc();
    }

    fn bounded(&self, labels: &Labels) -> Vec<String> {
        let value = |(name, _): &(String, String)| labels.get(name).unwrap_or_default().to_owned();
        let values: Vec<_> = self.labels.iter().map(value).collect();
        let mut shown = self.shown.lock();
        if shown.contains(&values) {
            return values;
        }
        if shown.len() < MOST_LABEL_VALUES {
            shown.insert(values.clone());
            return values;
        }
        vec![OTHER.to_owned(); self.labels.len()]
    }
}

/// The series of a type and a state, without labels of tasks.
pub(super) fn series(task_type: &str, status: TaskStatus) -> Series {
    vec![
        ("task_type".into(), task_type.to_owned()),
        ("status".into(), status.as_str().to_owned()),
    ]
}
