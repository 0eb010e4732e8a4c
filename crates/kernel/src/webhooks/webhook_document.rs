//! Webhooks as documents: what is to be sent, how often it was, and when it is due. Must not send.

use super::alerts::{Alert, installation};
use super::slots::Receiver;
use crate::documents::{self, Edit, busy, read_document, write_document};
use crate::ports::{
    Document, DocumentChange, DocumentKind, DocumentQuery, DocumentWrite, Documents, DuePlace,
    Store, StoreError,
};
use crate::record::{DbTime, TaskRow};
use crate::times::rfc3339;
use counterstep_contracts::alert::AlertBody;
use counterstep_contracts::webhook::{DeliveryStatus, DeliveryView, WebhookBody, WebhookData};
use counterstep_contracts::{TaskId, Tenant};
use serde::{Deserialize, Serialize};
use std::time::Duration;

pub(super) const KIND: DocumentKind = DocumentKind::Webhook;

/// Maximum number of webhooks of a task that are read: one for each time that it came to rest.
const MOST_OF_A_TASK: u32 = 200;

/// How long after its task came to rest a webhook that fails is given up, however few its attempts were:
/// those of a receiver that fails would pile up.
const OLDEST: Duration = Duration::from_secs(3 * 86_400);

/// How long this process must have seen a host hang before a webhook is given up without an attempt: after an
/// outage of the installation all webhooks are old.
const HUNG_FOR_LONG: Duration = Duration::from_secs(6 * 3600);

/// How long a webhook is listed after it was delivered or given up.
pub(super) const LISTED: Duration = Duration::from_secs(7 * 86_400);

/// What is told of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Told {
    Alert(Box<Alert>),
    Task(WebhookData),
}

/// The body of the document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Delivery {
    /// Empty for an alert: that goes where the settings of its sender say.
    pub(super) url: String,
    data: Told,
    pub(super) status: DeliveryStatus,
    pub(super) attempts: u32,
    /// When the task came to rest; `None` before the first attempt, which reads it.
    pub(super) at: Option<DbTime>,
    /// What came of the last attempt.
    pub(super) last: Option<String>,
}

impl Delivery {
    /// The webhook of a task that comes to rest in this change.
    pub(super) fn of(row: &TaskRow, url: &str) -> Self {
        Self {
            url: url.to_owned(),
            data: Told::Task(WebhookData {
                task_id: row.id,
                task_type: row.task_type.clone(),
                version: row.version,
                status: row.status,
                labels: row.labels.clone(),
            }),
            status: DeliveryStatus::Pending,
            attempts: 0,
            at: None,
            last: None,
        }
    }

    /// The webhook of an alert.
    pub(super) fn of_alert(alert: Alert) -> Self {
        Self {
            url: String::new(),
            data: Told::Alert(Box::new(alert)),
            status: DeliveryStatus::Pending,
            attempts: 0,
            at: None,
            last: None,
        }
    }

    /// The alert, where it is one.
    pub(super) fn alert(&self) -> Option<&Alert> {
        match &self.data {
            Told::Alert(alert) => Some(alert),
            Told::Task(_) => None,
        }
    }

    /// Notes how many tasks an alert is about.
    pub(super) fn set_count(&mut self, count: Option<u64>) {
        if let Told::Alert(alert) = &mut self.data {
            alert.data.count = count;
        }
    }

    /// Its first document: due at once.
    pub(super) fn new_document(&self, row: &TaskRow) -> Result<DocumentWrite, StoreError> {
        Ok(DocumentWrite {
            kind: KIND,
            tenant: row.tenant.clone(),
            name: format!("{}_{}", row.id, row.rev),
            // A change whose outcome was unknown writes the same again.
            expected: None,
            change: DocumentChange::Put {
                body: write_document(KIND, self)?,
                due_at: Some(row.updated_at),
            },
        })
    }

    pub(super) fn read(document: &Document) -> Result<Self, StoreError> {
        read_document(KIND, &document.body)
    }

