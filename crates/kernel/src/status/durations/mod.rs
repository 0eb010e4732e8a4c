//! How long tasks and their steps took, and how tasks ended, by tenant, type and hour. Reconcilers count tasks that have ended, a page
//! at a time, in documents that add up; people read those. Must not slow down a task.

mod histogram;

use self::histogram::Histogram;
use crate::documents::{read_document, write_document};
use crate::engine::Engine;
use crate::journal::{Fold, JournalWalk};
use crate::ports::{
    Document, DocumentChange, DocumentKind, DocumentQuery, DocumentWrite, DocumentsPut,
    RevisionsOf, SEEN_WITHIN, Store, StoreError,
};
use crate::record::DbTime;
use crate::times::rfc3339;
use counterstep_contracts::durations::{HourDurations, StepDurations, TypeDurations};
use counterstep_contracts::{Direction, Outcome, Rev, TaskId, TaskStatus, Tenant};
use counterstep_steps::CancelToken;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

const KIND: DocumentKind = DocumentKind::Durations;

/// An hour in microseconds.
const HOUR: i64 = 3_600_000_000;

/// How long hours are kept.
pub const KEPT: Duration = Duration::from_secs(30 * 86_400);

/// How far back the first count of an installation begins.
const BEGIN: Duration = Duration::from_secs(86_400);

/// Tasks of a page.
const PAGE: u32 = 1_000;

/// Maximum number of tasks of a pass.
const MOST: u64 = 100_000;

/// Of how many tasks of a tenant and a page the steps are looked at, and of how many in a pass: each is a read of a journal.
const STEPS_OF_PAGE: usize = 20;
const STEPS_OF_PASS: usize = 1_000;

/// Maximum number of rows of a journal that is read for its steps.
const ROWS: u32 = 500;

/// Maximum number of documents that are deleted in a pass.
const FORGOTTEN: u32 = 500;

/// All tasks of a type before this one, in the order in which they ended, are counted.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Position {
    at: DbTime,
    task: TaskId,
}

/// The tasks of a type that ended in an hour.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Hour {
    ended: BTreeMap<TaskStatus, u64>,
    /// Of those that completed.
    tasks: Histogram,
    steps: BTreeMap<String, Attempts>,
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

/// The name of the document that says how far tasks of a type are counted. Each program counts those of its types.
fn position_of(task_type: &str) -> String {
    format!("{task_type} position")
}

/// Counts tasks that have ended, of all tenants and of this program's types, and forgets hours that are over for long. Of several
/// processes that count the same, one does. A task whose rows cannot be read is not counted.
///
/// # Errors
/// [`StoreError`].
pub async fn count_durations(engine: &Engine, shutdown: &CancelToken) -> Result<(), StoreError> {
    let store = &engine.ports.store;
    let types = engine.registry.iter().map(|it| it.decl.name);
    let types: BTreeSet<&str> = types.collect();
    for task_type in &types {
        let (mut counted, mut steps_left) = (0, STEPS_OF_PASS / types.len());
        while counted < MOST && !shutdown.is_cancelled() {
            let of_page = count_page(store, task_type, &mut steps_left, shutdown).await?;
            counted += of_page;
            if of_page < u64::from(PAGE) {
                break;
            }
        }
    }
    forget(store).await
}

async fn count_page(
    store: &Store,
    task_type: &str,
    steps_left: &mut usize,
    shutdown: &CancelToken,
) -> Result<u64, StoreError> {
    let (rev, found, now) = position(store, task_type).await?;
    let until = now.earlier(SEEN_WITHIN);
    let anew = Position {
        at: until,
        task: TaskId(uuid::Uuid::nil()),
    };
    let Position { at, task } = found.unwrap_or(anew);
    let query = RevisionsOf::Ended {
        tenant: None,
        task_types: vec![task_type.to_owned()],
        after: (at, task),
        limit: PAGE,
    };
    let mut ended = store.revisions(&query).await?.tasks;
    ended.retain(|it| it.at <= until);
    let next = match ended.last() {
        Some(last) => Position {
            at: last.at,
            task: last.task,
        },
        None if found.is_none() => anew,
        None => return Ok(0),
    };
    let times: HashMap<TaskId, DbTime> = ended.iter().map(|it| (it.task, it.at)).collect();
    let ids: Vec<TaskId> = ended.iter().map(|it| it.task).collect();
    let mut hours = BTreeMap::<(Tenant, String), Hour>::new();
    let mut looked_at = HashMap::<Tenant, usize>::new();
    for line in store.lines(&ids).await? {
        let at = line
            .finished_at
            .filter(|at| times.get(&line.task) == Some(at));
        // One that was undone meanwhile with its parent counts where that has ended.
        let Some(at) = at.filter(|_| line.status.is_terminal()) else {
            continue;
        };
        let name = name_of(&line.task_type, hour_of(at));
        let hour = hours.entry((line.tenant.clone(), name)).or_default();
        *hour.ended.entry(line.status).or_default() += 1;
        if line.status == TaskStatus::Completed {
            hour.tasks.add(at.after(line.created_at));
        }
        let of_tenant = looked_at.entry(line.tenant).or_default();
        if *of_tenant < STEPS_OF_PAGE && *steps_left > 0 && !shutdown.is_cancelled() {
            *of_tenant += 1;
            *steps_left -= 1;
            if let Some(fold) = journal(store, line.task).await? {
                hour.add_steps(&fold);
            }
        }
    }
    // First: of several processes that count the same, the others are refused at once.
    let own = position_of(task_type);
    let mut writes = vec![write(&Tenant::default(), &own, rev, &next, None)?];
    writes.extend(merged(store, hours).await?);
    match store.put(&writes).await? {
        DocumentsPut::Written(_) => Ok(ended.len() as u64),
        DocumentsPut::Refused(_) => Ok(0),
    }
}

