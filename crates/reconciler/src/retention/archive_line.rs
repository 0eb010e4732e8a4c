//! A task as a line of the archive.

use counterstep_contracts::{LogLine, TaskId};
use counterstep_kernel::payloads::ERASED;
use counterstep_kernel::ports::{PayloadCodec, PayloadError, StoreError};
use counterstep_kernel::record::{AttemptRow, History, StepRow, TaskRecord, TaskRow};
use counterstep_steps::times::{DbTime, rfc3339};
use serde_json::{Value, json};

/// Where the line of a task is encrypted to.
fn place(task: &str) -> String {
    format!("archive of task {task}")
}

/// All rows of a task as JSON. Times are RFC 3339, by the database's clock. Where payloads are encrypted,
/// the whole line is, but for what the task is found by; of a tenant whose keys were deleted there are no payloads
/// and there is nothing to encrypt.
pub(super) fn archive_line(
    codec: Option<&dyn PayloadCodec>,
    record: &TaskRecord,
    history: &History,
    log: &[LogLine],
) -> Result<Value, StoreError> {
    let line = whole(record, history, log);
    let Some(codec) = codec else { return Ok(line) };
    let row = &record.task;
    let task = id(row.id);
    let encrypted = match codec.encrypt(&row.tenant, &place(&task), &line.to_string()) {
        Err(PayloadError::Erased(_)) => return Ok(without_payloads(record, history)),
        encrypted => encrypted?,
    };
    Ok(json!({
        "format": 1,
        "task": {
            "id": task,
            "tenant": row.tenant,
            "type": row.task_type,
            "version": row.version,
            "status": row.status,
            "labels": row.labels,
            "finished_at": at(row.finished_at),
        },
        "encrypted": encrypted,
    }))
}

/// The same without what was handed in: its tenant was erased, and the keys did not cover what was written before
/// there were any, or were deleted just now.
fn without_payloads(record: &TaskRecord, history: &History) -> Value {
    let (mut record, mut history) = (record.clone(), history.clone());
    let task = &mut record.task;
    task.request = Value::Null;
    task.earlier_requests.fill(Value::Null);
    task.response = None;
    let mut failure = task.failure.as_mut();
    while let Some(one) = failure {
        ERASED.clone_into(&mut one.message);
        failure = one.blocked_by.as_deref_mut();
    }
    for step in &mut record.steps {
        (step.output, step.signal) = (None, None);
    }
    let of_steps = record.steps.iter_mut().map(|row| &mut row.error);
    let of_attempts = history.attempts.iter_mut().map(|row| &mut row.error);
    for error in of_steps.chain(of_attempts).flatten() {
        ERASED.clone_into(&mut error.message);
    }
    for row in &mut history.audit {
        if row.entry.event != "submitted" {
            row.entry.details = Value::Null;
        }
    }
    whole(&record, &history, &[])
}

/// The encrypted text in a line of an archive, behind the location that it is bound to; `None`: nothing is encrypted.
#[must_use]
pub fn encrypted_archive_line(line: &Value) -> Option<(String, &str)> {
    let encrypted = line.get("encrypted")?.as_str()?;
    Some((place(line["task"]["id"].as_str()?), encrypted))
}

fn whole(record: &TaskRecord, history: &History, log: &[LogLine]) -> Value {
    let audit: Vec<Value> = history
        .audit
        .iter()
        .map(|row| {
            json!({"at": rfc3339(row.at), "change_id": row.change_id, "seal": row.seal.to_string(), "entry": row.entry})
        })
        .collect();
    json!({
        "format": 1,
        "task": json_of_task(&record.task),
        "steps": record.steps.iter().map(json_of_step).collect::<Vec<_>>(),
        "attempts": history.attempts.iter().map(json_of_attempt).collect::<Vec<_>>(),
        "audit": audit,
        "log": log,
    })
}

fn at(time: Option<DbTime>) -> Option<String> {
    time.map(rfc3339)
}

fn id(task: TaskId) -> String {
    task.to_string()
}

fn json_of_task(row: &TaskRow) -> Value {
    json!({
        "id": id(row.id),
        "tenant": row.tenant,
        "type": row.task_type,
        "version": row.version,
        "definition_hash": row.definition_hash,
        "status": row.status,
        "host": row.host,
        "queue": row.queue,
        "rev": row.rev,
        "epoch": row.epoch,
        "deadline_at": at(row.deadline_at),
        "cancel_requested_at": at(row.cancel_requested_at),
        "goal": row.goal,
        "recovery_attempts": row.recovery_attempts,
        "audit_seq": row.audit_seq,
        "request": row.request,
        "earlier_requests": row.earlier_requests,
        "response": row.response,
        "failure": row.failure,
        "residue": row.residue,
        "settled": row.settled,
        "traceparent": row.traceparent,
        "parent": row.parent,
        "labels": row.labels,
        "created_at": rfc3339(row.created_at),
        "updated_at": rfc3339(row.updated_at),
        "finished_at": at(row.finished_at),
        "change_id": row.change_id,
    })
}

fn json_of_step(row: &StepRow) -> Value {
    json!({
        "no": row.no,
        "name": row.name,
        "status": row.status,
        "output": row.output,
        "attempts": row.attempts,
        "retries_used": row.retries_used,
        "undo_attempts": row.undo_attempts,
        "undo_retries_used": row.undo_retries_used,
        "started_seq": row.started_seq,
        "error": row.error.as_ref().map(ToString::to_string),
        "signal": row.signal,
        "in_fallback": row.in_fallback,
        "children": row.children,
        "probe": row.probe,
        "kept": row.kept,
        "request": row.request,
        "keeps_request": row.keeps_request,
    })
}

fn json_of_attempt(row: &AttemptRow) -> Value {
    json!({
        "step": row.step,
        "direction": row.direction,
        "attempt": row.attempt,
        "epoch": row.epoch,
        "prefix": row.prefix,
        "outcome": row.outcome,
        "error": row.error.as_ref().map(ToString::to_string),
        "started_at": rfc3339(row.started_at),
        "ended_at": at(row.ended_at),
        "change_id": row.change_id,
    })
}
