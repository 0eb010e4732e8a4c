//! Sends webhooks that are due. Any number of processes may: each claims what it sends by moving its due
//! time. One that stops between the request and the note of its outcome leaves a webhook that is sent once
//! more, under the same id.

use super::delivery::{self, Delivery};
use super::{WebhookSecrets, WebhookSender, WebhookUrl, alerts};
use crate::cancel::CancelToken;
use crate::documents::postponed;
use crate::engine::Engine;
use crate::ports::{Document, DuePlace, Observation, Signal, StoreError};
use crate::record::DbTime;
use crate::time_limits::answer_within;
use crate::under_way::UnderWay;
use counterstep_contracts::webhook::DeliveryStatus;
use counterstep_contracts::{Rev, Tenant};
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

/// One that fails so long after its task came to rest is given up, however few its attempts were: those of a receiver that
/// fails would pile up.
const OLDEST: Duration = Duration::from_secs(3 * 86_400);

/// An alert does not wait longer for its count of tasks.
const COUNT_TAKES: Duration = Duration::from_secs(5);

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

/// Of these for one tenant, whose receivers may be many.
const AT_ONCE_OF_A_TENANT: usize = 32;

/// Due webhooks of one read, and reads of one look. The next look goes on behind the last one.
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
    let mut sending = Sending::default();
    while !shutdown.is_cancelled() {
        let pause = match begin_due(&engine, &webhooks, &mut sending).await {
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
                Some(ended) = sending.next() => match ended {
                    Ok(()) => is_woken |= sending.left_some,
                    Err(error) => {
                        tracing::warn!(%error, "a webhook is sent again: its outcome was not noted");
                        pause = clock.sleep(AGAIN).fuse();
                    }
                },
            }
        }
    }
    while sending.next().await.is_some() {}
}

/// The host that a webhook goes to, and whose it is.
type Receiver = (Tenant, String);

/// What is being sent.
#[derive(Default)]
struct Sending {
    under_way: UnderWay<Receiver>,
    receivers: HashMap<Receiver, usize>,
    /// A look left some that are due.
    left_some: bool,
    /// Where the last look ended before it had seen all that are due.
    after: Option<DuePlace>,
}

impl Sending {
    fn is_full(&self) -> bool {
        self.under_way.len() >= AT_ONCE
    }

    fn has_room(&self, receiver: &Receiver) -> bool {
        let of_host = self.receivers.get(receiver).copied().unwrap_or(0);
        let of_tenant = self.receivers.iter().filter(|(it, _)| it.0 == receiver.0);
        let of_tenant: usize = of_tenant.map(|(_, count)| *count).sum();
        of_host < AT_ONCE_TO_A_HOST && of_tenant < AT_ONCE_OF_A_TENANT
    }

    fn begin(
        &mut self,
        receiver: Receiver,
        sending: impl Future<Output = Result<(), StoreError>> + Send + 'static,
    ) {
        *self.receivers.entry(receiver.clone()).or_default() += 1;
        self.under_way.begin(receiver, sending);
    }

    async fn next(&mut self) -> Option<Result<(), StoreError>> {
        let (receiver, ended) = self.under_way.next().await?;
        if let Some(count) = self.receivers.get_mut(&receiver) {
            *count -= 1;
            if *count == 0 {
                self.receivers.remove(&receiver);
            }
        }
        Some(ended)
    }
}

/// Begins to send those that are due, as far as there is room, and deletes those whose time to be listed is over. Each look
/// goes on where the last one ended, so that each that is due has its turn.
async fn begin_due(
    engine: &Engine,
    webhooks: &Webhooks,
    sending: &mut Sending,
) -> Result<(), StoreError> {
    let store = &*engine.ports.store;
    sending.left_some = false;
    for _ in 0..PAGES {
        let read = delivery::due(store, sending.after.clone(), PAGE);
        let found = sending.under_way.until(read).await?;
        let is_last = found.rows.len() < PAGE as usize;
        let mut over = Vec::new();
        for document in found.rows {
            let delivery = Delivery::read(&document);
            let is_over = matches!(&delivery, Ok(it) if it.status != DeliveryStatus::Pending);
            if !is_over && sending.is_full() {
                sending.left_some = true;
                break;
            }
            sending.after = document.due_place();
            if is_over {
                over.push(document);
                continue;
            }
            let receiver = delivery::receiver(&document, delivery.as_ref().ok());
            if !sending.has_room(&receiver) {
                sending.left_some = true;
                continue;
            }
            let (engine, webhooks) = (engine.clone(), webhooks.clone());
            let delivering = async move {
                match delivery {
                    Ok(delivery) => {
                        deliver(&engine, &webhooks, (document, delivery), found.now).await
                    }
                    Err(error) => leave_to_others(&engine, &document, found.now, &error).await,
                }
            };
            sending.begin(receiver, delivering);
        }
        let deleted = delivery::delete_all(store, &over);
        if let Err(error) = sending.under_way.until(deleted).await {
            tracing::debug!(%error, "webhooks that are listed no more cannot be deleted");
        }
        if sending.is_full() {
            sending.left_some |= !is_last;
            return Ok(());
        }
        if is_last {
            sending.after = None;
            return Ok(());
        }
    }
    sending.left_some = true;
    Ok(())
}

/// One that cannot be read: a newer program may have written it.
async fn leave_to_others(
    engine: &Engine,
    document: &Document,
    read_at: DbTime,
    error: &StoreError,
) -> Result<(), StoreError> {
    tracing::error!(webhook = document.name, %error, "a webhook cannot be read");
    let later = postponed(delivery::KIND, document, read_at.later(UNREADABLE));
    engine.ports.store.put_document(&later).await.map(drop)
}

async fn deliver(
    engine: &Engine,
    webhooks: &Webhooks,
    (document, mut delivery): (Document, Delivery),
    read_at: DbTime,
) -> Result<(), StoreError> {
    let (store, clock) = (&*engine.ports.store, &*engine.ports.clock);
    let url = match (delivery.alert(), &webhooks.alerts) {
        (None, _) => delivery.url.clone(),
        (Some(_), Some(url)) => url.as_str().to_owned(),
        (Some(_), None) => {
            // Another process knows where it goes.
            let later = postponed(delivery::KIND, &document, read_at.later(CLAIM));
            return store.put_document(&later).await.map(drop);
        }
    };
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
    let began = clock.monotonic();
    if let Some(alert) = delivery.alert().filter(|alert| alert.data.count.is_none()) {
        // It says that something is wrong, and perhaps with the database: without a count where there is none in time.
        let counted = answer_within(clock, COUNT_TAKES, alerts::count(store, alert)).await;
        delivery.set_count(counted.and_then(Result::ok).flatten());
    }
    let body = delivery.body(at)?;
    // Receivers compare it with their own time, of which the database's may be far off.
    let sent_at = i64::try_from(clock.unix_millis() / 1000).unwrap_or(i64::MAX);
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
    let answered = webhooks.sender.post(&url, &headers, body).await;
    let took = clock.monotonic().saturating_sub(began);
    let is_delivered = matches!(answered, Ok(200..=299));
    // The receiver wants no more of it.
    let is_gone = matches!(answered, Ok(410));
    delivery.last = Some(match answered {
        Ok(status) => status.to_string(),
        Err(why) => why,
    });
    let is_old = at.later(OLDEST) <= now;
    let pause = PAUSES.get(delivery.attempts as usize - 1);
    let due = match pause {
        _ if is_delivered => {
            delivery.status = DeliveryStatus::Delivered;
            LISTED
        }
        Some(pause) if !is_gone && !is_old => *pause,
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
