//! Alerts: webhooks of the installation, one for each event, cause and hour. Those of tasks are written by the
//! commit that parks one; the name of the document keeps the others of its hour from being alerts too. Must not
//! send.

use super::webhook_document::{self, Delivery};
use crate::change::transition::Transition;
use crate::dead_letters::GroupKey;
use crate::digest::hex;
use crate::documents::write_document;
use crate::engine::Engine;
use crate::engine::time_limits::best_effort;
use crate::ports::{
    Document, DocumentChange, DocumentQuery, DocumentWrite, Store, StoreError, TaskQuery,
};
use crate::record::{DbTime, Failure};
use crate::times::rfc3339;
use counterstep_contracts::alert::{AlertData, AlertEvent, AlertView};
use counterstep_contracts::webhook::DeliveryStatus;
use counterstep_contracts::{Rev, TaskStatus, Tenant};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::time::Duration;

/// The owner of the installation's webhooks: no tenant has such a name.
const INSTALLATION: &str = ":installation";

/// How long after the first task an alert is sent: by then its count is meaningful.
const GATHERED: Duration = Duration::from_secs(10);

/// The time, in microseconds, for which there is one alert of a cause.
const HOUR: i64 = 3_600_000_000;

/// Maximum number of alerts that are listed, the last changed ones.
const LISTED: usize = 1_000;

/// Maximum number of parked tasks of a type that are read for a count.
const COUNTED: u32 = 10_000;

/// Maximum number of rows that are read at a time.
const PAGE: u32 = 1_000;

/// What an alert's document has beside what every webhook has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Alert {
    pub(super) alert: AlertEvent,
    #[serde(flatten)]
    pub(super) data: AlertData,
    /// The cause that is counted when it is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    counts: Option<String>,
}

/// The tenant under which they are kept, and whose secrets sign them.
#[must_use]
pub fn installation() -> Tenant {
    Tenant(INSTALLATION.to_owned())
}

/// Whether a webhook of this tenant is an alert.
pub(super) fn is_installation(tenant: &Tenant) -> bool {
    tenant.0 == INSTALLATION
}

/// Adds the alert of a change that parks its task, which is decided at `now`.
pub(crate) fn add_alert(engine: &Engine, transition: &mut Transition, now: DbTime) {
    if !engine.settings.alerts {
        return;
    }
    let Some(write) = &transition.task else {
        return;
    };
    let (row, mut entries) = (&write.row, transition.audit.iter());
    let is_parked =
        entries.any(|it| it.to == row.status && it.from != Some(it.to)) && row.status.is_parked();
    if !is_parked {
        return;
    }
    let mut entries = transition.audit.iter();
    let event = match row.status {
        _ if entries.any(|it| it.event == "quarantined") => AlertEvent::Quarantined,
        TaskStatus::CompensationFailed => AlertEvent::CompensationFailed,
        _ => AlertEvent::DeadLettered,
    };
    let is_encrypted = engine.ports.store.payload_codec().is_some();
    let key = key_of(&row.task_type, row.failure.as_ref(), !is_encrypted);
    let id = key.id();
    let alert = Alert {
        alert: event,
        data: AlertData {
            tenant: Some(row.tenant.clone()),
            task_type: Some(row.task_type.clone()),
            step: key.cause.step.clone(),
            class: key.cause.class.clone(),
            cause: Some(key.cause),
            text: Some(key.text).filter(|_| !is_encrypted),
            group: Some(id.clone()).filter(|_| !is_encrypted),
            count: None,
            example: Some(row.id),
            about: None,
            detail: None,
        },
        counts: Some(id.clone()),
    };
    let name = name_of(event, &format!("{} {id}", row.tenant), now);
    match document(alert, name, now.later(GATHERED)) {
        Ok(document) => transition.alert = Some(Box::new(document)),
        // Its fields are texts and numbers: there is none that has no form as JSON.
        Err(error) => tracing::error!(task = %row.id, %error, "an alert cannot be written"),
    }
}

