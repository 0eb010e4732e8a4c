//! What is made of rows. Must not repair what it cannot read.

use super::{
    ChainRead, ChildCountRow, ChildRow, DocumentRow, EndedRow, FlowRow, GaugeRow, HeadRow,
    InFlightRow, KeyRow, LineRow, LogRead, OutboxRead, ParkedRow, PlaceCountRow, PlaceRead, RawId,
    ReceiveRow, RevisionRow, Time, TipRow, TouchedRow, each,
};
use crate::columns::{
    Unreadable, count, parse, parse_some, read_json, read_labels, read_some_json,
};
use counterstep_contracts::{Epoch, QueueName, Rev, StepNo, TaskStatus, Tenant};
use counterstep_kernel::ports::{
    ChainRow, ChainTip, ChildCount, ChildLine, Document, EndedTask, Flow, Gauges, IdempotencyRow,
    InFlight, KnownType, LogRow, OTHER, OutboxRow, ParkedCount, PlaceCount, PlaceRow, Receive,
    TaskCount, TaskHead, TaskLine, TaskRevision, Touched,
};
use counterstep_steps::times::DbTime;
use std::collections::BTreeMap;

impl HeadRow {
    pub(crate) fn decode(self) -> Result<TaskHead, Unreadable> {
        Ok(TaskHead {
            task: self.id.task("id")?,
            tenant: Tenant(self.tenant),
            task_type: self.task_type,
            version: u32::try_from(self.version).ok(),
            status: parse("status", &self.status).ok(),
            rev: Rev(self.rev),
            since: self.since.0,
        })
    }
}

impl TouchedRow {
    pub(crate) fn decode(self) -> Result<Touched, Unreadable> {
        Ok(Touched {
            task: self.id.task("id")?,
            task_type: self.task_type,
            version: u32::try_from(self.version).ok(),
            rev: Rev(self.rev),
            queue: self.queue,
            traceparent: self.traceparent,
        })
    }
}

impl LineRow {
    pub(crate) fn decode(self) -> Result<TaskLine, Unreadable> {
        Ok(TaskLine {
            task: self.id.task("id")?,
            tenant: Tenant(self.tenant),
            task_type: self.task_type,
            version: count("version", self.version)?,
            status: parse("status", &self.status)?,
            rev: Rev(self.rev),
            failure: read_some_json("failure", self.failure.as_deref())?,
            residue: self.residue,
            labels: read_labels(self.labels.as_deref())?,
            created_at: self.created_at.0,
            updated_at: self.updated_at.0,
            finished_at: self.finished_at.map(|it| it.0),
        })
    }
}

impl InFlightRow {
    pub(crate) fn decode(self) -> Result<InFlight, Unreadable> {
        Ok(InFlight {
            of: KnownType {
                name: self.task_type,
                version: count("version", self.version)?,
                definition: self.definition_hash,
            },
            queue: (!self.queue.is_empty()).then_some(QueueName(self.queue)),
            count: u64::try_from(self.tasks).unwrap_or_default(),
            example: parse("id", &self.example)?,
        })
    }
}

impl GaugeRow {
    fn decode(self, labels: &[String]) -> Result<TaskCount, Unreadable> {
        Ok(TaskCount {
            status: parse("tasks.status", &self.status)?,
            queue: self.queue,
            labels: match self.label_values {
                Some(values) => read_json("tasks.labels", &values)?,
                None => vec![OTHER.to_owned(); labels.len()],
            },
            count: u64::try_from(self.tasks).unwrap_or_default(),
        })
    }
}

/// What is under way, but for parked tasks. `unpublished`: when the oldest event was written.
pub(crate) fn gauges(
    rows: Vec<GaugeRow>,
    labels: &[String],
    now: DbTime,
    unpublished: Option<Time>,
) -> Result<Gauges, Unreadable> {
    let age = |since: Option<Time>| since.map(|since| now.after(since.0));
    let mut oldest_unclaimed = BTreeMap::new();
    for row in &rows {
        let is_unclaimed = parse("tasks.status", &row.status).is_ok_and(TaskStatus::is_unclaimed);
        if let Some(waits) = age(row.due_since).filter(|_| is_unclaimed) {
            let queue = QueueName(row.queue.clone()).base();
            let oldest = oldest_unclaimed.entry(queue).or_insert(waits);
            *oldest = waits.max(*oldest);
        }
    }
    Ok(Gauges {
        oldest_unclaimed,
        oldest_running: age(rows.iter().filter_map(|row| row.running_since).min()),
        oldest_due: age(rows.iter().filter_map(|row| row.due_since).min()),
        oldest_unpublished: age(unpublished),
        tasks: each(rows, |row| row.decode(labels))?,
        parked: Vec::new(),
    })
}

/// What came and went.
pub(crate) fn flow(rows: Vec<FlowRow>) -> Result<Flow, Unreadable> {
    let mut flow = Flow::default();
    for row in rows {
        let tasks = u64::try_from(row.tasks).unwrap_or_default();
        match row.status.as_deref() {
            None | Some("") => flow.submitted = tasks,
            Some(_) if tasks == 0 => {}
            Some(status) => drop(flow.ended.insert(parse("tasks.status", status)?, tasks)),
        }
    }
    Ok(flow)
}

