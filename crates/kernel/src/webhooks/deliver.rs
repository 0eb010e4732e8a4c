//! Sends webhooks that are due. Any number of processes may: each claims what it sends by moving its due
//! time. One that stops between the request and the note of its outcome leaves a webhook that is sent once
//! more, under the same id.

use super::delivery::{self, Delivery};
use super::{WebhookSecrets, WebhookSender};
use crate::cancel::CancelToken;
use crate::engine::Engine;
use crate::ports::{Document, Observation, Signal, StoreError};
use crate::record::DbTime;
use counterstep_contracts::Rev;
use counterstep_contracts::webhook::DeliveryStatus;
use futures::future::join_all;
use futures::{FutureExt, StreamExt};
use std::sync::Arc;
use std::time::Duration;

/// Between two attempts, and after the last one it is given up: half a day and a little in all.
const PAUSES: [Duration; 9] = [
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_secs(2 * 60),
    Duration::from_secs(10 * 60),
    Duration::from_secs(30 * 60),
    Duration::from_secs(3600),
    Duration::from_secs(2 * 3600),
    Duration::from_secs(4 * 3600),
    Duration::from_secs(4 * 3600),
];

/// No other process sends what one has claimed for so long; a request ends long before.
const CLAIM: Duration = Duration::from_secs(60);

/// One that was delivered or given up is listed for so long.
const LISTED: Duration = Duration::from_secs(7 * 86_400);

/// Webhooks that one process sends side by side.
const AT_ONCE: u32 = 16;

/// How often a process looks for those that are due, where no signal tells of one.
const EVERY: Duration = Duration::from_secs(1);

/// After this of one that could not read them.
const AGAIN: Duration = Duration::from_secs(5);

/// What a process needs that sends webhooks.
#[derive(Debug, Clone)]
pub struct Webhooks {
    /// Sends a request.
    pub sender: Arc<dyn WebhookSender>,
    /// Signs it.
    pub secrets: WebhookSecrets,
}

/// Sends those that are due until `shutdown`.
pub async fn serve(engine: Engine, webhooks: Webhooks, shutdown: CancelToken) {
    let mut signals = engine.ports.signals.subscribe();
    while !shutdown.is_cancelled() {
        let pause = match deliver_due(&engine, &webhooks).await {
            // There may be more.
            Ok(sent) if sent >= AT_ONCE as usize => continue,
            Ok(_) => EVERY,
            Err(error) => {
                tracing::debug!(%error, "webhooks that are due cannot be read");
                AGAIN
            }
        };
        let mut pause = engine.ports.clock.sleep(pause).fuse();
        loop {
            tokio::select! {
                () = &mut pause => break,
                _ = shutdown.cancelled() => break,
                signal = signals.next() => match signal {
                    Some(Signal::Rests(_)) => break,
                    Some(_) => {}
                    // It tells of nothing any more: the pause is left.
                    None => { (&mut pause).await; break }
                },
            }
        }
    }
}

/// Sends those that are due, side by side. Returns how many were found.
async fn deliver_due(engine: &Engine, webhooks: &Webhooks) -> Result<usize, StoreError> {
    let (read_at, due) = delivery::due(&*engine.ports.store, AT_ONCE).await?;
    let count = due.len();
    join_all(due.into_iter().map(async |document| {
        let id = document.name.clone();
        if let Err(error) = deliver(engine, webhooks, document, read_at).await {
            tracing::warn!(webhook = id, %error, "a webhook is sent again: its outcome was not noted");
        }
    }))
    .await;
    Ok(count)
}

async fn deliver(
    engine: &Engine,
    webhooks: &Webhooks,
    document: Document,
    read_at: DbTime,
) -> Result<(), StoreError> {
    let store = &*engine.ports.store;
    let mut delivery = match Delivery::read(&document) {
        Ok(delivery) => delivery,
        Err(error) => {
            tracing::error!(webhook = document.name, %error, "a webhook cannot be read, and is deleted");
            return delivery::delete(store, &document).await;
        }
    };
    if delivery.status != DeliveryStatus::Pending {
        return delivery::delete(store, &document).await;
    }
    // The document was written last in the commit that brought the task to rest.
    let at = *delivery.at.get_or_insert(document.seen_at);
    delivery.attempts = delivery.attempts.saturating_add(1);
    let claim = delivery.rewrite(&document, read_at.later(CLAIM))?;
    let Some(now) = store.put_document(&claim).await? else {
        return Ok(()); // Another process sends it.
    };
    let document = Document {
        rev: Rev(document.rev.0 + 1),
        ..document
    };
    let body = serde_json::to_vec(&delivery.body(at));
    let body = body.map_err(|error| StoreError::Corrupt(error.to_string()))?;
    let sent_at = now.0.div_euclid(1_000_000);
    let headers = [
        ("webhook-id", document.name.clone()),
        ("webhook-timestamp", sent_at.to_string()),
        (
            "webhook-signature",
            webhooks
                .secrets
                .sign(&document.tenant, &document.name, sent_at, &body),
        ),
    ];
    let answered = webhooks.sender.post(&delivery.url, &headers, body).await;
    let is_delivered = matches!(answered, Ok(200..=299));
    // The receiver wants no more of it.
    let is_gone = matches!(answered, Ok(410));
    delivery.last = Some(match answered {
        Ok(status) => status.to_string(),
        Err(why) => why,
    });
    let pause = PAUSES.get(delivery.attempts as usize - 1);
    let due = match pause {
        _ if is_delivered => {
            delivery.status = DeliveryStatus::Delivered;
            LISTED
        }
        Some(pause) if !is_gone => *pause,
        _ => {
            delivery.status = DeliveryStatus::Failed;
            tracing::error!(
                webhook = document.name,
                attempts = delivery.attempts,
                last = delivery.last,
                "a webhook is given up"
            );
            LISTED
        }
    };
    let outcome = delivery.rewrite(&document, now.later(due))?;
    engine.observe(Observation::Webhook {
        status: delivery.status,
    });
    store.put_document(&outcome).await.map(drop)
}