/// What tasks have in common that one alert is about.
fn key_of(task_type: &str, failure: Option<&Failure>, with_text: bool) -> GroupKey {
    let key = GroupKey::of(task_type, failure);
    if with_text { key } else { key.without_text() }
}

/// The same for the same event of the same hour.
fn name_of(event: AlertEvent, what: &str, now: DbTime) -> String {
    let what = hex(&Sha256::digest(what.as_bytes())[..8]);
    format!("{event}_{what}_{}", now.0.div_euclid(HOUR))
}

/// Written where there is none of this name.
fn document(alert: Alert, name: String, due_at: DbTime) -> Result<DocumentWrite, StoreError> {
    Ok(DocumentWrite {
        kind: webhook_document::KIND,
        tenant: installation(),
        name,
        expected: Some(Rev(0)),
        change: DocumentChange::Put {
            body: write_document(webhook_document::KIND, &Delivery::of_alert(alert))?,
            due_at: Some(due_at),
        },
    })
}

/// The alert of a task type that was disabled, for the transaction that disables it.
pub(crate) fn of_type(
    engine: &Engine,
    task_type: &str,
    reason: &str,
    now: DbTime,
) -> Option<DocumentWrite> {
    let alert = Alert {
        alert: AlertEvent::TypeDisabled,
        data: AlertData {
            task_type: Some(task_type.to_owned()),
            detail: Some(reason.to_owned()),
            ..AlertData::default()
        },
        counts: None,
    };
    let name = format!("{}_{task_type}_{}", AlertEvent::TypeDisabled, now.0);
    let written = document(alert, name, now).ok();
    // Written again where the answer to the first time was lost.
    let any = |write| DocumentWrite {
        expected: None,
        ..write
    };
    written.filter(|_| engine.settings.alerts).map(any)
}

/// An event that no commit brings.
#[derive(Debug, Clone, Copy)]
pub struct Incident<'a> {
    /// Kind of the incident.
    pub event: AlertEvent,
    /// The breaker, or the process.
    pub about: &'a str,
    /// More, for people; no payload.
    pub detail: &'a str,
}

/// Raises an alert, once an hour for the same event of the same thing. Best effort: the caller goes on where the
/// database does not answer, and the next such event raises it.
pub async fn raise(engine: &Engine, incident: Incident<'_>) {
    if !engine.settings.alerts {
        return;
    }
    let Incident {
        event,
        about,
        detail,
    } = incident;
    let clock = &engine.ports.clock;
    let millis = i64::try_from(clock.unix_millis()).unwrap_or(i64::MAX);
    let now = DbTime(millis.saturating_mul(1_000));
    let name = name_of(event, about, now);
    if !engine.raised.is_new(&name, clock.monotonic()) {
        return;
    }
    let alert = Alert {
        alert: event,
        data: AlertData {
            about: Some(about.to_owned()),
            detail: Some(detail.to_owned()).filter(|detail| !detail.is_empty()),
            ..AlertData::default()
        },
        counts: None,
    };
    // At once, by any clock.
    let Ok(write) = document(alert, name.clone(), DbTime(0)) else {
        return;
    };
    let writing = engine.ports.store.put_document(&write);
    if !matches!(best_effort(clock.as_ref(), writing).await, Some(Ok(_))) {
        engine.raised.forget(&name);
        tracing::warn!(%event, about, "an alert could not be written; the next event of its kind raises it");
    }
}

