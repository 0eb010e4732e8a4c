//! What is to become of a kept result, by the rows of its task. Pure.

use crate::ports::{SpoolEntry, SpoolKey};
use crate::record::{AttemptRow, History, TaskRecord};
use crate::saga::StepEvent;
use counterstep_contracts::{Epoch, Outcome};

/// What is to become of a kept result whose attempt is not open any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is written already: the process ended before it was removed.
    Written,
    /// Another host has had the task since, and what the attempt came to is not written: it is dropped.
    Fenced,
    /// It was dropped before, and the audit says so.
    Named,
}

/// Whether the attempt has not ended, and its epoch is the task's. A step's undo that has begun under the same epoch is
/// another attempt, though the last forward one is still the last of its direction.
pub(super) fn is_open(record: &TaskRecord, key: &SpoolKey, epoch: Epoch) -> bool {
    let row = record.steps.iter().find(|row| row.no == key.step);
    record.task.epoch == epoch
        && row.is_some_and(|row| row.open_attempt() == Some((key.direction, key.attempt)))
}

/// Of a result whose attempt is not open any more.
pub(super) fn of(history: &History, entry: &SpoolEntry) -> Fate {
    let key = &entry.key;
    let is_it = |row: &&AttemptRow| {
        (row.step, row.direction, row.attempt) == (key.step, key.direction, key.attempt)
    };
    let attempt = history.attempts.iter().find(is_it);
    let is_written = attempt.is_some_and(|row| {
        row.epoch == entry.epoch
            && row
                .outcome
                .is_some_and(|outcome| outcome != Outcome::InDoubt)
    });
    if is_written {
        return Fate::Written;
    }
    let is_named = history.audit.iter().any(|row| {
        let it = &row.entry;
        it.event == StepEvent::ResultDropped.name()
            && it.step == Some(key.step)
            && it.attempt == Some(key.attempt)
            && it.details["direction"] == key.direction.as_str()
    });
    if is_named { Fate::Named } else { Fate::Fenced }
}

#[cfg(test)]
mod tests {
    use super::{Fate, of};
    use crate::audit::EntryHash;
    use crate::ports::{SpoolEntry, SpoolKey};
    use crate::record::{AttemptRow, AuditEntry, AuditRow, DbTime, History};
    use counterstep_contracts::{
        Attempt, AuditSeq, ChangeId, Direction, Epoch, Outcome, StepNo, TaskId, TaskStatus,
    };
    use serde_json::json;
    use uuid::Uuid;

    fn entry() -> SpoolEntry {
        SpoolEntry {
            key: SpoolKey {
                task: TaskId(Uuid::from_u128(1)),
                step: StepNo(2),
                direction: Direction::Forward,
                attempt: Attempt(3),
            },
            epoch: Epoch(4),
            worker: "worker:0a".to_owned(),
            task_type: String::new(),
            kept_at: 0,
            body: String::new(),
        }
    }

    fn attempt(attempt: i32, epoch: i64, outcome: Option<Outcome>) -> AttemptRow {
        AttemptRow {
            step: StepNo(2),
            direction: Direction::Forward,
            attempt: Attempt(attempt),
            epoch: Epoch(epoch),
            prefix: String::new(),
            outcome,
            error: None,
            started_at: DbTime(0),
            ended_at: None,
            change_id: ChangeId(Uuid::nil()),
        }
    }

    fn dropped(attempt: i32, direction: Direction) -> AuditRow {
        AuditRow {
            seq: AuditSeq(1),
            change_id: ChangeId(Uuid::nil()),
            at: DbTime(0),
            seal: EntryHash(Vec::new()),
            entry: AuditEntry {
                seq: AuditSeq(1),
                event: "result_dropped".to_owned(),
                from: Some(TaskStatus::Running),
                to: TaskStatus::Running,
                step: Some(StepNo(2)),
                step_from: None,
                step_to: None,
                attempt: Some(Attempt(attempt)),
                epoch: Epoch(5),
                actor: String::new(),
                details: json!({"direction": direction.as_str()}),
            },
        }
    }

    #[test]
    fn a_result_is_dropped_once_unless_it_is_written() {
        let with = |attempts: Vec<AttemptRow>, audit: Vec<AuditRow>| {
            let history = History {
                audit,
                attempts,
                ..History::default()
            };
            of(&history, &entry())
        };
        let (doubt, done) = (Some(Outcome::InDoubt), Some(Outcome::Succeeded));
        assert_eq!(with(vec![attempt(3, 4, done)], vec![]), Fate::Written);
        assert_eq!(
            with(vec![attempt(3, 4, Some(Outcome::Failed))], vec![]),
            Fate::Written
        );
        assert_eq!(with(vec![attempt(3, 4, doubt)], vec![]), Fate::Fenced);
        let of_another = vec![attempt(3, 4, doubt), attempt(4, 5, done)];
        assert_eq!(with(of_another.clone(), vec![]), Fate::Fenced);
        let named = |it| with(of_another.clone(), vec![it]);
        assert_eq!(named(dropped(3, Direction::Forward)), Fate::Named);
        assert_eq!(named(dropped(2, Direction::Forward)), Fate::Fenced);
        assert_eq!(named(dropped(3, Direction::Undo)), Fate::Fenced);
        assert_eq!(with(vec![], vec![]), Fate::Fenced);
    }
}
