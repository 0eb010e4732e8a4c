//! Each invariant that is checked from a task's rows, and a past that breaks it and nothing else.

use crate::errand::only;
use counterstep_contracts::{Attempt, Direction, Epoch, StepNo, StepStatus, TaskStatus};
use counterstep_kernel::change::transition::{Guard, TaskWrite, Transition};
use counterstep_kernel::record::{AttemptRow, AuditEntry, AuditRow, History, TaskRecord};
use counterstep_macros::distributed_task;
use counterstep_steps::{AwaitTask, Registry, StepContext, StepError, StepResult, UndoResult};
use counterstep_testkit::{Form, Harness, TestTask, invariants};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::time::Duration;

#[derive(Debug, Serialize, Deserialize)]
struct Journey {
    ends: bool,
}

/// Steps with effects, one after another.
struct Trip;

#[distributed_task(name = "Trip", queue = "trips")]
impl Trip {
    type Request = Journey;
    type Response = u8;

    #[step(1, host = "api", undo = cancel_flight)]
    async fn flight(_ctx: &StepContext) -> StepResult<u8> {
        Ok(1)
    }

    async fn cancel_flight(_ctx: &StepContext) -> UndoResult {
        Ok(())
    }

    #[step(2, host = "worker", undo = cancel_hotel)]
    async fn hotel(_ctx: &StepContext, _flight: &u8) -> StepResult<u16> {
        Ok(2)
    }

    async fn cancel_hotel(_ctx: &StepContext) -> UndoResult {
        Ok(())
    }

    #[step(3, host = "worker", undo = cancel_car)]
    async fn car(_ctx: &StepContext, req: &Journey) -> StepResult<u32> {
        if req.ends {
            return Ok(3);
        }
        Err(StepError::permanent("no car is left"))
    }

    async fn cancel_car(_ctx: &StepContext) -> UndoResult {
        Ok(())
    }

    fn respond(flight: &u8, hotel: &u16, car: &u32) -> u8 {
        flight + u8::try_from(u32::from(*hotel) + car).unwrap_or_default()
    }
}

/// A task that has come to rest, with its past.
struct Past {
    record: TaskRecord,
    history: History,
}

impl Past {
    async fn of(ends: bool) -> Self {
        let task: TestTask = Harness::embedded(only::<Trip>())
            .submit(Form::new().field("ends", ends))
            .await;
        let status = if ends {
            TaskStatus::Completed
        } else {
            TaskStatus::Failed
        };
        assert_eq!(task.run_to_rest().await, status);
        Self {
            record: task.record().await,
            history: task.history().await,
        }
    }

    /// The numbers of what is broken, each once.
    fn broken(&self) -> Vec<String> {
        let registry = only::<Trip>();
        let decl = registry.of(&*self.record.task).expect("a known type").decl;
        let said = invariants::broken(decl, &self.record, &self.history);
        let number = |it: &String| it.split(':').next().unwrap_or_default().to_owned();
        let mut numbers: Vec<_> = said.iter().map(number).collect();
        numbers.dedup();
        numbers
    }

    /// Consecutive hosts that the task may lose.
    fn allowed(&self) -> u32 {
        let registry = only::<Trip>();
        registry
            .of(&*self.record.task)
            .expect("a known type")
            .decl
            .max_recoveries
    }

    fn entry(&mut self, step: i32, event: &str) -> &mut AuditEntry {
        let mut entries = self.history.audit.iter_mut().map(|row| &mut row.entry);
        entries
            .find(|it| it.step == Some(StepNo(step)) && it.event == event)
            .unwrap_or_else(|| panic!("step {step} has no {event}"))
    }

    fn place(&self, step: i32, event: &str) -> usize {
        let mut entries = self.history.audit.iter().map(|row| &row.entry);
        entries
            .position(|it| it.step == Some(StepNo(step)) && it.event == event)
            .unwrap_or_else(|| panic!("step {step} has no {event}"))
    }

    /// Puts an entry at another place, as a part of the change that is there.
    fn moved(&mut self, step: i32, event: &str, to: usize) {
        let mut row = self.history.audit.remove(self.place(step, event));
        let before = &self.history.audit[to - 1];
        let (change, epoch) = (before.change_id, before.entry.epoch);
        let of = |it: &&mut AttemptRow| {
            (Some(it.step), Some(it.attempt)) == (row.entry.step, row.entry.attempt)
        };
        for attempt in self.history.attempts.iter_mut().filter(of) {
            if attempt.change_id == row.change_id {
                attempt.change_id = change;
            }
        }
        (row.change_id, row.entry.epoch) = (change, epoch);
        self.history.audit.insert(to, row);
        self.number();
    }

