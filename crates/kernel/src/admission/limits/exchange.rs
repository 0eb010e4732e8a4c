//! The loop of a process that exchanges with the others what it has of each limit: it takes permits and
//! starts for the attempts that wait, renews those in use, and gives the rest back. Owns the records'
//! I/O; what is given is decided in `grant`.

use super::grant::{Grant, LimitState, LimitValues};
use super::unused::UNUSED_FOR;
use super::{Backing, LimitKey, Limits, Share, admin};
use crate::documents::{read_document, write_document};
use crate::engine::Engine;
use crate::engine::time_limits::answer_within;
use crate::ports::{DocumentChange, DocumentKind, DocumentQuery, DocumentWrite, StoreError};
use crate::record::DbTime;
use counterstep_contracts::{Rev, Tenant};
use futures::StreamExt;
use futures::channel::oneshot;
use futures::future::{BoxFuture, Either, select};
use futures::stream;
use std::time::Duration;

const KIND: DocumentKind = DocumentKind::Limit;

/// How often the record is read while attempts wait, to see what another process has given back.
const LOOK: Duration = Duration::from_millis(100);

/// After a failure.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Where there is nothing to exchange, the loop is woken by what comes.
const IDLE: Duration = Duration::from_secs(3600);

/// Records at a time.
const SIDE_BY_SIDE: usize = 8;

/// Maximum tries on a revision conflict.
const TRIES: u32 = 20;

/// Timeout of reading what operators have set. The next exchange tries again.
const SET_VALUES_TAKE: Duration = Duration::from_secs(1);

/// How long a process waits at its end for its permits to be given back.
const LAST_EXCHANGE: Duration = Duration::from_secs(1);

/// Does the work, and meanwhile exchanges what this process has of all limits.
pub(crate) fn keep_exchanged<'a, T: Send + 'a>(
    engine: &'a Engine,
    work: BoxFuture<'a, T>,
) -> BoxFuture<'a, T> {
    Box::pin(async move {
        let (over, ended) = oneshot::channel::<()>();
        let work = async move {
            let done = work.await;
            drop(over);
            done
        };
        futures::join!(work, exchange_until(engine, ended)).0
    })
}

async fn exchange_until(engine: &Engine, mut ended: oneshot::Receiver<()>) {
    // The parts of a process take turns: one loop exchanges for all.
    let turn = Box::pin(engine.limits.exchanging.lock());
    let _turn = match select(turn, &mut ended).await {
        Either::Left((turn, _)) => turn,
        Either::Right(_) => return,
    };
    loop {
        let now = engine.ports.clock.monotonic();
        exchange_all(engine, engine.limits.due(now)).await;
        let wanted = Box::pin(engine.limits.wanted.notified());
        let pause = select(engine.ports.clock.sleep(engine.limits.next_in()), wanted);
        if let Either::Right(_) = select(pause, &mut ended).await {
            break;
        }
    }
    let left = engine.limits.due(Duration::MAX);
    let last = Box::pin(exchange_all(engine, left));
    select(last, engine.ports.clock.sleep(LAST_EXCHANGE)).await;
}

async fn exchange_all(engine: &Engine, keys: Vec<LimitKey>) {
    if keys.is_empty() {
        return;
    }
    let known = read_set_values(engine).await;
    if known == SetValuesKnown::Never {
        // What is declared may be more than a person has set. Without an exchange there is nothing to renew.
        for key in &keys {
            engine.limits.look_at(key, AFTER_FAILURE);
        }
        return;
    }
    stream::iter(keys)
        .for_each_concurrent(SIDE_BY_SIDE, |key| async move {
            let takes = engine.settings.lease / 3;
            let exchange = Box::pin(exchange(engine, &key));
            let exchanged = match select(exchange, engine.ports.clock.sleep(takes)).await {
                Either::Left((exchanged, _)) => exchanged,
                Either::Right(_) => Err(StoreError::Unavailable(format!(
                    "no answer within {takes:?}"
                ))),
            };
            if let Err(error) = exchanged {
                tracing::warn!(limit = %key, %error, "permits of a limit could not be exchanged");
                engine.limits.look_at(&key, AFTER_FAILURE);
            } else if known == SetValuesKnown::Old {
                engine.limits.look_within(&key, AFTER_FAILURE);
            }
        })
        .await;
}

