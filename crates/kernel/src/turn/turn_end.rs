//! How a turn ends.

use crate::change::ChangeError;
use crate::engine::Engine;
use counterstep_contracts::workers::TurnOutcome;
use counterstep_contracts::{TaskId, TaskStatus};
use std::time::Duration;
use tracing::Span;

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnEnd {
    /// The task is terminal or parked.
    Rests(TaskStatus),
    /// It was given back: for another host, or until it is due.
    GivenBack,
    /// Another host has it, or is about to: look again after this time.
    Busy(Duration),
    /// It is not due, or not for this kind of host; the hosts that it is for have been notified.
    NotNow,
    /// There is no such task.
    Gone,
    /// The message that offered it contradicts its row, for this reason. The row is left as it was.
    Contradicted(String),
    /// This process does not know its type or version.
    UnknownType,
    /// The lease was lost on the way, or another host has taken the task.
    Lost,
    /// It does not fit beside what this process runs: its next step is heavy and there is no room
    /// for another one, or it has to run among few. Look again after this time.
    NoRoom(Duration),
    /// The store did not answer.
    StoreDown,
}

impl TurnEnd {
    /// How a turn that had its lease has ended, as people see it.
    pub(super) fn outcome(&self) -> TurnOutcome {
        match self {
            Self::Rests(status) => TurnOutcome::of_rest(*status).unwrap_or(TurnOutcome::GivenBack),
            Self::GivenBack
            | Self::Busy(_)
            | Self::NotNow
            | Self::NoRoom(_)
            | Self::UnknownType => TurnOutcome::GivenBack,
            Self::Gone | Self::Contradicted(_) | Self::Lost => TurnOutcome::Lost,
            Self::StoreDown => TurnOutcome::StoreDown,
        }
    }

    /// Notes in the span of the turn how it has ended.
    pub(super) fn note_in(&self, span: &Span) {
        let (word, failed) = match self {
            TurnEnd::Rests(status) => {
                span.record("status", status.as_str());
                let is_good = matches!(
                    status,
                    TaskStatus::Completed | TaskStatus::Cancelled | TaskStatus::Resolved
                );
                ("rests", !is_good)
            }
            TurnEnd::GivenBack => ("given_back", false),
            TurnEnd::Busy(_) => ("busy", false),
            TurnEnd::NotNow => ("not_now", false),
            TurnEnd::Gone => ("gone", false),
            TurnEnd::Contradicted(_) => ("contradicted", true),
            TurnEnd::UnknownType => ("unknown_type", false),
            TurnEnd::Lost => ("lost", true),
            TurnEnd::NoRoom(_) => ("no_room", false),
            TurnEnd::StoreDown => ("store_down", true),
        };
        span.record("end", word);
        if failed {
            span.record("otel.status_code", "error");
        }
    }
}

/// Removes the scratch of a task that has come to rest.
pub(super) async fn tidied(engine: &Engine, task: TaskId, end: TurnEnd) -> TurnEnd {
    if matches!(end, TurnEnd::Rests(_))
        && let Err(error) = engine.ports.scratch.remove(task).await
    {
        tracing::warn!(%task, %error, "removing the scratch of a task at rest failed; a sweep will");
    }
    end
}

pub(super) fn end_of(error: &ChangeError, task: TaskId) -> TurnEnd {
    match error {
        ChangeError::Fenced => {
            tracing::warn!(%task, "fenced: another host has claimed the task");
            TurnEnd::Lost
        }
        ChangeError::Gone => TurnEnd::Gone,
        ChangeError::Store(_) => {
            tracing::error!(%task, %error, "the turn ends without its result");
            TurnEnd::StoreDown
        }
        ChangeError::Illegal(_)
        | ChangeError::KeyTaken
        | ChangeError::PlaceTaken
        | ChangeError::Condemned
        | ChangeError::Sql(_) => {
            tracing::error!(%task, %error, "the turn ends: its change is not acceptable");
            TurnEnd::Lost
        }
    }
}