    /// What becomes of its document, which is as it was read.
    pub(super) fn rewrite(
        &self,
        document: &Document,
        due_at: DbTime,
    ) -> Result<DocumentWrite, StoreError> {
        Ok(DocumentWrite {
            kind: KIND,
            tenant: document.tenant.clone(),
            name: document.name.clone(),
            expected: Some(document.rev),
            change: DocumentChange::Put {
                body: write_document(KIND, self)?,
                due_at: Some(due_at),
            },
        })
    }

    /// When its task came to rest. Before the first attempt that is the last write of its document, in the commit of which it
    /// tells.
    pub(super) fn rested_at(&mut self, document: &Document) -> DbTime {
        *self.at.get_or_insert(document.seen_at)
    }

    /// Whether it is given up if it fails.
    pub(super) fn is_old(&self, now: DbTime) -> bool {
        self.at.is_some_and(|at| at.later(OLDEST) <= now)
    }

    /// What becomes of a webhook whose host gets no request for `wait`: it is due again then, and has used up
    /// no attempt. One that is old is given up where the host has hung for hours, unless an operator has sent
    /// it again.
    pub(super) fn set_aside(
        &mut self,
        document: &Document,
        now: DbTime,
        wait: Duration,
        hung: Duration,
    ) -> Result<DocumentWrite, StoreError> {
        self.rested_at(document);
        let is_sent_again = self.attempts == 0 && self.last.is_some();
        if is_sent_again || hung < HUNG_FOR_LONG || !self.is_old(now) {
            return self.rewrite(document, now.later(wait));
        }
        self.status = DeliveryStatus::Failed;
        self.last = Some("not tried: the host has not answered for hours".to_owned());
        self.rewrite(document, now.later(LISTED))
    }

    fn event(&self) -> String {
        match &self.data {
            Told::Task(data) => format!("task.{}", data.status),
            Told::Alert(alert) => format!("alert.{}", alert.alert),
        }
    }

    /// What is sent, as JSON.
    pub(super) fn body(&self, at: DbTime) -> Result<Vec<u8>, StoreError> {
        let (event, timestamp) = (self.event(), rfc3339(at));
        let body = match &self.data {
            Told::Task(data) => serde_json::to_vec(&WebhookBody {
                event,
                timestamp,
                data: data.clone(),
            }),
            Told::Alert(alert) => serde_json::to_vec(&AlertBody {
                event,
                timestamp,
                data: alert.data.clone(),
            }),
        };
        body.map_err(|error| StoreError::Corrupt(error.to_string()))
    }
}

/// Those that are due, the longest first, behind this one.
pub(super) async fn due(
    store: &Store,
    after: Option<DuePlace>,
    limit: u32,
) -> Result<Documents, StoreError> {
    let query = DocumentQuery::Due {
        kind: KIND,
        after,
        limit,
    };
    store.documents(&query).await
}

/// Alerts that are due, the longest first.
pub(super) async fn due_alerts(store: &Store, limit: u32) -> Result<Documents, StoreError> {
    let query = DocumentQuery::DueOf {
        kind: KIND,
        tenant: installation(),
        limit,
    };
    store.documents(&query).await
}

/// The tenant of a webhook, and the host that it goes to.
pub(super) fn receiver(document: &Document, delivery: Option<&Delivery>) -> Receiver {
    let host = delivery.and_then(|delivery| {
        let url = url::Url::parse(&delivery.url).ok()?;
        Some(url.host_str()?.to_owned())
    });
    (document.tenant.clone(), host.unwrap_or_default())
}

/// Deletes one whose time to be listed is over.
pub(super) fn delete(document: &Document) -> DocumentWrite {
    let Document {
        tenant, name, rev, ..
    } = document;
    documents::delete(KIND, tenant.clone(), name.clone(), *rev)
}

/// The webhooks of a task, the first one first.
///
/// # Errors
/// [`StoreError`].
pub async fn list(
    store: &Store,
    tenant: &Tenant,
    task: TaskId,
) -> Result<Vec<DeliveryView>, StoreError> {
    let prefix = format!("{task}_");
    let query = DocumentQuery::Page {
        kind: KIND,
        tenant: tenant.clone(),
        after: Some(prefix.clone()),
        limit: MOST_OF_A_TASK,
    };
    let mut found = store.documents(&query).await?.rows;
    found.retain(|document| document.name.starts_with(&prefix));
    // By the revision, which is a number and not a text.
    found.sort_by_key(|document| {
        document.name[prefix.len()..]
            .parse::<i64>()
            .unwrap_or(i64::MAX)
    });
    found.iter().map(view).collect()
}

