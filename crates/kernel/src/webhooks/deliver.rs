//! Sends webhooks that are due. Any number of processes may: each claims what it sends by moving its due
//! time. One that stops between the request and the note of its outcome leaves a webhook that is sent once
//! more, under the same id.

use super::delivery::{self, Delivery};
use super::{WebhookSecrets, WebhookSender, WebhookUrl, alerts};
use crate::cancel::CancelToken;
use crate::documents::postponed;
use crate::engine::Engine;
use crate::ports::{Document, Observation, Signal, StoreError};
use crate::record::DbTime;
use counterstep_contracts::webhook::DeliveryStatus;
use counterstep_contracts::{Rev, Tenant};
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use std::collections::HashMap;
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

/// One that this program cannot read is left to others for so long: a newer one may have written it.
const UNREADABLE: Duration = Duration::from_secs(3600);

/// Webhooks that one process sends side by side.
const AT_ONCE: usize = 64;

/// Of these to one host of one tenant: a receiver that does not answer holds up its own alone.
const AT_ONCE_TO_A_HOST: usize = 4;

/// Due webhooks of one read, and reads of one look.
const PAGE: u32 = 200;
const PAGES: u32 = 25;

/// How often a process looks for those that are due, where no signal tells of one.
const EVERY: Duration = Duration::from_secs(1);

/// Between two looks at least, however many tasks come to rest.
const LEAST: Duration = Duration::from_millis(100);

/// After this of one that could not read or write them.
const AGAIN: Duration = Duration::from_secs(5);

/// What a process needs that sends webhooks.
#[derive(Debug, Clone)]
pub struct Webhooks {
    /// Sends a request.
    pub sender: Arc<dyn WebhookSender>,
    /// Signs it.
    pub secrets: WebhookSecrets,
    /// Where alerts of the installation go.
    pub alerts: Option<WebhookUrl>,
}

/// Sends those that are due until `shutdown`, and ends when those under way have.
pub async fn serve(engine: Engine, webhooks: Webhooks, shutdown: CancelToken) {
    let mut signals = engine.ports.signals.subscribe();
    let mut under_way = UnderWay::default();
    while !shutdown.is_cancelled() {
        let pause = match begin_due(&engine, &webhooks, &mut under_way).await {
            Ok(()) => EVERY,
            Err(error) => {
                tracing::debug!(%error, "webhooks that are due cannot be read");
                AGAIN
            }
        };
        let clock = &engine.ports.clock;
        let (mut least, mut pause) = (clock.sleep(LEAST).fuse(), clock.sleep(pause).fuse());
        let mut is_woken = false;
        let mut has_waited = false;
        while !(is_woken && has_waited) {
            tokio::select! {
                () = &mut pause => break,
                () = &mut least => has_waited = true,
                _ = shutdown.cancelled() => break,
                signal = signals.next(), if !is_woken => match signal {
                    Some(Signal::Rests(_)) => is_woken = true,
                    Some(_) => {}
                    // It tells of nothing any more: the pause is left.
                    None => { (&mut pause).await; break }
                },
                Some(ended) = under_way.next() => match ended {
                    Ok(()) => is_woken |= under_way.left_some,
                    Err(error) => {
                        tracing::warn!(%error, "a webhook is sent again: its outcome was not noted");
                        pause = clock.sleep(AGAIN).fuse();
                    }
                },
            }
        }
    }
    while under_way.next().await.is_some() {}
}

/// The host that a webhook goes to, and whose it is.
type Receiver = (Tenant, String);

/// What is being sent.
#[derive(Default)]
struct UnderWay {
    sending: FuturesUnordered<BoxFuture<'static, (Receiver, Result<(), StoreError>)>>,
    receivers: HashMap<Receiver, usize>,
    /// A look left some that are due.
    left_some: bool,
}

impl UnderWay {
    fn has_room(&self, receiver: &Receiver) -> bool {
        self.receivers.get(receiver).copied().unwrap_or(0) < AT_ONCE_TO_A_HOST
    }

    fn begin(
        &mut self,
        receiver: Receiver,
        sending: impl Future<Output = Result<(), StoreError>> + Send + 'static,
    ) {
        *self.receivers.entry(receiver.clone()).or_default() += 1;
        self.sending
            .push(Box::pin(async move { (receiver, sending.await) }));
    }

    async fn next(&mut self) -> Option<Result<(), StoreError>> {
        let (receiver, ended) = self.sending.next().await?;
        if let Some(count) = self.receivers.get_mut(&receiver) {
            *count -= 1;
            if *count == 0 {
                self.receivers.remove(&receiver);
            }
        }
        Some(ended)
    }
}

/// Begins to send those that are due, as far as there is room.
async fn begin_due(
    engine: &Engine,
    webhooks: &Webhooks,
    under_way: &mut UnderWay,
) -> Result<(), StoreError> {
    let mut after = None;
    under_way.left_some = false;
    for _ in 0..PAGES {
        let found = delivery::due(&*engine.ports.store, after, PAGE).await?;
        let is_last = found.rows.len() < PAGE as usize;
        after = found.rows.last().and_then(Document::due_place);
        for document in found.rows {
            let receiver = delivery::receiver(&document);
            let has_room = under_way.sending.len() < AT_ONCE && under_way.has_room(&receiver);
            under_way.left_some |= !has_room;
            if has_room {
                let (engine, webhooks) = (engine.clone(), webhooks.clone());
                let sending = async move { deliver(&engine, &webhooks, document, found.now).await };
                under_way.begin(receiver, sending);
            }
        }
        if is_last || under_way.sending.len() >= AT_ONCE {
            break;
        }
    }
    Ok(())
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
            tracing::error!(webhook = document.name, %error, "a webhook cannot be read");
            let later = postponed(delivery::KIND, &document, read_at.later(UNREADABLE));
            return store.put_document(&later).await.map(drop);
        }
    };
    if delivery.status != DeliveryStatus::Pending {
        return delivery::delete(store, &document).await;
    }
    let url = match (delivery.alert(), &webhooks.alerts) {
        (None, _) => delivery.url.clone(),
        (Some(_), Some(url)) => url.as_str().to_owned(),
        (Some(_), None) => {
            // Another process knows where it goes.
            let later = postponed(delivery::KIND, &document, read_at.later(CLAIM));
            return store.put_document(&later).await.map(drop);
        }
    };
    if let Some(alert) = delivery.alert().filter(|_| delivery.attempts == 0) {
        let count = alerts::count(store, alert).await?;
        delivery.set_count(count);
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
    let body = delivery.body(at)?;
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
    let began = engine.ports.clock.monotonic();
    let answered = webhooks.sender.post(&url, &headers, body).await;
    let took = engine.ports.clock.monotonic().saturating_sub(began);
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
    let outcome = delivery.rewrite(&document, now.later(took + due))?;
    engine.observe(Observation::Webhook {
        status: delivery.status,
    });
    store.put_document(&outcome).await.map(drop)
}
