//! A task that this program must not run: its type is known here under another version or
//! definition only. It is put to sleep for a host that knows it, so that its message does not go
//! round among those that do not.

use super::turn_end::TurnEnd;
use crate::change::Author;
use crate::engine::Engine;
use crate::record::TaskRecord;
use counterstep_contracts::{TaskStatus, WaitReason};
use std::time::Duration;

/// Leaves the task to those that can run it. Runs nothing of it.
pub(super) async fn leave(engine: &Engine, record: TaskRecord) -> TurnEnd {
    let (task, name, version) = (
        record.task.id,
        record.task.task_type.clone(),
        record.task.version,
    );
    let known: Vec<_> = engine
        .registry
        .known()
        .into_iter()
        .filter(|known| known.name == name)
        .collect();
    let Some(any) = known
        .first()
        .and_then(|known| engine.registry.get(&known.name, known.version))
    else {
        // Of another program that shares the queue: it knows what to do with it.
        return TurnEnd::UnknownType;
    };
    let changed = known.iter().any(|known| known.version == version);
    if changed {
        tracing::error!(
            %task, task_type = name, version, "the declaration is not the one under which the task was submitted: was \
            it changed without a new version? `check-deploy` lists such tasks"
        );
    }
    // A waiting one is shown only to those that know it, and an undo has no state to wait in: both
    // are looked for.
    if !matches!(
        record.task.status,
        TaskStatus::Submitted | TaskStatus::Dispatched
    ) || record.task.lease_owner.is_some()
    {
        return TurnEnd::UnknownType;
    }
    let here: Vec<String> = known
        .iter()
        .map(|known| format!("v{} {}", known.version, known.definition))
        .collect();
    let rev = record.task.rev;
    let slept = engine.change(Author::anyone(&engine.id), &any, record, |draft| {
        if draft.record().task.rev != rev {
            return Ok(());
        }
        draft.claim(&engine.id, Duration::ZERO)?;
        draft.wait(WaitReason::Version, Duration::ZERO)?;
        draft.add_detail("known_here", here.clone().into());
        Ok(())
    });
    match slept.await {
        Ok(_) => TurnEnd::GivenBack,
        Err(error) => {
            tracing::warn!(%task, %error, "a task of another version could not be put to sleep");
            TurnEnd::UnknownType
        }
    }
}
