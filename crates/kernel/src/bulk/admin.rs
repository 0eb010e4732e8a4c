//! What people ask about bulk operations: a new one, how they stand, and that one pauses, goes on or is stopped. Must not change a
//! task.

use super::decided::results;
use super::error::{BulkError, MOST};
use super::operation::{BulkSpec, KIND, Operation, find};
use super::preview::look;
use crate::audit::admin_audit::{self, AdminChange};
use crate::dead_letters::LARGEST;
use crate::documents::{Edit, edit};
use crate::engine::Engine;
use crate::ports::{Document, DocumentQuery, Documents, Store, StoreError};
use crate::record::DbTime;
use crate::times::rfc3339;
use counterstep_contracts::bulk::{BulkStatus, BulkView};
use counterstep_contracts::groups::DeadLetterGroup;
use counterstep_contracts::pace::{PastDecision, PausedFor};
use counterstep_contracts::{Rev, Tenant};
use futures::future::BoxFuture;
use serde_json::json;
use std::collections::HashMap;

/// Starts an operation; API processes execute it.
///
/// # Errors
/// [`BulkError`].
pub fn start(engine: &Engine, spec: BulkSpec) -> BoxFuture<'_, Result<BulkView, BulkError>> {
    Box::pin(async move {
        let store = &engine.ports.store;
        let tenant = spec.selection.tenant.clone();
        let there = documents(store, &tenant).await?;
        if there.rows.len() >= MOST as usize {
            return Err(BulkError::TooMany);
        }
        let (counted, _) = look(engine, &spec).await?;
        // One may run again otherwise before its turn: those that have are among its tasks.
        let all = counted.count + counted.already_run_again.unwrap_or_default();
        let total = counted.complete.then_some(all);
        let id = engine.new_task_id().to_string();
        let operation = Operation::new(spec, total, there.now);
        let write = operation.write(&id, Rev(0), there.now)?;
        let actor = &operation.spec.actor;
        let entry = entry(store, &operation, &id, "bulk_started", actor);
        if !admin_audit::put(store, write, entry).await? {
            return Err(BulkError::Moved);
        }
        Ok(operation.view(&Document {
            tenant,
            name: id,
            rev: Rev(1),
            body: String::new(),
            due_at: None,
            seen_at: there.now,
        }))
    })
}

/// The entry in the audit of changes beside tasks, which has no texts of tasks.
fn entry(
    store: &Store,
    operation: &Operation,
    id: &str,
    event: &'static str,
    actor: &str,
) -> AdminChange {
    let spec = &operation.spec;
    // It is a hash of a text: where texts are encrypted, it would tell who has guessed one.
    let is_clear = store.payload_codec().is_none();
    let group = spec.selection.group.as_ref().filter(|_| is_clear);
    AdminChange {
        event,
        actor: actor.to_owned(),
        tenant: operation.tenant().clone(),
        name: id.to_owned(),
        details: json!({
            "action": spec.action,
            "as": spec.settled,
            "from": spec.from,
            "type": spec.selection.task_type,
            "statuses": spec.selection.statuses,
            "group": group,
            "pace": spec.pace,
        }),
    }
}

async fn documents(store: &Store, tenant: &Tenant) -> Result<Documents, StoreError> {
    let query = DocumentQuery::Page {
        kind: KIND,
        tenant: tenant.clone(),
        after: None,
        limit: MOST,
    };
    store.documents(&query).await
}

/// The operations of a tenant of the last 30 days, the last started first. One that cannot be read is left
/// out and logged.
///
/// # Errors
/// [`StoreError`].
pub async fn list(store: &Store, tenant: &Tenant) -> Result<Vec<BulkView>, StoreError> {
    let found = documents(store, tenant).await?.rows;
    // Their names begin with the time.
    let views = found.iter().rev().filter_map(|document| {
        let read = Operation::read(document);
        let operation = read.inspect_err(
            |error| tracing::error!(operation = document.name, %error, "a bulk operation cannot be read"),
        );
        Some(operation.ok()?.view(document))
    });
    Ok(views.collect())
}

