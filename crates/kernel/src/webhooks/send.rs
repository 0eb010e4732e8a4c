//! Sends webhooks that are due. Any number of processes may: each claims what it sends by moving its due
//! time. One that stops between the request and the note of its outcome leaves a webhook that is sent once
//! more, under the same id.

use super::slots::{HostAnswer, Lines, Receiver, Room, Slots};
use super::webhook_document::{self, Delivery, LISTED};
use super::{NoAnswer, WebhookSecrets, WebhookSender, WebhookUrl, alerts};
use crate::cancel::CancelToken;
use crate::documents::postponed;
use crate::engine::Engine;
use crate::engine::time_limits::answer_within;
use crate::host::under_way::UnderWay;
use crate::ports::{Document, Documents, DocumentsPut, DuePlace, Observation, Signal, StoreError};
use crate::record::DbTime;
use counterstep_contracts::Rev;
use counterstep_contracts::webhook::DeliveryStatus;
use futures::{FutureExt, StreamExt};
use std::sync::Arc;
use std::time::Duration;

/// Pauses between two attempts. After the last one the webhook is given up, after about half a day in all.
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

/// Time limit of the count of tasks of an alert.
const COUNT_TAKES: Duration = Duration::from_secs(5);

/// How long no other process sends a webhook that one has claimed; a request ends long before.
const CLAIM: Duration = Duration::from_secs(60);

/// How long a webhook that this program cannot read is left to others: a newer program may have written it.
const UNREADABLE: Duration = Duration::from_secs(3600);

/// Maximum number of due webhooks of one read, and of reads of one poll. The next poll continues behind the
/// last one.
const PAGE: u32 = 200;
const PAGES: u32 = 25;

/// How often a process polls for due webhooks, where no signal announces one.
const EVERY: Duration = Duration::from_secs(1);

/// Pause between two polls for alerts alone: they are few, behind all others that are due.
const ALERTS: Duration = Duration::from_secs(1);

/// Minimum time between two polls, however many tasks come to rest.
const LEAST: Duration = Duration::from_millis(100);

/// Pause after a poll that could not read or write them.
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
                biased;
                _ = shutdown.cancelled() => break,
                () = &mut pause => break,
                () = &mut least => has_waited = true,
                signal = signals.next(), if !is_woken => match signal {
                    Some(Signal::Rests(_)) => is_woken = true,
                    Some(_) => {}
                    // It tells of nothing any more: the pause is left.
                    None => { (&mut pause).await; break }
                },
                Some(ended) = sending.next(&engine) => match ended {
                    Ok(()) => {
                        let has_begun = sending.begin(&engine, &webhooks);
                        is_woken |= sending.left_some && !has_begun;
                    }
                    Err(error) => {
                        if let Some(left_out) = engine.log_line("webhook not noted") {
                            tracing::warn!(%error, left_out, "a webhook is sent again: its outcome was not noted");
                        }
                        pause = clock.sleep(AGAIN).fuse();
                    }
                },
            }
        }
    }
    while sending.next(&engine).await.is_some() {}
}

/// One that is due, as it was read at this time.
type Due = (Document, Result<Delivery, StoreError>, DbTime);

/// What is being sent.
#[derive(Default)]
struct Sending {
    under_way: UnderWay<Receiver, HostAnswer>,
    slots: Slots,
    /// What the last look has found and is not sent yet.
    lines: Lines<Due>,
    /// The last look left some that are due.
    left_some: bool,
    /// The last look for alerts alone.
    alerts_at: Option<Duration>,
    /// Where the last look ended before it had seen all that are due.
    after: Option<DuePlace>,
}

impl Sending {
    /// Waits for one that ends, and gives its slot back.
    async fn next(&mut self, engine: &Engine) -> Option<Result<(), StoreError>> {
        let (receiver, ended) = self.under_way.next().await?;
        let answer = ended.as_ref().copied().unwrap_or(HostAnswer::NotAsked);
        self.slots
            .leave(&receiver, answer, engine.ports.clock.monotonic());
        Some(ended.map(drop))
    }