    /// Puts an entry of this event of the task, and of no step, before one of a step.
    fn asked_before(&mut self, (step, event): (i32, &str), new: &str) -> &mut AuditEntry {
        let place = self.place(step, event);
        let mut row = self.history.audit[place].clone();
        row.entry.event = new.to_owned();
        (row.entry.from, row.entry.to) = (Some(TaskStatus::Running), TaskStatus::Running);
        (row.entry.step, row.entry.attempt) = (None, None);
        (row.entry.step_from, row.entry.step_to) = (None, None);
        self.history.audit.insert(place, row);
        self.number();
        &mut self.history.audit[place].entry
    }

    /// Has a step end with another event once more, behind its success.
    fn once_more(&mut self, step: i32, event: &str, (from, to): (StepStatus, StepStatus)) {
        let ends = |row: &AuditRow| row.entry.step == Some(StepNo(step));
        let last = self.history.audit.iter().rposition(ends);
        let place = last.expect("an entry of the step");
        let mut row = self.history.audit[place].clone();
        row.entry.event = event.to_owned();
        (row.entry.step_from, row.entry.step_to) = (Some(from), Some(to));
        row.entry.from = Some(row.entry.to);
        self.history.audit.insert(place + 1, row);
        self.number();
    }

    /// Numbers the entries from 1.
    fn number(&mut self) {
        let mut rows: Vec<AuditRow> = std::mem::take(&mut self.history.audit);
        for (row, no) in rows.iter_mut().zip(1..) {
            row.seq.0 = no;
            row.entry.seq.0 = no;
        }
        self.history.audit = rows;
    }
}

type Break = fn(&mut Past);

