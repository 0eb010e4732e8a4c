//! What stands before a submission: whether its type takes it, and whether as a probe.

use super::judge::{self, Admission};
use super::refusal::Refusal;
use super::switch::settled_row;
use crate::engine::Engine;
use crate::ports::{Disabled, StoreError, TypeRow};
use crate::task::TaskType;
use counterstep_contracts::TaskId;

/// Whether a type takes the task of this id, and the row by which it is the probe. A probe is written down before its first byte
/// is taken. `probe`: it was one when its first byte came. The type may have been disabled since, or another probe taken in its place.
pub(crate) async fn admit(
    engine: &Engine,
    task_type: &TaskType,
    task: TaskId,
    probe: Option<TypeRow>,
) -> Result<Result<Option<TypeRow>, Refusal>, StoreError> {
    if let Some(probe) = probe
        && let Some(row) = hand_over(engine, probe, task).await?
    {
        return Ok(Ok(Some(row)));
    }
    let name = task_type.decl.name;
    let disabled = &engine.disabled_types;
    loop {
        if let Some(read) = disabled.read_at(engine.ports.clock.monotonic()) {
            let types = engine.ports.store.types().await;
            let rows = types.inspect_err(|_| disabled.forget())?.rows.into_iter();
            let rows = rows.filter(|row| row.disabled.is_some());
            disabled.learn(read, rows.map(|row| row.name).collect());
        }
        // Another caller may have forgotten it meanwhile.
        if disabled.map(|names| names.contains(name)) == Some(false) {
            return Ok(Ok(None));
        }
        // What follows is about one row as it is now. A probe that has come to rest decides
        // first.
        let Some((row, now)) = settled_row(engine, task_type).await? else {
            disabled.forget();
            return Ok(Ok(None));
        };
        match judge::admit(&row, task, now) {
            Admission::Open => {
                disabled.forget();
                return Ok(Ok(None));
            }
            Admission::Closed {
                retry_after,
                probing,
            } => {
                let TypeRow { name, reason, .. } = row;
                let refusal = Refusal {
                    task_type: name,
                    reason,
                    retry_after,
                    probing,
                };
                return Ok(Err(refusal));
            }
            Admission::AsProbe(row) => {
                if engine.ports.store.put_type(&row).await? {
                    tracing::info!(task_type = name, %task, "a disabled task type takes a probe");
                    return Ok(Ok(Some(row)));
                }
                // A revision conflict: read what the other writer wrote.
            }
        }
    }
}

/// Looks at a row that others change, or whose write has no answer.
const TRIES: u32 = 8;

/// The row by which a submission that was let through as the probe still is it, under this id; `None`: its type has another probe, or
/// none. The id may be another one by now: it is replaced in one write, since between two the type could stay closed by a probe that
/// never comes.
async fn hand_over(
    engine: &Engine,
    probe: TypeRow,
    task: TaskId,
) -> Result<Option<TypeRow>, StoreError> {
    let old = probe.disabled.and_then(|disabled| disabled.probe);
    let old = old.map(|(task, _)| task);
    let mut lost = None;
    for _ in 0..TRIES {
        let rows = engine.ports.store.types().await?.rows.into_iter();
        let mut rows = rows.filter(|row| row.name == probe.name);
        let Some((disabled, mut row)) = rows.find_map(|row| Some((row.disabled?, row))) else {
            // It is open by now.
            return Ok(Some(probe));
        };
        let since = match disabled.probe {
            Some((now, _)) if now == task => return Ok(Some(row)),
            Some((now, since)) if Some(now) == old => since,
            _ => return Ok(None),
        };
        row.disabled = Some(Disabled {
            probe: Some((task, since)),
            ..disabled
        });
        row.rev = row.rev.next();
        match engine.ports.store.put_type(&row).await {
            Ok(true) => return Ok(Some(row)),
            // A revision conflict, or no answer: the row has the outcome.
            Ok(false) => {}
            Err(error @ StoreError::Unknown(_)) => lost = Some(error),
            Err(error) => return Err(error),
        }
    }
    lost.map_or(Ok(None), Err)
}

/// A probe that came to nothing before it was a task: the next submission may be one. Best
/// effort: a probe that is not there is given up after a while.
pub(crate) async fn give_up_probe(engine: &Engine, mut row: TypeRow) {
    if let Some(disabled) = &mut row.disabled {
        disabled.probe = None;
    }
    row.rev = row.rev.next();
    let written: Result<bool, StoreError> = engine.ports.store.put_type(&row).await;
    if let Err(error) = written {
        tracing::warn!(task_type = row.name, %error, "a probe that came to nothing was not given up yet");
    }
}