/// Raises one that says that a person looks whether alerts arrive.
///
/// # Errors
/// [`StoreError`].
pub async fn test(engine: &Engine, actor: &str) -> Result<AlertView, StoreError> {
    let store = &engine.ports.store;
    let alert = Alert {
        alert: AlertEvent::Test,
        data: AlertData {
            detail: Some(format!("sent by {actor}")),
            ..AlertData::default()
        },
        counts: None,
    };
    let name = format!("{}_{}", AlertEvent::Test, engine.new_task_id());
    let write = document(alert.clone(), name.clone(), DbTime(0))?;
    let written = store.put_document(&write).await?;
    let seen_at = written.ok_or_else(|| StoreError::Unavailable("its name is taken".to_owned()))?;
    let document = Document {
        tenant: installation(),
        name,
        rev: Rev(1),
        body: write_document(webhook_document::KIND, &Delivery::of_alert(alert))?,
        due_at: Some(seen_at),
        seen_at,
    };
    view(&document)
}

/// The alerts of the last week, the last changed first. One that cannot be read is left out and logged.
///
/// # Errors
/// [`StoreError`].
pub async fn list(store: &Store) -> Result<Vec<AlertView>, StoreError> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let query = DocumentQuery::Page {
            kind: webhook_document::KIND,
            tenant: installation(),
            after,
            limit: PAGE,
        };
        let page = store.documents(&query).await?.rows;
        let is_last = page.len() < PAGE as usize;
        after = page.last().map(|document| document.name.clone());
        found.extend(page);
        // Pages are by name: one cause of many tenants must not hide all others.
        found.sort_by_key(|document| std::cmp::Reverse(document.seen_at));
        found.truncate(LISTED);
        if is_last {
            break;
        }
    }
    let views = found.iter().filter_map(|document| {
        let log = |error: &StoreError| tracing::error!(alert = document.name, %error, "an alert cannot be read");
        view(document).inspect_err(log).ok()
    });
    Ok(views.collect())
}

fn view(document: &Document) -> Result<AlertView, StoreError> {
    let delivery = Delivery::read(document)?;
    let Some(Alert { alert, data, .. }) = delivery.alert() else {
        return Err(StoreError::Corrupt("it is no alert".to_owned()));
    };
    let is_pending = delivery.status == DeliveryStatus::Pending;
    let due_at = document.due_at.filter(|_| is_pending);
    Ok(AlertView {
        id: document.name.clone(),
        event: *alert,
        data: data.clone(),
        status: delivery.status,
        attempts: delivery.attempts,
        due_at: due_at.map(rfc3339),
        last: delivery.last.clone(),
        updated_at: rfc3339(document.seen_at),
    })
}

/// How many tasks of the cause of an alert are parked, of those that were submitted last.
pub(super) async fn count(store: &Store, alert: &Alert) -> Result<Option<u64>, StoreError> {
    let AlertData {
        tenant,
        task_type: Some(task_type),
        text,
        ..
    } = &alert.data
    else {
        return Ok(None);
    };
    let Some(group) = &alert.counts else {
        return Ok(None);
    };
    let (mut count, mut before, mut looked_at) = (0, None, 0);
    while looked_at < COUNTED {
        let query = TaskQuery {
            tenant: tenant.clone(),
            task_type: Some(task_type.clone()),
            statuses: vec![TaskStatus::DeadLettered, TaskStatus::CompensationFailed],
            before,
            limit: PAGE,
            ..TaskQuery::default()
        };
        let lines = store.list(&query).await?.lines;
        let is_of = |failure| key_of(task_type, failure, text.is_some()).id() == *group;
        let of_it = lines.iter().filter(|line| is_of(line.failure.as_ref()));
        count += of_it.count() as u64;
        looked_at += PAGE;
        before = lines.last().map(|line| line.task);
        if lines.len() < PAGE as usize {
            break;
        }
    }
    Ok(Some(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_has_one_name_for_each_event_and_cause() {
        let at = |micros: i64| name_of(AlertEvent::BreakerOpen, "bank", DbTime(micros));
        assert_eq!(at(0), at(HOUR - 1));
        assert_ne!(at(0), at(HOUR));
        assert_ne!(at(0), name_of(AlertEvent::Test, "bank", DbTime(0)));
        assert_ne!(at(0), name_of(AlertEvent::BreakerOpen, "mail", DbTime(0)));
    }
}
