//! The worker registry as documents: each process writes its own row, whatever is there.

use super::body::{delete, read_body, write_body};
use super::worker_activity::ActivityBody;
use crate::ports::{
    Document, DocumentChange, DocumentKind, DocumentQuery, DocumentWrite, FetchError, KeptResults,
    KnownType, Passed, Store, StoreError, WORKERS_READ, WorkerRow, WorkerSeen, Workers,
};
use crate::record::DbTime;
use counterstep_contracts::workers::{BreakerStanding, WorkerType};
use counterstep_contracts::{QueueName, TaskId, Tenant};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

const KIND: DocumentKind = DocumentKind::Worker;

#[derive(Serialize, Deserialize)]
struct Body {
    machine: String,
    program: String,
    queues: Vec<QueueName>,
    types: Vec<WorkerType>,
    concurrency: u32,
    running: Vec<TaskId>,
    running_count: u32,
    // Rows of older programs do not have these.
    #[serde(default)]
    heavy: u32,
    #[serde(default)]
    heavy_count: u32,
    #[serde(default)]
    permits: BTreeMap<String, u32>,
    #[serde(default)]
    abandoned_count: u32,
    lost_after_us: u64,
    passed: Option<PassedBody>,
    /// Programs that have no spool leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kept: Option<KeptBody>,
    /// Older programs leave it out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    fetch_errors: Vec<FetchError>,
    /// Older programs leave it out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    breakers: BTreeMap<String, BreakerStanding>,
    /// Older programs leave it out.
    #[serde(default)]
    activity: ActivityBody,
    /// `None`: this is its first row.
    started_at: Option<DbTime>,
    is_stopped: bool,
}

#[derive(Serialize, Deserialize)]
struct PassedBody {
    /// Before the write of this row.
    ago_us: u64,
    counts: BTreeMap<String, u64>,
}

#[derive(Serialize, Deserialize)]
struct KeptBody {
    results: u64,
    bytes: u64,
    oldest_us: Option<u64>,
}

impl From<KeptResults> for KeptBody {
    fn from(kept: KeptResults) -> Self {
        Self {
            results: kept.results,
            bytes: kept.bytes,
            oldest_us: kept.oldest.map(micros),
        }
    }
}

impl From<KeptBody> for KeptResults {
    fn from(kept: KeptBody) -> Self {
        Self {
            results: kept.results,
            bytes: kept.bytes,
            oldest: kept.oldest_us.map(Duration::from_micros),
        }
    }
}

pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

pub(super) async fn all(store: &Store) -> Result<Workers, StoreError> {
    let documents = store
        .documents(&DocumentQuery::Latest {
            kind: KIND,
            limit: WORKERS_READ,
        })
        .await?;
    let now = documents.now;
    let rows = documents.rows.into_iter().filter_map(|document| {
        let id = document.name.clone();
        read(document, now)
            .inspect_err(|error| tracing::warn!(worker = id, %error, "a process cannot be read"))
            .ok()
    });
    Ok(Workers {
        now,
        rows: rows.collect(),
    })
}

fn read(document: Document, now: DbTime) -> Result<WorkerSeen, StoreError> {
    let body: Body = read_body(KIND, &document.body)?;
    let seen_at = document.seen_at;
    let since = now.after(seen_at);
    let known = |of: WorkerType| KnownType {
        name: of.name,
        version: of.version,
        definition: of.definition,
    };
    let passed = |passed: PassedBody| Passed {
        ago: since + Duration::from_micros(passed.ago_us),
        counts: passed.counts,
    };
    let activity = body.activity.read(&body.running, since);
    let row = WorkerRow {
        activity,
        id: document.name,
        machine: body.machine,
        program: body.program,
        queues: body.queues,
        types: body.types.into_iter().map(known).collect(),
        concurrency: body.concurrency,
        running: body.running,
        running_count: body.running_count,
        heavy: body.heavy,
        heavy_count: body.heavy_count,
        permits: body.permits,
        abandoned_count: body.abandoned_count,
        lost_after: Duration::from_micros(body.lost_after_us),
        passed: body.passed.map(passed),
        kept: body.kept.map(KeptResults::from),
        fetch_errors: body.fetch_errors,
        breakers: body.breakers,
        started_at: body.started_at,
        is_stopped: body.is_stopped,
    };
    Ok(WorkerSeen { row, seen_at })
}

pub(super) async fn refresh(store: &Store, row: &WorkerRow) -> Result<DbTime, StoreError> {
    let of = |of: &KnownType| WorkerType {
        name: of.name.clone(),
        version: of.version,
        definition: of.definition.clone(),
    };
    let passed = |passed: &Passed| PassedBody {
        ago_us: micros(passed.ago),
        counts: passed.counts.clone(),
    };
    let body = Body {
        machine: row.machine.clone(),
        program: row.program.clone(),
        queues: row.queues.clone(),
        types: row.types.iter().map(of).collect(),
        concurrency: row.concurrency,
        running: row.running.clone(),
        running_count: row.running_count,
        heavy: row.heavy,
        heavy_count: row.heavy_count,
        permits: row.permits.clone(),
        abandoned_count: row.abandoned_count,
        lost_after_us: micros(row.lost_after),
        passed: row.passed.as_ref().map(passed),
        kept: row.kept.map(KeptBody::from),
        fetch_errors: row.fetch_errors.clone(),
        breakers: row.breakers.clone(),
        activity: ActivityBody::of(&row.activity, &row.running),
        started_at: row.started_at,
        is_stopped: row.is_stopped,
    };
    let write = DocumentWrite {
        kind: KIND,
        tenant: Tenant::default(),
        name: row.id.clone(),
        expected: None,
        change: DocumentChange::Put {
            body: write_body(KIND, &body)?,
            due_at: None,
        },
    };
    let written = store.put_document(&write).await?;
    written.ok_or_else(|| StoreError::Unknown("the row of this process was not written".to_owned()))
}

pub(super) async fn forget(
    store: &Store,
    ids: &[String],
    unseen_for: Duration,
) -> Result<u64, StoreError> {
    let query = DocumentQuery::Named {
        kind: KIND,
        tenant: Tenant::default(),
        names: ids.to_vec(),
    };
    let found = store.documents(&query).await?;
    let mut forgotten = 0;
    for row in found
        .rows
        .into_iter()
        .filter(|row| found.now.after(row.seen_at) >= unseen_for)
    {
        // Under its revision: a process that is there again keeps its row.
        let deleted = store
            .put_document(&delete(KIND, row.tenant, row.name, row.rev))
            .await?;
        forgotten += u64::from(deleted.is_some());
    }
    Ok(forgotten)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::Activity;
    use counterstep_contracts::Rev;

    #[test]
    fn a_row_of_an_older_program_is_read() {
        let body = r#"{"machine":"rack-7","program":"0.1.0","queues":["files"],"types":[],"concurrency":8,"running":[],
            "running_count":0,"lost_after_us":45000000,"passed":null,"started_at":null,"is_stopped":false}"#;
        let document = Document {
            tenant: Tenant::default(),
            name: "worker:1".to_owned(),
            rev: Rev(1),
            body: body.to_owned(),
            due_at: None,
            seen_at: DbTime(1),
        };
        let row = read(document, DbTime(2)).expect("it is whole").row;
        assert_eq!(row.fetch_errors, []);
        assert_eq!(row.breakers, BTreeMap::new());
        assert_eq!((row.heavy, row.kept), (0, None));
        assert_eq!(row.activity, Activity::default());
    }
}