    /// Begins to send those in line that have a slot. Whether there was one.
    fn begin(&mut self, engine: &Engine, webhooks: &Webhooks) -> bool {
        let now = engine.ports.clock.monotonic();
        let taken = self.slots.take(&mut self.lines, now);
        let has_begun = !taken.is_empty();
        for (receiver, (document, delivery, read_at)) in taken {
            let (engine, webhooks) = (engine.clone(), webhooks.clone());
            self.under_way.begin(receiver, async move {
                match delivery {
                    Ok(delivery) => deliver(&engine, &webhooks, document, delivery, read_at).await,
                    Err(error) => leave_to_others(&engine, &document, read_at, &error).await,
                }
            });
        }
        has_begun
    }

    /// Whether alerts are looked for alone now.
    fn looks_for_alerts(&mut self, now: Duration) -> bool {
        let is_time = self.alerts_at.is_none_or(|at| at + ALERTS <= now);
        if is_time {
            self.alerts_at = Some(now);
        }
        is_time
    }
}

/// Begins to send those that are due, as far as there is room.
async fn begin_due(
    engine: &Engine,
    webhooks: &Webhooks,
    sending: &mut Sending,
) -> Result<(), StoreError> {
    // Where there is no slot, those in line stay.
    let mut lines = match sending.slots.is_full() {
        true => std::mem::take(&mut sending.lines),
        false => Lines::new(),
    };
    // Those before one that cannot be read are sent all the same.
    let looked = look(engine, webhooks, sending, &mut lines).await;
    sending.lines = lines;
    sending.begin(engine, webhooks);
    sending.left_some |= sending.lines.values().any(|line| !line.is_empty());
    looked
}

/// Puts those that are due in line, as far as their tenants and hosts have room. Each look goes on where the last one ended, so
/// that each that is due has its turn.
async fn look(
    engine: &Engine,
    webhooks: &Webhooks,
    sending: &mut Sending,
    lines: &mut Lines<Due>,
) -> Result<(), StoreError> {
    let store = &engine.ports.store;
    let is_full = sending.slots.is_full();
    sending.left_some = is_full;
    // Alerts are due among all others; where a look does not come to these, they are looked for apart. One that is found twice is
    // claimed once.
    let now = engine.ports.clock.monotonic();
    let is_apart = webhooks.alerts.is_some() && (is_full || sending.after.is_some());
    if is_apart && sending.looks_for_alerts(now) {
        let read = webhook_document::due_alerts(store, PAGE);
        let found = sending.under_way.until(read).await?;
        sort(engine, sending, lines, found).await?;
    }
    if is_full {
        return Ok(());
    }
    for _ in 0..PAGES {
        let read = webhook_document::due(store, sending.after.clone(), PAGE);
        let found = sending.under_way.until(read).await?;
        let is_last = found.rows.len() < PAGE as usize;
        let last = found.rows.last().and_then(Document::due_place);
        sending.after = last.filter(|_| !is_last);
        sort(engine, sending, lines, found).await?;
        if is_last {
            return Ok(());
        }
    }
    sending.left_some = true;
    Ok(())
}