impl ParkedRow {
    pub(crate) fn decode(self, now: DbTime) -> Result<ParkedCount, Unreadable> {
        Ok(ParkedCount {
            status: parse("tasks.status", &self.status)?,
            task_type: self.task_type,
            count: u64::try_from(self.tasks).unwrap_or_default(),
            oldest: now.after(self.since.0),
        })
    }
}

impl ChildCountRow {
    pub(crate) fn decode(self) -> Result<ChildCount, Unreadable> {
        Ok(ChildCount {
            step: StepNo(count("children.step", self.step.0)?),
            status: parse("status", &self.status)?,
            tasks: count("tasks", self.tasks)?,
            residue: self.residue,
        })
    }
}

impl ChildRow {
    pub(crate) fn decode(self) -> Result<ChildLine, Unreadable> {
        Ok(ChildLine {
            step: StepNo(count("children.step", self.step.0)?),
            no: count("no", self.no.0)?,
            task: self.task.task("task")?,
            task_type: self.task_type,
            status: parse("status", &self.status)?,
            failure: read_some_json("failure", self.failure.as_deref())?,
        })
    }
}

impl PlaceRead {
    pub(crate) fn decode(self) -> Result<PlaceRow, Unreadable> {
        Ok(PlaceRow {
            key: self.key,
            task: self.task.task("task")?,
            no: self.no.map(|no| count("places.no", no)).transpose()?,
            since: self.since.0,
            status: parse("status", &self.status)?,
            waiting: parse_some("waiting", self.waiting.as_deref())?,
            cancel_requested: self.cancel_requested,
        })
    }
}

impl PlaceCountRow {
    pub(crate) fn decode(self) -> Result<PlaceCount, Unreadable> {
        Ok(PlaceCount {
            key: self.key,
            held: count("places", self.held)?,
            waiting: count("places", self.waiting)?,
            asleep: count("places", self.asleep)?,
        })
    }
}

impl LogRead {
    pub(crate) fn decode(self) -> Result<LogRow, Unreadable> {
        Ok(LogRow {
            epoch: Epoch(self.epoch),
            no: count("no", self.no.0)?,
            lines: count("lines", self.lines.0)?,
            bytes: count("bytes", self.bytes.0)?,
            dropped: u64::try_from(self.dropped).unwrap_or(0),
            body: self.body,
        })
    }
}

impl EndedRow {
    pub(crate) fn decode(self) -> Result<EndedTask, Unreadable> {
        Ok(EndedTask {
            task: self.task.task("task")?,
            tenant: Tenant(self.tenant),
            rev: Rev(self.rev),
        })
    }
}

impl RevisionRow {
    pub(crate) fn decode(self) -> Result<TaskRevision, Unreadable> {
        Ok(TaskRevision {
            task: self.id.task("id")?,
            rev: Rev(self.rev),
            at: self.at.0,
        })
    }
}

impl ReceiveRow {
    pub(crate) fn decode(self) -> Result<Receive, Unreadable> {
        Ok(Receive {
            task: self.task.task("receives.task")?,
            tenant: Tenant(self.tenant),
            is_condemned: self.is_condemned,
            sweep_at: self.sweep_at.0,
        })
    }
}

impl DocumentRow {
    pub(crate) fn decode(self) -> Document {
        Document {
            tenant: Tenant(self.tenant),
            name: self.name,
            rev: Rev(self.rev),
            body: self.body,
            due_at: self.due_at.map(|at| at.0),
            seen_at: self.seen_at.0,
        }
    }
}

impl KeyRow {
    pub(crate) fn decode(self) -> Result<IdempotencyRow, Unreadable> {
        let finished = match (self.fingerprint, self.answer) {
            (Some(fingerprint), Some(answer)) => {
                Some((fingerprint, read_json("idempotency.answer", &answer)?))
            }
            (None, None) => None,
            (Some(_), None) | (None, Some(_)) => {
                let why = "idempotency: an answer and its fingerprint go together";
                return Err(Unreadable(why.to_owned(), String::new()));
            }
        };
        Ok(IdempotencyRow {
            task: self.task.task("idempotency.task")?,
            owner: self.owner,
            finished,
        })
    }
}

impl OutboxRead {
    pub(crate) fn decode(self) -> Result<OutboxRow, Unreadable> {
        Ok(OutboxRow {
            id: self.id,
            at: self.at.0,
            events: read_json("outbox.events", &self.events)?,
        })
    }
}

impl ChainRead {
    pub(crate) fn decode(self) -> ChainRow {
        let RawId(task) = self.task;
        let head = self.head_status.zip(self.head_rev);
        let tip = head.map(|(status, rev)| ChainTip {
            task: task.clone(),
            status: status.0,
            rev,
            seal: self.head_seal.unwrap_or_default(),
            has_rows: true,
        });
        ChainRow {
            rev: self.rev,
            at: self.at.0,
            change_id: self.change_id.0,
            epoch: self.epoch,
            actor: self.actor.0,
            form: self.form.0,
            entries: self.entries.0,
            data: self.data.map(|data| data.0),
            link: self.link.unwrap_or_default(),
            seal: self.seal.unwrap_or_default(),
            tip,
            task,
        }
    }
}

impl TipRow {
    pub(crate) fn decode(self) -> ChainTip {
        ChainTip {
            task: self.id.0,
            status: self.status.0,
            rev: self.rev,
            seal: self.seal.unwrap_or_default(),
            has_rows: self.has_rows,
        }
    }
}