/// What breaks an invariant: the number, what happened, whether the task has completed, and how.
const BREAKS: [(&str, &str, bool, Break); 26] = [
    ("1", "a commit under an older epoch", true, |past| {
        let last = past.history.audit.last_mut().expect("entries");
        last.entry.epoch = Epoch(0);
    }),
    (
        "3",
        "a step with effects that was never undone",
        false,
        |past| {
            past.entry(1, "undo_succeeded").step_to = Some(StepStatus::CompensationFailed);
            past.record.steps[0].status = StepStatus::CompensationFailed;
        },
    ),
    ("3", "a step that was undone twice", false, |past| {
        let place = past.place(1, "undo_succeeded");
        let mut again = past.history.audit[place].clone();
        again.entry.step_from = Some(StepStatus::Compensated);
        past.history.audit.insert(place + 1, again);
        past.number();
    }),
    ("5", "a step that has not ended", true, |past| {
        past.entry(3, "step_succeeded").step_to = Some(StepStatus::Running);
        past.record.steps[2].status = StepStatus::Running;
    }),
    ("5", "an undo of a completed task", true, |past| {
        past.history.attempts[0].direction = Direction::Undo;
    }),
    ("6", "a gap between entries", true, |past| {
        past.history.audit.last_mut().expect("entries").seq.0 += 1;
    }),
    ("6", "an entry that does not follow", true, |past| {
        let entry = past.entry(2, "step_succeeded");
        (entry.from, entry.to) = (Some(TaskStatus::Dispatched), TaskStatus::Dispatched);
    }),
    ("6", "another state of the row", false, |past| {
        past.record.task.status = TaskStatus::Cancelled;
    }),
    ("6", "another state of a step's row", false, |past| {
        past.record.steps[2].status = StepStatus::Failed;
    }),
    ("7", "a start behind the turn", false, |past| {
        past.entry(1, "undo_started").event = "step_started".to_owned();
    }),
    ("9", "a gap between attempts", true, |past| {
        past.history.attempts[2].attempt = Attempt(2);
        past.entry(3, "step_started").attempt = Some(Attempt(2));
    }),
    ("9", "two attempts of one number", true, |past| {
        let twice = past.history.attempts[0].clone();
        past.history.attempts.push(twice);
    }),
    (
        "10",
        "the first step undone before the second",
        false,
        |past| {
            for event in ["undo_started", "undo_succeeded"] {
                past.entry(2, event).step = Some(StepNo(0));
                past.entry(1, event).step = Some(StepNo(2));
                past.entry(0, event).step = Some(StepNo(1));
            }
            let undos = past.history.attempts.iter_mut();
            let mut undos = undos.filter(|it| it.direction == Direction::Undo && it.step.0 < 3);
            let (second, first) = (undos.next(), undos.next());
            let (second, first) = second.zip(first).expect("two undos");
            std::mem::swap(&mut second.change_id, &mut first.change_id);
        },
    ),
    ("10", "two undos at a time", false, |past| {
        let place = past.place(2, "undo_succeeded");
        past.moved(1, "undo_started", place);
    }),
    (
        "10",
        "the undo of a step before a later one's",
        false,
        |past| {
            let start = past.place(2, "undo_started");
            let end = past.place(1, "undo_succeeded");
            past.moved(1, "undo_started", start);
            past.moved(1, "undo_succeeded", start + 1);
            assert!(end > start + 1, "it was behind");
        },
    ),
    ("11", "a step that succeeds twice", true, |past| {
        let stays = (StepStatus::Completed, StepStatus::Completed);
        past.once_more(2, "step_succeeded", stays);
    }),
    (
        "11",
        "an output that is taken behind its reader",
        true,
        |past| {
            use StepStatus::{Completed, Pending, Running};
            let behind = past.place(2, "step_succeeded");
            past.once_more(1, "step_scratch_lost", (Completed, Pending));
            past.moved(1, "step_scratch_lost", behind + 1);
            past.once_more(1, "step_started", (Pending, Running));
            past.once_more(1, "step_succeeded", (Running, Completed));
        },
    ),
    ("13", "an entry of no change", true, |past| {
        past.history.audit.last_mut().expect("entries").change_id = OTHER.parse().expect("an id");
    }),
    ("13", "an entry of an older change", true, |past| {
        let older = past.history.changes[0].1;
        past.history.audit.last_mut().expect("entries").change_id = older;
    }),
    (
        "13",
        "an attempt that starts in another change",
        true,
        |past| {
            let (_, last) = past.history.changes.last().expect("changes");
            past.history.attempts[0].change_id = *last;
        },
    ),
    ("13", "a row of another change", true, |past| {
        past.record.task.change_id = past.history.changes[0].1;
    }),
    ("15", "a cancel before its end", true, |past| {
        past.asked_before((3, "step_succeeded"), "cancel_requested");
    }),
    ("15", "a row with an accepted cancel", true, |past| {
        past.record.task.cancel_requested_at = Some(past.record.now);
    }),
    ("17", "a start behind too many lost hosts", true, |past| {
        for _ in 0..=past.allowed() {
            let claimed = past.asked_before((3, "step_started"), "claimed");
            claimed.details = json!({"lost_by": "a host"});
        }
    }),
    ("17", "an undo behind too many lost hosts", false, |past| {
        for _ in 0..=past.allowed() {
            let taken_back = past.asked_before((1, "undo_started"), "taken_back");
            (taken_back.from, taken_back.to) =
                (Some(TaskStatus::Compensating), TaskStatus::Compensating);
            taken_back.details = json!({"lost_by": "a host"});
        }
    }),
    ("17", "a row that counts too many", true, |past| {
        past.record.task.recovery_attempts = past.allowed() + 2;
    }),
];

const OTHER: &str = "01a208fe-4b42-7982-94f3-4005e0e926bb";

