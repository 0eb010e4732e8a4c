//! The count of tasks that have ended or were parked, a page at a time, by reconcilers. Must not count an end twice, whichever of
//! several processes counts.

use super::{
    BEGIN, Hour, KEPT, KIND, begin_of, hour_in, hour_of, name_by_label, name_of, named, readable,
};
use crate::documents::{read_document, write_document};
use crate::engine::Engine;
use crate::journal::{Fold, short_past};
use crate::ports::{
    Document, DocumentChange, DocumentQuery, DocumentWrite, DocumentsPut, RevisionsOf, SEEN_WITHIN,
    Store, StoreError, TaskLine, TaskRevision,
};
use crate::record::DbTime;
use counterstep_contracts::{Rev, TaskId, Tenant};
use counterstep_steps::CancelToken;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Tasks of a page.
const PAGE: u32 = 1_000;

/// Maximum number of tasks of a pass.
const MOST: u64 = 100_000;

/// Of how many tasks of a tenant and a page the steps are looked at, and of how many in a pass: each is a read of a journal.
const STEPS_OF_PAGE: usize = 20;
const STEPS_OF_PASS: usize = 1_000;

/// Maximum number of documents that are deleted in a pass.
const FORGOTTEN: u32 = 500;

/// All tasks of a type before this one, in the order in which they ended or were parked, are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Position {
    pub(super) at: DbTime,
    task: TaskId,
}

impl Position {
    /// Before all tasks of this time.
    const fn of(at: DbTime) -> Self {
        let task = TaskId(uuid::Uuid::nil());
        Self { at, task }
    }
}

impl From<&TaskRevision> for Position {
    fn from(of: &TaskRevision) -> Self {
        Self {
            at: of.at,
            task: of.task,
        }
    }
}

/// How far something is counted, and at which revision that is written. `None`: that cannot be read, or is later than now.
type Reached = (Rev, Option<Position>);

/// Hours by the tenant and the name of their document.
#[derive(Debug)]
struct Hours<'a> {
    each: BTreeMap<(Tenant, String), Hour>,
    /// Names of the labels by whose values tasks count too.
    labels: &'a [String],
}

impl<'a> Hours<'a> {
    const fn by(labels: &'a [String]) -> Self {
        Self {
            each: BTreeMap::new(),
            labels,
        }
    }

    fn of(&mut self, line: &TaskLine, name: String) -> &mut Hour {
        self.each.entry((line.tenant.clone(), name)).or_default()
    }

    /// Counts a task that ended then, or was parked: in the hour that is answered, and by its labels.
    fn add(&mut self, line: &TaskLine, at: DbTime) -> &mut Hour {
        let hour = hour_of(at);
        for label in self.labels {
            if let Some(value) = line.labels.get(label) {
                let by_label = self.of(line, name_by_label(&line.task_type, hour, label));
                by_label.of_value(value).add_task(line, at);
            }
        }
        let whole = self.of(line, name_of(&line.task_type, hour));
        whole.add_task(line, at);
        whole
    }
}

/// The name of the document that has how far tasks of a type are counted that have ended. Each program counts those of its types.
fn position_of(task_type: &str) -> String {
    format!("{task_type} position")
}

/// The name of the document that has how far tasks of a type are counted that were parked.
fn parked_position_of(task_type: &str) -> String {
    format!("{task_type} parked")
}

/// Counts tasks that have ended or were parked, of all tenants and of this program's types, and forgets hours that are over for long.
/// Of several processes that count the same, one does. A task whose rows cannot be read is not counted.
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
            let of_page = count_page(engine, task_type, &mut steps_left, shutdown).await?;
            counted += of_page;
            if of_page < u64::from(PAGE) {
                break;
            }
        }
    }
    let mut counted = 0;
    while counted < MOST && !shutdown.is_cancelled() {
        let of_page = count_parked(engine, &types).await?;
        counted += of_page;
        if of_page < u64::from(PAGE) {
            break;
        }
    }
    forget(store).await
}

async fn count_page(
    engine: &Engine,
    task_type: &str,
    steps_left: &mut usize,
    shutdown: &CancelToken,
) -> Result<u64, StoreError> {
    let store = &engine.ports.store;
    let ((rev, found), now) = position(store, task_type).await?;
    let until = now.earlier(SEEN_WITHIN);
    let anew = Position::of(until);
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
        Some(last) => last.into(),
        None if found.is_none() => anew,
        None => return Ok(0),
    };
    let hours = ended_hours(engine, &ended, steps_left, shutdown).await?;
    // First: of several processes that count the same, the others are refused at once.
    let own = position_of(task_type);
    let mut writes = vec![write(&Tenant::default(), &own, rev, &next, None)?];
    writes.extend(merged(store, hours).await?);
    written(store, &writes, &ended).await
}

async fn ended_hours<'a>(
    engine: &'a Engine,
    ended: &[TaskRevision],
    steps_left: &mut usize,
    shutdown: &CancelToken,
) -> Result<Hours<'a>, StoreError> {
    let (store, labels) = (&engine.ports.store, &engine.settings.metrics_labels);
    let mut hours = Hours::by(labels);
    let mut looked_at = HashMap::<Tenant, usize>::new();
    // One that was undone meanwhile with its parent counts where that has ended.
    let ended_at = |line: &TaskLine| line.finished_at.filter(|_| line.status.is_terminal());
    for (line, at) in unchanged(store, ended, ended_at).await? {
        let hour = hours.add(&line, at);
        let of_tenant = looked_at.entry(line.tenant).or_default();
        if *of_tenant < STEPS_OF_PAGE && *steps_left > 0 && !shutdown.is_cancelled() {
            *of_tenant += 1;
            *steps_left -= 1;
            if let Some(fold) = short_past(store, line.task, Fold::new(line.task)).await? {
                hour.add_steps(&fold);
            }
        }
    }
    Ok(hours)
}