/// Adds to the largest groups what was last decided about each as one operation, and how that has ended.
///
/// # Errors
/// [`StoreError`].
pub async fn add_last_decisions(
    store: &Store,
    tenant: &Tenant,
    groups: &mut [DeadLetterGroup],
) -> Result<(), StoreError> {
    if groups.is_empty() {
        return Ok(());
    }
    let found = documents(store, tenant).await?.rows;
    // Their names begin with the time. One that cannot be read here says nothing.
    let operations = found.iter().rev();
    let operations = operations.filter_map(|it| Some((it, Operation::read(it).ok()?)));
    let mut last = HashMap::new();
    for (document, operation) in operations {
        if let Some(group) = operation.spec.selection.group.clone() {
            last.entry(group).or_insert((document, operation));
        }
    }
    for group in groups.iter_mut().take(LARGEST) {
        let Some((document, operation)) = last.get(&group.id) else {
            continue;
        };
        let results = match results(store, document, operation).await {
            Err(error) if !error.may_pass() => {
                tracing::error!(operation = document.name, %error, "what became of its tasks cannot be read");
                continue;
            }
            results => results?,
        };
        group.last_decision = Some(PastDecision {
            operation: document.name.clone(),
            action: operation.spec.action,
            note: operation.spec.note.clone(),
            actor: operation.spec.actor.clone(),
            at: rfc3339(operation.created_at),
            results,
        });
    }
    Ok(())
}

/// How one stands.
///
/// # Errors
/// [`BulkError`].
pub async fn show(store: &Store, tenant: &Tenant, id: &str) -> Result<BulkView, BulkError> {
    let (document, operation, _) = find(store, tenant, id).await?;
    let results = results(store, &document, &operation).await?;
    Ok(BulkView {
        results: Some(results),
        ..operation.view(&document)
    })
}

/// Stops one: tasks that were begun are finished, the others stay as they are. One that has ended stays
/// as it is.
///
/// # Errors
/// [`BulkError`].
pub async fn stop(
    store: &Store,
    tenant: &Tenant,
    id: &str,
    actor: &str,
) -> Result<BulkView, BulkError> {
    let open = [BulkStatus::Running, BulkStatus::Paused];
    let stop = |operation: &mut Operation, _| operation.stop();
    change(store, tenant, id, (actor, "bulk_stopped"), &open, stop).await
}

/// Pauses one: tasks that were begun are finished. One that does not run stays as it is.
///
/// # Errors
/// [`BulkError`].
pub async fn pause(
    store: &Store,
    tenant: &Tenant,
    id: &str,
    actor: &str,
) -> Result<BulkView, BulkError> {
    let runs = [BulkStatus::Running];
    let pause = |operation: &mut Operation, _| operation.pause(PausedFor::Person);
    change(store, tenant, id, (actor, "bulk_paused"), &runs, pause).await
}

/// Lets a paused one go on; its failures are counted anew. One that is not paused stays as it is.
///
/// # Errors
/// [`BulkError`].
pub async fn resume(
    store: &Store,
    tenant: &Tenant,
    id: &str,
    actor: &str,
) -> Result<BulkView, BulkError> {
    let paused = [BulkStatus::Paused];
    let resume = Operation::resume;
    change(store, tenant, id, (actor, "bulk_resumed"), &paused, resume).await
}

/// Changes one that is in one of these states.
async fn change(
    store: &Store,
    tenant: &Tenant,
    id: &str,
    (actor, event): (&str, &'static str),
    states: &[BulkStatus],
    change: impl Fn(&mut Operation, DbTime),
) -> Result<BulkView, BulkError> {
    let names = [id];
    let written = edit(store, KIND, tenant, &names, |found| {
        let now = found.now;
        let document = found.rows.into_iter().next().ok_or(BulkError::Gone)?;
        let mut operation = Operation::read(&document)?;
        if !states.contains(&operation.status) {
            return Ok(Edit::keep(operation.view(&document)));
        }
        change(&mut operation, now);
        let due_at = match operation.slice.is_empty() {
            true => operation.due(now),
            // When the claim ends.
            false => document.due_at.unwrap_or(now),
        };
        let pages = operation.take_pages(id)?;
        let write = operation.write(id, document.rev, due_at)?;
        let entry = entry(store, &operation, id, event, actor);
        let view = operation.view(&Document {
            seen_at: now,
            ..document
        });
        let edit = Edit::write(write, view).along(pages);
        Ok::<_, BulkError>(edit.audited(entry))
    });
    // Its executor writes it a few times a second.
    written.await?.ok_or(BulkError::Moved)
}