/// What a process knows of the values that people have set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SetValuesKnown {
    /// As they were a moment ago.
    Now,
    /// As they were when they could be read last.
    Old,
    /// Nothing: they could not be read yet.
    Never,
}

/// Reads what people have set, where that was not read a moment ago. Old values hold where it fails.
async fn read_set_values(engine: &Engine) -> SetValuesKnown {
    let (set, clock) = (&engine.limits.set, engine.ports.clock.as_ref());
    let now = clock.monotonic();
    let Some(read) = set.read_at(now) else {
        // Where they are not fresh, another caller reads them, which may fail.
        return match set.is_fresh(now) {
            true => SetValuesKnown::Now,
            false => SetValuesKnown::Old,
        };
    };
    // One connection may be silent while the others answer: permits in use are renewed in any case.
    match answer_within(clock, SET_VALUES_TAKE, admin::set_values(engine)).await {
        Some(Ok(values)) => {
            set.learn(read, values);
            return SetValuesKnown::Now;
        }
        Some(Err(error)) => {
            tracing::warn!(%error, "the values set for limits could not be read");
        }
        None => tracing::warn!("the values set for limits could not be read in time"),
    }
    set.read_again();
    match set.is_known() {
        true => SetValuesKnown::Old,
        false => SetValuesKnown::Never,
    }
}

/// What a person has set under this name, as far as this process knows: it reads that once a second.
pub(crate) async fn set_values_of(engine: &Engine, name: &str) -> Option<LimitValues> {
    read_set_values(engine).await;
    engine.limits.set_values(name)
}

async fn exchange(engine: &Engine, key: &LimitKey) -> Result<(), StoreError> {
    let lease = held_at_most(engine);
    for _ in 0..TRIES {
        let sent = engine.ports.clock.monotonic();
        let query = DocumentQuery::Named {
            kind: KIND,
            tenant: Tenant::default(),
            names: vec![key.record().to_owned()],
        };
        let read = engine.ports.store.documents(&query).await?;
        let received = engine.ports.clock.monotonic();
        let now = read.now;
        let document = read.rows.into_iter().next();
        let (rev, mut state) = match &document {
            None => (Rev(0), LimitState::default()),
            Some(document) => (document.rev, read_document(KIND, &document.body)?),
        };
        let Some((need, values)) = engine.limits.begin_exchange(key) else {
            return Ok(());
        };
        let (grant, has_changed) = state.exchange(&engine.id, need, values, now, lease);
        if has_changed && !write(engine, key, &state, rev, now).await? {
            continue;
        }
        engine.limits.end_exchange(
            key,
            Exchanged {
                grant,
                until: sent + held_for(&state, engine, now),
                database: now,
                timer: received,
            },
        );
        return Ok(());
    }
    // Every try met a revision conflict: the other writers come first.
    let spread = (engine.ports.random.bits() % 50) as u64;
    engine
        .limits
        .look_at(key, LOOK / 2 + Duration::from_millis(spread));
    Ok(())
}

/// How long what this process holds is its own from now on.
fn held_for(state: &LimitState, engine: &Engine, now: DbTime) -> Duration {
    state
        .holders
        .get(&*engine.id)
        .map_or(held_at_most(engine), |holder| holder.until.after(now))
}

/// Somewhat less than a lease: with the look of another process, a permit whose holder is gone is idle for no
/// longer than a lease.
fn held_at_most(engine: &Engine) -> Duration {
    engine.settings.lease * 9 / 10
}

/// Writes a record over the one that was read. `false`: a revision conflict.
async fn write(
    engine: &Engine,
    key: &LimitKey,
    state: &LimitState,
    rev: Rev,
    now: DbTime,
) -> Result<bool, StoreError> {
    // Due: to be deleted, unless it is used.
    let unused_at = now.later(engine.settings.lease + UNUSED_FOR);
    let change = DocumentChange::Put {
        body: write_document(KIND, state)?,
        due_at: Some(unused_at),
    };
    let write = DocumentWrite {
        kind: KIND,
        tenant: Tenant::default(),
        name: key.record().to_owned(),
        expected: Some(rev),
        change,
    };
    Ok(engine.ports.store.put_document(&write).await?.is_some())
}