/// A webhook was not sent again.
#[derive(Debug, thiserror::Error)]
pub enum NoSuchWebhook {
    /// The task has none of this id.
    #[error("the task has no webhook of this id")]
    Gone,
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Makes a webhook due at once, with all its attempts anew, however it stands; three days after its task came to rest it gets
/// one.
///
/// # Errors
/// [`NoSuchWebhook`].
pub async fn send_again(
    store: &Store,
    tenant: &Tenant,
    task: TaskId,
    id: &str,
) -> Result<DeliveryView, NoSuchWebhook> {
    let rev = id.strip_prefix(&format!("{task}_"));
    if rev.is_none_or(|rev| rev.parse::<u64>().is_err()) {
        return Err(NoSuchWebhook::Gone);
    }
    // One that is being sent meanwhile is read again.
    let names = [id];
    let sent = documents::edit(store, KIND, tenant, &names, |found| {
        let document = found.rows.into_iter().next().ok_or(NoSuchWebhook::Gone)?;
        let mut delivery = Delivery {
            status: DeliveryStatus::Pending,
            attempts: 0,
            ..Delivery::read(&document)?
        };
        // Before the first attempt the document was last written by the commit that the webhook reports.
        delivery.at.get_or_insert(document.seen_at);
        let write = delivery.rewrite(&document, found.now)?;
        let view = view(&Document {
            rev: document.rev.next(),
            body: write_document(KIND, &delivery)?,
            due_at: Some(found.now),
            seen_at: found.now,
            ..document
        })?;
        Ok::<_, NoSuchWebhook>(Edit::write(write, view))
    });
    Ok(sent.await?.ok_or_else(|| busy(KIND))?)
}

fn view(document: &Document) -> Result<DeliveryView, StoreError> {
    let delivery = Delivery::read(document)?;
    let is_pending = delivery.status == DeliveryStatus::Pending;
    Ok(DeliveryView {
        id: document.name.clone(),
        event: delivery.event(),
        url: delivery.url,
        status: delivery.status,
        attempts: delivery.attempts,
        due_at: document.due_at.filter(|_| is_pending).map(rfc3339),
        last: delivery.last,
        updated_at: rfc3339(document.seen_at),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use counterstep_contracts::Rev;
    use serde_json::json;

    #[test]
    fn one_that_is_old_is_given_up_untried_where_its_host_has_hung_for_hours() {
        let data = json!({
            "task_id": "01890a5d-ac96-774b-bcce-b302099a8057", "task_type": "Errand", "version": 1, "status": "completed",
        });
        let document = Document {
            tenant: Tenant::default(),
            name: "one".to_owned(),
            rev: Rev(1),
            body: String::new(),
            due_at: None,
            seen_at: DbTime(0),
        };
        let (day, hours) = (Duration::from_secs(86_400), Duration::from_secs(6 * 3600));
        let status = |age: Duration, hung: Duration, last: Option<&str>| {
            let body = json!({
                "url": "https://one/", "data": data, "status": "pending", "attempts": 0, "at": null, "last": last,
            });
            let mut delivery: Delivery = serde_json::from_value(body).expect("a webhook");
            let (now, wait) = (DbTime(0).later(age), Duration::from_secs(30));
            delivery
                .set_aside(&document, now, wait, hung)
                .expect("a change");
            delivery.status
        };
        assert_eq!(status(4 * day, hours, None), DeliveryStatus::Failed);
        // After an outage all are old, a person may have sent it again, and it is not old.
        assert_eq!(status(4 * day, hours / 2, None), DeliveryStatus::Pending);
        assert_eq!(status(4 * day, hours, Some("503")), DeliveryStatus::Pending);
        assert_eq!(status(day, hours, None), DeliveryStatus::Pending);
    }
}