/// Counts a page of parked tasks, of all types together: no index has them by type and time, so each page reads all that are parked.
async fn count_parked(engine: &Engine, types: &BTreeSet<&str>) -> Result<u64, StoreError> {
    let store = &engine.ports.store;
    let names: Vec<String> = types.iter().map(|it| parked_position_of(it)).collect();
    let (reached, now) = reached(store, &names).await?;
    let until = now.earlier(SEEN_WITHIN);
    let anew = Position::of(until);
    let after = types.iter().zip(&reached).map(|(task_type, (_, found))| {
        let Position { at, task } = found.unwrap_or(anew);
        ((*task_type).to_owned(), (at, task))
    });
    let query = RevisionsOf::Parked {
        after: after.collect(),
        limit: PAGE,
    };
    let mut parked = store.revisions(&query).await?.tasks;
    parked.retain(|it| it.at <= until);
    let last = parked.last().map(Position::from);
    let mut writes = Vec::new();
    // The page is in one order for all types: none of them has another one before its last.
    for (name, (rev, found)) in names.iter().zip(reached) {
        let next = found.or(Some(anew)).max(last);
        if let Some(next) = next.filter(|_| next != found) {
            writes.push(write(&Tenant::default(), name, rev, &next, None)?);
        }
    }
    if writes.is_empty() {
        return Ok(0);
    }
    writes.extend(merged(store, parked_hours(engine, &parked).await?).await?);
    written(store, &writes, &parked).await
}

async fn parked_hours<'a>(
    engine: &'a Engine,
    parked: &[TaskRevision],
) -> Result<Hours<'a>, StoreError> {
    let (store, labels) = (&engine.ports.store, &engine.settings.metrics_labels);
    let mut hours = Hours::by(labels);
    // One that went on meanwhile counts where it comes to rest.
    let parked_at = |line: &TaskLine| line.status.is_parked().then_some(line.updated_at);
    for (line, at) in unchanged(store, parked, parked_at).await? {
        hours.add(&line, at);
    }
    Ok(hours)
}

/// The tasks of a page that are still as they were found, with the time by which they were.
async fn unchanged(
    store: &Store,
    page: &[TaskRevision],
    time_of: impl Fn(&TaskLine) -> Option<DbTime>,
) -> Result<Vec<(TaskLine, DbTime)>, StoreError> {
    let times: HashMap<TaskId, DbTime> = page.iter().map(|it| (it.task, it.at)).collect();
    let ids: Vec<TaskId> = page.iter().map(|it| it.task).collect();
    let lines = store.lines(&ids).await?.into_iter();
    let same = lines.filter_map(|line| {
        let at = time_of(&line)?;
        (times.get(&line.task) == Some(&at)).then_some((line, at))
    });
    Ok(same.collect())
}

/// How many of a page are counted: none, if another process has counted them.
async fn written(
    store: &Store,
    writes: &[DocumentWrite],
    page: &[TaskRevision],
) -> Result<u64, StoreError> {
    match store.put(writes).await? {
        DocumentsPut::Written(_) => Ok(page.len() as u64),
        DocumentsPut::Refused(_) => Ok(0),
    }
}

/// How far tasks of a type are counted that have ended, and the time of the database.
pub(super) async fn position(
    store: &Store,
    task_type: &str,
) -> Result<(Reached, DbTime), StoreError> {
    let (reached, now) = reached(store, &[position_of(task_type)]).await?;
    Ok((reached[0], now))
}

/// What documents of these names have, and the time of the database.
async fn reached(store: &Store, names: &[String]) -> Result<(Vec<Reached>, DbTime), StoreError> {
    let query = DocumentQuery::Named {
        kind: KIND,
        tenant: Tenant::default(),
        names: names.to_vec(),
    };
    let found = store.documents(&query).await?;
    let now = found.now;
    let reached = names.iter().map(|name| {
        let document = found.rows.iter().find(|it| it.name == *name);
        let Some(document) = document else {
            return (Rev(0), Some(Position::of(now.earlier(BEGIN))));
        };
        (document.rev, readable_position(document, now))
    });
    Ok((reached.collect(), now))
}

fn readable_position(document: &Document, now: DbTime) -> Option<Position> {
    let read = read_document::<Position>(KIND, &document.body);
    let position = read.ok().filter(|position| position.at <= now);
    if position.is_none() {
        tracing::warn!(
            document = document.name,
            "how far durations are counted cannot be read, or is later than now: they are counted from now on"
        );
    }
    position
}

/// The hours with what was counted before.
async fn merged(store: &Store, hours: Hours<'_>) -> Result<Vec<DocumentWrite>, StoreError> {
    let mut by_tenant = BTreeMap::<Tenant, Vec<(String, Hour)>>::new();
    for ((tenant, name), hour) in hours.each {
        by_tenant.entry(tenant).or_default().push((name, hour));
    }
    let mut writes = Vec::new();
    for (tenant, hours) in by_tenant {
        let names = hours.iter().map(|(name, _)| name.clone()).collect();
        let before = named(store, &tenant, names).await?;
        for (name, of_page) in hours {
            let there = before.iter().find(|it| it.name == name);
            // The values of a label that it has keep their place.
            let mut hour = there.and_then(readable).unwrap_or_default();
            hour.merge(&of_page);
            let rev = there.map_or(Rev(0), |it| it.rev);
            let due_at = hour_in(&name).map(|hour| begin_of(hour).later(KEPT));
            writes.push(write(&tenant, &name, rev, &hour, due_at)?);
        }
    }
    Ok(writes)
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