/// What an exchange has brought.
struct Exchanged {
    grant: Grant,
    /// By this process's timer.
    until: Duration,
    /// The database's clock when the record was read, ...
    database: DbTime,
    /// ... and this process's timer when the reply arrived.
    timer: Duration,
}

impl Limits {
    fn set_values(&self, name: &str) -> Option<LimitValues> {
        self.set.map(|values| values.get(name).copied())?
    }

    /// The limits to be exchanged now.
    fn due(&self, now: Duration) -> Vec<LimitKey> {
        let shares = self.shares();
        let is_due = |share: &Share| share.backing == Backing::Leased && share.next_exchange <= now;
        let due = shares.by_key.iter().filter(|(_, share)| is_due(share));
        due.map(|(key, _)| key.clone()).collect()
    }

    /// How long until a limit is to be exchanged.
    fn next_in(&self) -> Duration {
        let now = self.clock.monotonic();
        let mut shares = self.shares();
        shares.by_key.retain(|_, share| !share.is_idle());
        let next = shares.by_key.values().map(|share| share.next_exchange);
        next.min()
            .map_or(IDLE, |next| next.saturating_sub(now).min(IDLE))
    }

    /// Looks at a limit again after this.
    fn look_at(&self, key: &LimitKey, after: Duration) {
        let now = self.clock.monotonic();
        if let Some(share) = self.shares().by_key.get_mut(key) {
            share.next_exchange = now + after;
        }
    }

    /// Looks at a limit again after this at the latest; who waits in its line asks again then.
    fn look_within(&self, key: &LimitKey, after: Duration) {
        let now = self.clock.monotonic();
        if let Some(share) = self.shares().by_key.get_mut(key) {
            share.next_exchange = share.next_exchange.min(now + after);
        }
    }

    /// What this process needs. What it does not use is not given to an attempt before the exchange
    /// ends: another process may have it then.
    fn begin_exchange(&self, key: &LimitKey) -> Option<(super::grant::Need, LimitValues)> {
        let set = self.set_values(&key.limit);
        let now = self.clock.monotonic();
        let mut shares = self.shares();
        let share = shares.by_key.get_mut(key)?;
        share.values = set.unwrap_or(share.declared);
        share.waiting.retain(|waiting| !waiting.is_canceled());
        share.held = share.in_use;
        share.forget_late_starts(now);
        share.next_exchange = Duration::MAX;
        Some((share.need(), share.values))
    }

    fn end_exchange(self: &std::sync::Arc<Self>, key: &LimitKey, exchanged: Exchanged) {
        let now = self.clock.monotonic();
        let Exchanged {
            grant,
            until,
            database,
            timer,
        } = exchanged;
        let by_timer = |start: DbTime| timer + start.after(database);
        let mut shares = self.shares();
        let Some(share) = shares.by_key.get_mut(key) else {
            return;
        };
        share.granted(&grant, until, by_timer);
        share.serve(now);
        share.lacks_some = share.is_waited_for();
        let again = if share.held > share.in_use && !share.is_waited_for() {
            Duration::ZERO
        } else if share.is_waited_for() {
            // Not before there is a start to be had, but the permits in use are renewed.
            let start = match share.unused() {
                Some(_) => Duration::ZERO,
                None => share.next_start.saturating_sub(now + super::grant::AHEAD),
            };
            let renewal = match share.in_use {
                0 => IDLE,
                _ => until.saturating_sub(now) / 2,
            };
            LOOK.max(start).min(renewal)
        } else if share.held == 0 && share.in_use == 0 {
            // Deferred tasks alone: each asks when it has its place.
            IDLE
        } else {
            until.saturating_sub(now) / 2
        };
        // Where an attempt came or ended meanwhile, it is exchanged at once.
        share.next_exchange = share.next_exchange.min(now + again);
        let has_deferred = !share.deferred.is_empty();
        drop(shares);
        // The next start may have changed.
        if has_deferred {
            self.place_free.notify_waiters();
        }
    }
}