/// Puts those in line that have room, deletes those whose time to be listed is over, and sets those aside whose hosts hung.
async fn sort(
    engine: &Engine,
    sending: &mut Sending,
    lines: &mut Lines<Due>,
    found: Documents,
) -> Result<(), StoreError> {
    let now = engine.ports.clock.monotonic();
    let (mut changes, mut given_up) = (Vec::new(), Vec::new());
    for document in found.rows {
        let read = Delivery::read(&document);
        if matches!(&read, Ok(it) if it.status != DeliveryStatus::Pending) {
            changes.push(webhook_document::delete(&document));
            continue;
        }
        let receiver = webhook_document::receiver(&document, read.as_ref().ok());
        match (sending.slots.room(&receiver, lines, now), read) {
            (Room::HostWaits { wait, hung }, Ok(mut delivery)) => {
                changes.push(delivery.set_aside(&document, found.now, wait, hung)?);
                if delivery.status == DeliveryStatus::Failed {
                    given_up.push((document, delivery));
                }
            }
            (Room::Taken, _) => sending.left_some = true,
            (_, read) => {
                let line = lines.entry(document.tenant.clone()).or_default();
                line.push_back((receiver, (document, read, found.now)));
            }
        }
    }
    if changes.is_empty() {
        return Ok(());
    }
    let changed = engine.ports.store.put(&changes);
    match sending.under_way.until(changed).await {
        Ok(DocumentsPut::Written(_)) => {
            for (document, delivery) in given_up {
                let status = delivery.status;
                engine.observe(Observation::Webhook { status });
                log_given_up(engine, &document, &delivery);
            }
        }
        // Another process has changed one meanwhile: the next look does.
        Ok(DocumentsPut::Refused(_)) => {}
        Err(error) => {
            tracing::debug!(%error, "webhooks that are not sent now cannot be changed");
        }
    }
    Ok(())
}

/// One that cannot be read: a newer program may have written it.
async fn leave_to_others(
    engine: &Engine,
    document: &Document,
    read_at: DbTime,
    error: &StoreError,
) -> Result<HostAnswer, StoreError> {
    tracing::error!(webhook = document.name, %error, "a webhook cannot be read");
    let later = postponed(webhook_document::KIND, document, read_at.later(UNREADABLE));
    engine.ports.store.put_document(&later).await?;
    Ok(HostAnswer::NotAsked)
}

async fn deliver(
    engine: &Engine,
    webhooks: &Webhooks,
    document: Document,
    mut delivery: Delivery,
    read_at: DbTime,
) -> Result<HostAnswer, StoreError> {
    let (store, clock) = (&engine.ports.store, &*engine.ports.clock);
    let url = match (delivery.alert(), &webhooks.alerts) {
        (None, _) => delivery.url.clone(),
        (Some(_), Some(url)) => url.as_str().to_owned(),
        (Some(_), None) => {
            // Another process knows where it goes.
            let later = postponed(webhook_document::KIND, &document, read_at.later(CLAIM));
            store.put_document(&later).await?;
            return Ok(HostAnswer::NotAsked);
        }
    };
    let at = delivery.rested_at(&document);
    delivery.attempts = delivery.attempts.saturating_add(1);
    let claim = delivery.rewrite(&document, read_at.later(CLAIM))?;
    let Some(now) = store.put_document(&claim).await? else {
        return Ok(HostAnswer::NotAsked); // Another process sends it.
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
    let answer = match answered {
        Err(NoAnswer::Hung(_)) => HostAnswer::Hung,
        Ok(_) | Err(NoAnswer::Failed(_)) => HostAnswer::Answered,
    };
    delivery.last = Some(match answered {
        Ok(status) => status.to_string(),
        Err(why) => why.to_string(),
    });
    let is_old = delivery.is_old(now);
    let pause = PAUSES.get(delivery.attempts as usize - 1);
    let due = match pause {
        _ if is_delivered => {
            delivery.status = DeliveryStatus::Delivered;
            LISTED
        }
        Some(pause) if !is_gone && !is_old => *pause,
        _ => {
            delivery.status = DeliveryStatus::Failed;
            log_given_up(engine, &document, &delivery);
            LISTED
        }
    };
    let outcome = delivery.rewrite(&document, now.later(took + due))?;
    engine.observe(Observation::Webhook {
        status: delivery.status,
    });
    store.put_document(&outcome).await?;
    Ok(answer)
}

/// Logs that one is given up.
fn log_given_up(engine: &Engine, document: &Document, delivery: &Delivery) {
    let Some(left_out) = engine.log_line("webhook given up") else {
        return;
    };
    tracing::error!(
        webhook = document.name,
        attempts = delivery.attempts,
        last = delivery.last,
        left_out,
        "a webhook is given up"
    );
}
