//! What stands before a submission: whether its type takes it, and whether as a probe.

use super::judge::{self, Admission};
use super::refusal::Refusal;
use super::switch::settled_row;
use crate::engine::Engine;
use crate::ports::{StoreError, TypeRow};
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
        && is_probe(engine, &probe, task).await?
    {
        return Ok(Ok(Some(probe)));
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

/// Whether a submission that was let through as the probe still is it: otherwise its type is open by now, or has another probe.
async fn is_probe(engine: &Engine, probe: &TypeRow, task: TaskId) -> Result<bool, StoreError> {
    let mut rows = engine.ports.store.types().await?.rows.into_iter();
    let now = rows.find(|row| row.name == probe.name);
    let disabled = now.and_then(|row| row.disabled);
    Ok(disabled.is_none_or(|disabled| disabled.probe.is_some_and(|(probe, _)| probe == task)))
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
