//! How long tasks and their steps took, and how tasks ended or were parked, by tenant, type and hour: documents that add up, and
//! that people read. Must not slow down a task.

mod count;
mod histogram;

pub use self::count::count_durations;

use self::count::position;
use self::histogram::Histogram;
use crate::documents::read_document;
use crate::journal::Fold;
use crate::ports::{
    Document, DocumentKind, DocumentQuery, MOST_LABEL_VALUES, OTHER, Store, StoreError, TaskLine,
};
use crate::record::DbTime;
use crate::times::rfc3339;
use counterstep_contracts::durations::{HourDurations, StepDurations, TypeDurations};
use counterstep_contracts::{Direction, Outcome, Rev, TaskId, TaskStatus, Tenant};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const KIND: DocumentKind = DocumentKind::Durations;

/// An hour in microseconds.
const HOUR: i64 = 3_600_000_000;

/// How long hours are kept.
pub const KEPT: Duration = Duration::from_secs(30 * 86_400);

/// How far back the first count of an installation begins.
const BEGIN: Duration = Duration::from_secs(86_400);

/// The tasks of a type that ended in an hour, or were parked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Hour {
    /// Parked ones too, each as often as it was found parked.
    ended: BTreeMap<TaskStatus, u64>,
    /// Of those that completed.
    tasks: Histogram,
    steps: BTreeMap<String, Attempts>,
    /// In the document of a label alone: the tasks by its value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    values: BTreeMap<String, Self>,
}

/// Attempts at a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Attempts {
    took: Histogram,
    max_ms: u64,
    slowest: TaskId,
}

impl Attempts {
    fn merge(&mut self, other: &Self) {
        self.took.merge(&other.took);
        if other.max_ms > self.max_ms {
            (self.max_ms, self.slowest) = (other.max_ms, other.slowest);
        }
    }
}

impl Hour {
    fn merge(&mut self, other: &Self) {
        for (status, count) in &other.ended {
            *self.ended.entry(*status).or_default() += count;
        }
        self.tasks.merge(&other.tasks);
        for (step, attempts) in &other.steps {
            match self.steps.get_mut(step) {
                Some(own) => own.merge(attempts),
                None => drop(self.steps.insert(step.clone(), attempts.clone())),
            }
        }
        for (value, hour) in &other.values {
            self.of_value(value).merge(hour);
        }
    }

    /// The tasks with this value of the label, or with one of those that are beyond the bound: clients choose them.
    fn of_value(&mut self, value: &str) -> &mut Self {
        let is_shown = self.values.contains_key(value) || self.values.len() < MOST_LABEL_VALUES;
        let value = if is_shown { value } else { OTHER };
        self.values.entry(value.to_owned()).or_default()
    }

    /// A task that ended then, or was parked.
    fn add_task(&mut self, line: &TaskLine, at: DbTime) {
        *self.ended.entry(line.status).or_default() += 1;
        if line.status == TaskStatus::Completed {
            self.tasks.add(at.after(line.created_at));
        }
    }

    /// The attempts of a task that succeeded or failed.
    fn add_steps(&mut self, fold: &Fold) {
        let record = fold.record();
        for attempt in fold.attempts() {
            let has_ended = matches!(attempt.outcome, Some(Outcome::Succeeded | Outcome::Failed));
            // One change has both: it ran before anything was written of it.
            let took = attempt.ended_at.map(|it| it.after(attempt.started_at));
            let took = took.unwrap_or_default();
            let step = record.steps.iter().find(|it| it.no == attempt.step);
            let Some(step) = step.filter(|_| has_ended && !took.is_zero()) else {
                continue;
            };
            if attempt.direction != Direction::Forward {
                continue;
            }
            let mut histogram = Histogram::default();
            histogram.add(took);
            let one = Attempts {
                took: histogram,
                max_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                slowest: record.task.id,
            };
            match self.steps.get_mut(&step.name) {
                Some(own) => own.merge(&one),
                None => drop(self.steps.insert(step.name.clone(), one)),
            }
        }
    }

    fn steps(&self) -> Vec<StepDurations> {
        let steps = self.steps.iter().filter_map(|(step, attempts)| {
            Some(StepDurations {
                step: step.clone(),
                took: attempts.took.percentiles()?,
                max_ms: attempts.max_ms,
                slowest: attempts.slowest,
            })
        });
        steps.collect()
    }
}

/// The number of an hour since 1970.
fn hour_of(at: DbTime) -> i64 {
    at.0.div_euclid(HOUR)
}

fn begin_of(hour: i64) -> DbTime {
    DbTime(hour.saturating_mul(HOUR))
}

/// The name of an hour's document. No type has a space in its name.
fn name_of(task_type: &str, hour: i64) -> String {
    format!("{task_type} {hour}")
}

/// The name of an hour's document by the values of a label. One by itself: what shows no label does not read it.
fn name_by_label(task_type: &str, hour: i64, label: &str) -> String {
    format!("{task_type} {hour} {label}")
}

/// The hour in the name of a document.
fn hour_in(name: &str) -> Option<i64> {
    name.split(' ').nth(1)?.parse().ok()
}

