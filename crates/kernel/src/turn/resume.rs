//! A turn that goes on where another one of this process, or of the process before it on this data directory, has stopped:
//! under the same epoch, with the results that the spool has. That one is gone, so nothing else runs under this epoch.

use super::claim::run;
use super::cut_off::{CutOff, Unwritten};
use super::lease_state::Lease;
use super::lock::TaskLock;
use super::permits::Permits;
use super::read_at::ReadAt;
use super::tokens::Tokens;
use super::turn_end::{TurnEnd, tidied};
use super::turn_loop::{Claimed, Next, Turn, With};
use crate::admission::isolation::{Abandoned, Entry, Guest, WhenFull};
use crate::cancel::CancelToken;
use crate::engine::Engine;
use crate::ports::{Heartbeat, StoreError};
use crate::record::TaskRecord;
use crate::spool::KeptResult;
use futures::future::{BoxFuture, Either, select};
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;

/// Goes on with a task, as it was read.
pub(crate) fn resume<'a>(
    engine: &'a Engine,
    record: TaskRecord,
    results: Vec<KeptResult>,
    shutdown: &'a CancelToken,
) -> BoxFuture<'a, TurnEnd> {
    Box::pin(async move {
        let task = record.task.id;
        let Some(task_type) = engine.registry.of(&*record.task) else {
            return TurnEnd::UnknownType;
        };
        let ttl = engine.settings.lease_of(&task_type);
        let (sent, read_at) = (engine.ports.clock.monotonic(), ReadAt::now(engine));
        // First: at this moment other hosts may find that its lease is over.
        match heartbeat(engine, &record, ttl).await {
            Ok(Heartbeat::Held { .. }) => {}
            Ok(Heartbeat::Lost) => return TurnEnd::Lost,
            Err(error) => {
                tracing::warn!(%task, %error, "the lease of a task was not prolonged; it is tried again");
                return TurnEnd::StoreDown;
            }
        }
        let logged = match last_log_row(engine, &record, &results).await {
            Ok(no) => no,
            Err(error) => {
                tracing::warn!(%task, %error, "the log of a task was not read; it is tried again");
                return TurnEnd::StoreDown;
            }
        };
        let _running = beside_others(engine, &record);
        let lease = Lease::taken(sent);
        let unwritten = results
            .into_iter()
            .map(|KeptResult { ended, place }| Unwritten::kept(ended, place, &lease));
        let cut_off = CutOff::resumed(sent, unwritten.collect());
        let tokens = Tokens::of(shutdown);
        let lock = Arc::new(TaskLock::none(engine, task, ttl));
        let with = With {
            tokens,
            lock,
            permits: Permits::default(),
        };
        let span = engine.turn_span(&record.task, None);
        let claimed = Claimed {
            task_type,
            host: record.task.host,
            read_at,
            record: record.into(),
            lease,
        };
        let turn = Turn::of(engine, claimed, with.clone()).resumed(cut_off);
        turn.log.go_on_after(logged);
        let end = run(engine, turn, Next::Hold, ttl, with.clone())
            .instrument(span.clone())
            .await;
        with.permits.settle(|_| false).await;
        end.note_in(&span);
        tidied(engine, task, end).await
    })
}

/// The number of the last row that the earlier turn logged under this epoch: rows of the same number are the same.
async fn last_log_row(
    engine: &Engine,
    record: &TaskRecord,
    results: &[KeptResult],
) -> Result<u32, StoreError> {
    let task = &record.task;
    let rows = engine.ports.store.log(task.id).await?;
    let kept = results
        .iter()
        .filter_map(|result| result.ended.log.as_ref());
    let of_epoch = rows
        .iter()
        .chain(kept)
        .filter(|row| row.epoch == task.epoch);
    Ok(of_epoch.map(|row| row.no).max().unwrap_or_default())
}

async fn heartbeat(
    engine: &Engine,
    record: &TaskRecord,
    ttl: Duration,
) -> Result<Heartbeat, StoreError> {
    let task = &record.task;
    let heartbeat = engine.ports.store.heartbeat(task.id, task.epoch, ttl);
    match select(heartbeat, engine.ports.clock.sleep(ttl / 3)).await {
        Either::Left((answer, _)) => answer,
        Either::Right(_) => Err(StoreError::Unavailable(format!(
            "no answer within {:?}",
            ttl / 3
        ))),
    }
}

/// It counts among the tasks that run here. It was admitted before, whatever runs here now.
fn beside_others(
    engine: &Engine,
    record: &TaskRecord,
) -> Option<crate::admission::isolation::Running> {
    let guest = Guest {
        task: record.task.id,
        most: None,
        abandoned: Abandoned::Tolerated,
    };
    match engine.isolation.enter(guest, WhenFull::Leave, None) {
        Entry::In(running) => Some(running),
        Entry::Next(_) | Entry::Full => None,
    }
}