/// How far tasks of a type are counted, at which revision, and the time of the database. `None`: that cannot be read, or is later than
/// now.
async fn position(
    store: &Store,
    task_type: &str,
) -> Result<(Rev, Option<Position>, DbTime), StoreError> {
    let query = DocumentQuery::Named {
        kind: KIND,
        tenant: Tenant::default(),
        names: vec![position_of(task_type)],
    };
    let found = store.documents(&query).await?;
    let now = found.now;
    let Some(document) = found.rows.into_iter().next() else {
        let begin = Position {
            at: now.earlier(BEGIN),
            task: TaskId(uuid::Uuid::nil()),
        };
        return Ok((Rev(0), Some(begin), now));
    };
    let read = read_document::<Position>(KIND, &document.body);
    let position = read.ok().filter(|position| position.at <= now);
    if position.is_none() {
        tracing::warn!(
            task_type,
            "how far durations are counted cannot be read, or is later than now: they are counted from now on"
        );
    }
    Ok((document.rev, position, now))
}

/// What a task has done. `None`: it cannot be read here, or it is very long.
async fn journal(store: &Store, task: TaskId) -> Result<Option<Fold>, StoreError> {
    let mut fold = Fold::new(task);
    let mut walk = JournalWalk::of(store, Some(task.to_string()));
    for _ in 0..ROWS {
        match walk.next().await {
            Ok(Some(row)) => {
                if let Some(row) = row.journal_row() {
                    // Damage is for the check of the audit. It hides no other row.
                    drop(fold.push_damaged(&row));
                }
            }
            Ok(None) => return Ok(Some(fold)),
            Err(error) if error.may_pass() => return Err(error),
            Err(_) => return Ok(None),
        }
    }
    Ok(None)
}

/// The hours with what was counted before.
async fn merged(
    store: &Store,
    hours: BTreeMap<(Tenant, String), Hour>,
) -> Result<Vec<DocumentWrite>, StoreError> {
    let mut by_tenant = BTreeMap::<Tenant, Vec<(String, Hour)>>::new();
    for ((tenant, name), hour) in hours {
        by_tenant.entry(tenant).or_default().push((name, hour));
    }
    let mut writes = Vec::new();
    for (tenant, hours) in by_tenant {
        let names = hours.iter().map(|(name, _)| name.clone()).collect();
        let before = named(store, &tenant, names).await?;
        for (name, mut hour) in hours {
            let there = before.iter().find(|it| it.name == name);
            if let Some(before) = there.and_then(readable) {
                hour.merge(&before);
            }
            let rev = there.map_or(Rev(0), |it| it.rev);
            let number = name.rsplit(' ').next().and_then(|it| it.parse().ok());
            let due_at = number.map(|hour: i64| begin_of(hour).later(KEPT));
            writes.push(write(&tenant, &name, rev, &hour, due_at)?);
        }
    }
    Ok(writes)
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

fn write(
    tenant: &Tenant,
    name: &str,
    over: Rev,
    body: &impl Serialize,
    due_at: Option<DbTime>,
) -> Result<DocumentWrite, StoreError> {
    Ok(DocumentWrite {
        kind: KIND,
        tenant: tenant.clone(),
        name: name.to_owned(),
        expected: Some(over),
        change: DocumentChange::Put {
            body: write_document(KIND, body)?,
            due_at,
        },
    })
}

/// Deletes hours that are over for long.
async fn forget(store: &Store) -> Result<(), StoreError> {
    let query = DocumentQuery::Due {
        kind: KIND,
        after: None,
        limit: FORGOTTEN,
    };
    let due = store.documents(&query).await?.rows;
    let gone = due.into_iter().map(|it| DocumentWrite {
        kind: KIND,
        tenant: it.tenant,
        name: it.name,
        expected: None,
        change: DocumentChange::Delete,
    });
    let gone: Vec<_> = gone.collect();
    if !gone.is_empty() {
        store.put(&gone).await?;
    }
    Ok(())
}

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
}

/// The durations of a type.
///
/// # Errors
/// [`StoreError`].
pub async fn durations(
    store: &Store,
    query: &DurationsOf<'_>,
) -> Result<TypeDurations, StoreError> {
    let (hours, counted_until) = hours(store, query).await?;
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
        counted_until: counted_until.map(rfc3339),
    })
}

/// Hours that have tasks, by their numbers, and when the last task ended that is counted.
async fn hours(
    store: &Store,
    query: &DurationsOf<'_>,
) -> Result<(Vec<(i64, Hour)>, Option<DbTime>), StoreError> {
    let (rev, position, now) = position(store, query.task_type).await?;
    let last = hour_of(query.until.unwrap_or(now).min(now));
    let kept = now.earlier(KEPT);
    let day_ago = now.earlier(BEGIN);
    let first = hour_of(query.since.unwrap_or(day_ago).max(kept));
    let names = (first..=last).map(|hour| name_of(query.task_type, hour));
    let names: Vec<String> = names.collect();
    let rows = match names.is_empty() {
        true => Vec::new(),
        false => named(store, query.tenant, names).await?,
    };
    let hours = rows.iter().filter_map(|row| {
        let number = row.name.rsplit(' ').next()?.parse().ok()?;
        Some((number, readable(row)?))
    });
    let mut hours: Vec<(i64, Hour)> = hours.collect();
    hours.sort_by_key(|(number, _)| *number);
    let counted = position.filter(|_| rev != Rev(0));
    Ok((hours, counted.map(|it| it.at)))
}