/// One that cannot be read is counted anew.
fn readable(document: &Document) -> Option<Hour> {
    let read = read_document(KIND, &document.body);
    read.inspect_err(
        |error| tracing::error!(document = document.name, %error, "durations cannot be read"),
    )
    .ok()
}

async fn named(
    store: &Store,
    tenant: &Tenant,
    names: Vec<String>,
) -> Result<Vec<Document>, StoreError> {
    let query = DocumentQuery::Named {
        kind: KIND,
        tenant: tenant.clone(),
        names,
    };
    Ok(store.documents(&query).await?.rows)
}

/// Documents that are read at a time: of a label each has many histograms.
const AT_ONCE: usize = 100;

/// The durations that people ask for.
#[derive(Debug, Clone)]
pub struct DurationsOf<'a> {
    /// Of tasks of this tenant.
    pub tenant: &'a Tenant,
    /// Declared name of the type.
    pub task_type: &'a str,
    /// Of tasks that ended in the hour of this time, or later; `None`: in the last 24 hours.
    pub since: Option<DbTime>,
    /// Of tasks that ended before the end of the hour of this time; `None`: until now.
    pub until: Option<DbTime>,
    /// A time with which the tasks are compared.
    pub took: Option<Duration>,
    /// Of tasks with this label alone, by name and value; steps are not counted so.
    pub label: Option<(&'a str, &'a str)>,
}

/// The durations of a type, without the names of labels by which they are counted.
///
/// # Errors
/// [`StoreError`].
pub async fn durations(
    store: &Store,
    query: &DurationsOf<'_>,
) -> Result<TypeDurations, StoreError> {
    let (hours, values, counted_until) = hours(store, query).await?;
    let mut whole = Hour::default();
    let mut views = Vec::new();
    for (number, hour) in &hours {
        whole.merge(hour);
        views.push(HourDurations {
            hour: rfc3339(begin_of(*number)),
            ended: hour.ended.clone(),
            tasks: hour.tasks.percentiles(),
            steps: hour.steps(),
        });
    }
    let mut steps = whole.steps();
    steps.sort_by_key(|it| Reverse(it.took.p95_ms));
    Ok(TypeDurations {
        slower_than: query.took.and_then(|took| whole.tasks.faster_than(took)),
        tasks: whole.tasks.percentiles(),
        ended: whole.ended,
        steps,
        hours: views,
        labels: Vec::new(),
        values: values.into_iter().collect(),
        counted_until: counted_until.map(rfc3339),
    })
}

/// Hours that have tasks, by their numbers; of a label the values that they have, as many as an hour may have; and when the last task
/// ended that is counted.
async fn hours(
    store: &Store,
    query: &DurationsOf<'_>,
) -> Result<(Vec<(i64, Hour)>, BTreeSet<String>, Option<DbTime>), StoreError> {
    let ((rev, position), now) = position(store, query.task_type).await?;
    let last = hour_of(query.until.unwrap_or(now).min(now));
    let kept = now.earlier(KEPT);
    let day_ago = now.earlier(BEGIN);
    let first = hour_of(query.since.unwrap_or(day_ago).max(kept));
    let names = (first..=last).map(|hour| match query.label {
        None => name_of(query.task_type, hour),
        Some((label, _)) => name_by_label(query.task_type, hour, label),
    });
    let names: Vec<String> = names.collect();
    let (mut hours, mut values) = (Vec::new(), BTreeSet::new());
    for names in names.chunks(AT_ONCE) {
        for row in named(store, query.tenant, names.to_vec()).await? {
            let (Some(number), Some(mut hour)) = (hour_in(&row.name), readable(&row)) else {
                continue;
            };
            if let Some((_, value)) = query.label {
                let of_value = hour.values.remove(value);
                let others = hour.values.into_keys();
                values.extend(others.take(MOST_LABEL_VALUES.saturating_sub(values.len())));
                hours.extend(of_value.map(|it| (number, it)));
            } else {
                hours.push((number, hour));
            }
        }
    }
    if let Some((_, value)) = query.label.filter(|_| !hours.is_empty()) {
        values.insert(value.to_owned());
    }
    hours.sort_by_key(|(number, _)| *number);
    let counted = position.filter(|_| rev != Rev(0));
    Ok((hours, values, counted.map(|it| it.at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_values(values: std::ops::Range<usize>) -> Hour {
        let mut hour = Hour::default();
        for value in values {
            let of_value = hour.of_value(&value.to_string());
            of_value.ended.insert(TaskStatus::Completed, 1);
        }
        hour
    }

    #[test]
    fn values_beyond_the_bound_count_as_one() {
        let mut hour = of_values(0..MOST_LABEL_VALUES);
        hour.merge(&of_values(50..MOST_LABEL_VALUES + 50));
        assert_eq!(hour.values.len(), MOST_LABEL_VALUES + 1);
        let count = |value: &str| hour.values[value].ended[&TaskStatus::Completed];
        assert_eq!((count("0"), count("50"), count(OTHER)), (1, 2, 50));
        assert!(!hour.values.contains_key("100"));
    }
}