#[tokio::test(flavor = "multi_thread")]
async fn a_past_that_breaks_one_invariant_is_found_by_its_number() {
    for (number, what, has_completed, spoil) in BREAKS {
        let mut past = Past::of(has_completed).await;
        assert_eq!(past.broken(), Vec::<String>::new(), "{what}: before");
        spoil(&mut past);
        assert_eq!(past.broken(), [number], "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_no_host_claims_in_time_is_found() {
    let mut past = Past::of(true).await;
    let hour = Duration::from_secs(3600);
    let left = |past: &Past| invariants::left_unclaimed(&past.record, &past.history, hour / 2);
    assert_eq!(left(&past), [""; 0], "as it was");
    let audit = &mut past.history.audit;
    let mut rows = audit.iter();
    let place = rows.position(|row| row.entry.to == TaskStatus::Dispatched);
    let dispatched = place.expect("it was dispatched");
    for row in &mut audit[dispatched + 1..] {
        row.at = row.at.later(hour);
    }
    let found = left(&past);
    assert!(
        found.len() == 1 && found[0].starts_with("14: "),
        "{found:?}"
    );
    // No host has ever come.
    past.history.audit.truncate(dispatched + 1);
    past.record.now = past.record.now.later(hour);
    assert_eq!(left(&past).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_a_change_replaces_is_found_by_its_number() {
    let task = Harness::embedded(only::<Trip>())
        .submit(Form::new().field("ends", true))
        .await;
    task.run_to_rest().await;
    let store = &task.engine.ports.store;
    let found = || invariants::found_by_fsck(store, &task.engine.registry, task.id);
    assert_eq!(found().await, [""; 0], "as it was");
    let before = task.record().await;
    let (mut row, mut step) = (before.task.clone(), before.steps[0].clone());
    let id = task.engine.new_change_id();
    (row.rev, row.change_id) = (row.rev.next(), id);
    step.output = Some(json!(7));
    let change = Transition {
        steps: vec![step],
        task: Some(TaskWrite::new(row)),
        ..Transition::new(id, task.id)
    };
    let guard = Guard::Free {
        rev: before.task.rev,
    };
    let change = change.with_journal(Some(&before), "test");
    store
        .commit(guard, change.clone())
        .await
        .expect("it is written");
    let found = found().await;
    assert!(
        found.len() == 1 && found[0].starts_with("11: "),
        "{found:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_result_that_is_dropped_behind_the_undo_breaks_nothing() {
    let mut past = Past::of(false).await;
    let mut dropped = past.history.audit[past.place(1, "undo_succeeded")].clone();
    dropped.entry.event = "result_dropped".to_owned();
    dropped.entry.step_from = dropped.entry.step_to;
    let last = &past.history.audit.last().expect("entries").entry;
    (dropped.entry.from, dropped.entry.to) = (Some(last.to), last.to);
    past.history.audit.push(dropped);
    past.number();
    assert_eq!(past.broken(), Vec::<String>::new());
}

/// Submits a trip, and what follows it ends or does not.
struct Party;

#[distributed_task(name = "Party", queue = "trips")]
impl Party {
    type Request = Journey;
    type Response = u8;

    #[step(1, host = "worker")]
    fn trip(_req: &Journey) -> AwaitTask<Trip> {
        AwaitTask::of(&Journey { ends: true })
    }

    #[step(2, host = "worker", no_undo = "does nothing")]
    async fn dinner(req: &Journey, trip: &u8) -> StepResult<u8> {
        if req.ends {
            return Ok(*trip);
        }
        Err(StepError::permanent("no table is left"))
    }

    fn respond(dinner: &u8) -> u8 {
        *dinner
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_does_not_end_with_its_parent_is_found() {
    let registry = || Registry::new().with::<Party>().with::<Trip>();
    for (ends, number) in [(false, "3"), (true, "5")] {
        let task = Harness::embedded(registry())
            .submit(Form::to::<Party>().field("ends", ends))
            .await;
        task.run_to_rest().await;
        let family = task.family().await;
        let [parent, child] = &family[..] else {
            panic!("a parent and its child: {family:?}")
        };
        let decl = registry().of(&*parent.task).expect("a known type").decl;
        let past = task.history().await;
        let store = &task.engine.ports.store;
        let childs = store.history(child.task.id).await.expect("an answer");
        let broken = |parent: &TaskRecord, status| {
            let mut child = child.clone();
            child.task.status = status;
            let said = invariants::broken_of_child(decl, parent, &past, 0, &child, &childs);
            said.iter().map(|it| it[..1].to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(broken(parent, child.task.status), [""; 0], "as it was");
        for goes_on in [TaskStatus::Running, TaskStatus::Dispatched] {
            assert_eq!(broken(parent, goes_on), [number]);
        }
        if ends {
            continue;
        }
        assert_eq!(broken(parent, TaskStatus::Completed), ["3"]);
        let mut settled = parent.clone();
        settled.steps[0].status = StepStatus::Resolved;
        assert_eq!(broken(&settled, TaskStatus::Completed), [""; 0]);
    }
}
