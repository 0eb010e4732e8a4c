//! What an operator can do with a task, and about what holds one back: a row a move, with the states of a task that it fits. `why`, the page and
//! the command line have their moves from here. Pure; the rules of each call are where it is carried out, and a test compares the two.

use crate::client::{again_type, is_erased};
use crate::plan;
use crate::record::{StepRow, TaskRecord};
use crate::task::{Registry, TaskType};
use counterstep_contracts::commands::WHOLE_BODY;
use counterstep_contracts::operation::breakers::CloseBreaker;
use counterstep_contracts::operation::decisions::{ResolveTask, RetryTask, SetRecoveries};
use counterstep_contracts::operation::limits::{ResetLimit, SetLimit};
use counterstep_contracts::operation::queues::ResumeQueue;
use counterstep_contracts::operation::tasks::{CancelTask, RunTaskAgain, SendSignal};
use counterstep_contracts::operation::workers::ResumeWorkers;
use counterstep_contracts::operation::{About, Operation};
use counterstep_contracts::operator::{OperatorMove, WhyCode};
use counterstep_contracts::{Host, StepStatus, TaskId, TaskStatus, WaitDecl, WaitReason};
use serde_json::{Value, json};

/// The note of what is done as `why` has it, until a person writes another.
const NOTE: &str = "why";

/// Whether a move fits a task, or a step of it.
enum Fit {
    No,
    Offered,
    /// It would be taken, and is not offered; why.
    Quiet(&'static str),
}

use Fit::{No, Offered, Quiet};

const fn offered_if(fits: bool) -> Fit {
    if fits { Offered } else { No }
}

/// What decides which moves fit a task.
struct Standing<'a> {
    record: &'a TaskRecord,
    /// Its type, where this program knows it as the task was submitted under it.
    task_type: Option<TaskType>,
    /// What it would run again as.
    again: Option<TaskType>,
}

impl<'a> Standing<'a> {
    fn of(registry: &Registry, record: &'a TaskRecord) -> Self {
        Self {
            record,
            task_type: registry.of(&*record.task),
            again: again_type(registry, &record.task, false).ok(),
        }
    }

    /// Its state, where this program knows its type.
    fn status(&self) -> Option<TaskStatus> {
        self.task_type.map(|_| self.record.task.status)
    }

    fn is(&self, status: TaskStatus) -> bool {
        self.status() == Some(status)
    }

    fn is_parked(&self) -> bool {
        self.status().is_some_and(TaskStatus::is_parked)
    }

    /// It goes forward, and no cancel of it was accepted.
    fn goes_forward(&self) -> bool {
        let of = |status: TaskStatus| !status.is_at_rest() && status != TaskStatus::Compensating;
        self.status().is_some_and(of) && self.record.task.cancel_requested_at.is_none()
    }

    /// The step waits for a signal, or will, and none has come.
    fn waits_for_signal(&self, row: &StepRow) -> bool {
        let mut steps = self.task_type.iter().flat_map(|it| it.decl.steps);
        let decl = steps.find(|decl| decl.name == row.name);
        let waits = decl.and_then(|decl| plan::waits(decl, row));
        matches!(waits, Some(WaitDecl::Signal { .. })) && row.signal.is_none()
    }
}

/// Whether a move fits.
enum Fits {
    Task(fn(&Standing<'_>) -> Fit),
    Step(fn(&Standing<'_>, &StepRow) -> Fit),
}

/// The texts of a move: its name, its title (behind "What would happen if I …"), what it does, its button. `{}` is the step, or what
/// else it is about.
struct Texts(&'static str, &'static str, &'static str, &'static str);

/// A move of a task.
struct Move {
    texts: fn(TaskStatus) -> Texts,
    call: &'static About,
    fits: Fits,
    /// What it sends beside the note and the step; `None`: no body, or one that is asked for as a whole.
    body: fn() -> Option<Value>,
    asks: fn(&Standing<'_>) -> Vec<&'static str>,
    ends: fn(&Standing<'_>) -> Option<WhyCode>,
}

fn nothing(_: &Standing<'_>) -> Vec<&'static str> {
    Vec::new()
}

/// What ends the wait of a parked task for a person.
fn parked(_: &Standing<'_>) -> Option<WhyCode> {
    Some(WhyCode::Parked)
}

/// A step that gave up, or is in doubt, in a task that does not go on by itself.
fn gave_up(of: &Standing<'_>, row: &StepRow) -> Fit {
    let is_open = matches!(row.status, StepStatus::Failed | StepStatus::InDoubt);
    offered_if(of.is(TaskStatus::DeadLettered) && is_open)
}

fn undo_gave_up(of: &Standing<'_>, row: &StepRow) -> Fit {
    let is_open = row.status == StepStatus::CompensationFailed;
    offered_if(of.is(TaskStatus::CompensationFailed) && is_open)
}

/// Of a task that is parked going forward; of one that is being undone not, for a reason.
fn forward_only(of: &Standing<'_>, why: &'static str) -> Fit {
    match of.status() {
        Some(TaskStatus::DeadLettered) => Offered,
        Some(TaskStatus::CompensationFailed) => Quiet(why),
        _ => No,
    }
}

/// A whole task that is settled.
macro_rules! settled {
    ($name:literal as $settled:literal, $title:literal, $does:literal, $button:literal, $fits:expr) => {
        Move {
            texts: |_| Texts($name, $title, $does, $button),
            call: &ResolveTask::ABOUT,
            fits: Fits::Task($fits),
            body: || Some(json!({"as": $settled})),
            asks: nothing,
            ends: parked,
        }
    };
}

#[rustfmt::skip] // A table is read by its columns.
const RECOUNT: Move = Move {
    texts: |_| Texts("recount", "count its lost hosts anew", "counts none of its losses any more", "Count anew"),
    call: &SetRecoveries::ABOUT,
    fits: Fits::Task(|of| match of.record.task.recovery_attempts {
        _ if of.status().is_none_or(TaskStatus::is_terminal) => No,
        0 => Quiet("none is counted"),
        _ => Offered,
    }),
    body: || Some(json!({"recovery_attempts": 0})),
    asks: nothing,
    ends: |_| None,
};

/// What ends a wait comes first. To settle a task as `redriven` takes another task, which no move knows.
#[rustfmt::skip] // A table is read by its columns.
const MOVES: &[Move] = &[
    Move {
        texts: |_| Texts("signal", "answer {}", "answers {}: the body is the answer of its declared type, as JSON", "Answer"),
        call: &SendSignal::ABOUT,
        fits: Fits::Step(|of, row| match row.status {
            _ if !of.goes_forward() || !of.waits_for_signal(row) => No,
            StepStatus::Waiting => Offered,
            StepStatus::Pending => Quiet("the step does not wait for it yet, and may never"),
            _ => No,
        }),
        body: || None,
        asks: |_| vec![WHOLE_BODY],
        ends: |of| (of.record.task.waiting == Some(WaitReason::Signal)).then_some(WhyCode::Outside),
    },
    Move {
        texts: |_| Texts("cancel", "cancel it", "cancels it: what it has done is undone", "Cancel the task"),
        call: &CancelTask::ABOUT,
        fits: Fits::Task(|of| offered_if(of.goes_forward() && of.task_type.is_some_and(|it| it.decl.cancellable))),
        body: || None,
        asks: nothing,
        ends: |_| None,
    },
    Move {
        texts: |status| match status {
            TaskStatus::CompensationFailed => Texts("retry", "try the undo again", "tries the undos, and the probes, that gave up again, with their retries anew", "Let it go on"),
            _ => Texts("retry", "run it again from where it gave up", "runs the steps, and the probes, that gave up again, with their retries anew", "Let it go on"),
        },
        call: &RetryTask::ABOUT,
        fits: Fits::Task(|of| offered_if(of.is_parked())),
        body: || Some(json!({})),
        // Only what goes forward is given another request, and none by which tasks were submitted.
        asks: |of| match of.is(TaskStatus::DeadLettered) && of.record.fixes_request().is_none() {
            true => vec!["patch"],
            false => Vec::new(),
        },
        ends: parked,
    },
    Move {
        texts: |_| Texts("undo", "have it undone", "undoes what it has done", "Have it undone"),
        call: &RetryTask::ABOUT,
        fits: Fits::Task(|of| offered_if(of.is(TaskStatus::DeadLettered))),
        body: || Some(json!({"direction": "undo"})),
        asks: nothing,
        ends: parked,
    },
    Move {
        texts: |_| Texts("step-done", "did {} by hand", "gives the step the output of work that was done by hand, and goes on", "It is done"),
        call: &ResolveTask::ABOUT,
        fits: Fits::Step(gave_up),
        body: || Some(json!({"as": "done", "output": null})),
        asks: |_| vec!["output"],
        ends: parked,
    },
    Move {
        texts: |_| Texts("step-undone", "undid {} by hand", "says that the step was undone by hand, and undoes the others", "It is undone"),
        call: &ResolveTask::ABOUT,
        fits: Fits::Step(undo_gave_up),
        body: || Some(json!({"as": "undone"})),
        asks: nothing,
        ends: parked,
    },
    Move {
        texts: |_| Texts("step-skipped", "leave {} as it is", "leaves the effects of the step, as the task then shows, and undoes the others", "Leave it as it is"),
        call: &ResolveTask::ABOUT,
        fits: Fits::Step(undo_gave_up),
        body: || Some(json!({"as": "skipped"})),
        asks: nothing,
        ends: parked,
    },
    settled!("settle-undone" as "undone", "undid all of it by hand", "ends the task as resolved", "It is undone",
        |of| offered_if(of.is_parked())),
    settled!("settle-done" as "done", "did all of it by hand", "ends the task as resolved, as done by hand", "It is done",
        |of| forward_only(of, "what is undone in part is not done")),
    settled!("settle-skipped" as "skipped", "leave all of it as it is", "ends the task as resolved, with its effects left", "Leave it as it is",
        |of| offered_if(of.is_parked())),
    settled!("settle-not-needed" as "not_needed", "need it no more", "ends the task as resolved, with its effects left", "Settle it",
        |of| forward_only(of, "it is being undone, so that its outcome is not needed already: `skipped` leaves the same effects")),
    RECOUNT,
    Move {
        texts: |_| Texts("run-again", "run it again", "runs it again from the start, as a new task", "Run it again"),
        call: &RunTaskAgain::ABOUT,
        fits: Fits::Task(|of| offered_if(of.again.is_some_and(|it| !is_erased(&it, &of.record.task)))),
        body: || Some(json!({})),
        // What the rows do not say, as whether its files are still there, the answer does.
        asks: |of| match of.task_type {
            Some(_) => vec!["from", "patch"],
            None => vec!["patch"],
        },
        ends: |_| Some(WhyCode::Ended),
    },
];

/// A move that the rules would take.
#[derive(Debug, Clone)]
pub struct Taken {
    /// The move.
    pub can: OperatorMove,
    /// Why it is not offered; `None`: it is.
    pub quiet: Option<&'static str>,
}

/// The moves of a task that the rules would take as its rows stand.
#[must_use]
pub fn taken(registry: &Registry, record: &TaskRecord) -> Vec<Taken> {
    let of = Standing::of(registry, record);
    let mut taken = Vec::new();
    for row in MOVES {
        match row.fits {
            Fits::Task(fits) => taken.extend(row.taken(&of, fits(&of), None)),
            Fits::Step(fits) => {
                let steps = record.steps.iter();
                let each =
                    steps.filter_map(|step| row.taken(&of, fits(&of, step), Some(&step.name)));
                taken.extend(each);
            }
        }
    }
    taken
}

/// What an operator can do with a task.
pub(super) fn moves(registry: &Registry, record: &TaskRecord) -> Vec<OperatorMove> {
    let taken = taken(registry, record).into_iter();
    let offered = taken.filter(|it| it.quiet.is_none());
    offered.map(|it| it.can).collect()
}

impl Move {
    fn taken(&self, of: &Standing<'_>, fit: Fit, step: Option<&str>) -> Option<Taken> {
        let quiet = match fit {
            No => return None,
            Offered => None,
            Quiet(why) => Some(why),
        };
        let can = self.of(of, step);
        Some(Taken { can, quiet })
    }

    fn of(&self, of: &Standing<'_>, step: Option<&str>) -> OperatorMove {
        let task = &of.record.task;
        let mut body = (self.body)();
        if let (Some(body), Some(step)) = (&mut body, step) {
            body["step"] = json!(step);
        }
        let texts = (self.texts)(task.status);
        let about = step.unwrap_or_default();
        OperatorMove {
            step: step.map(str::to_owned),
            asks: (self.asks)(of).into_iter().map(str::to_owned).collect(),
            ends: (self.ends)(of),
            ..call(
                &texts,
                self.call,
                &[&task.id.to_string(), about],
                body,
                about,
            )
        }
    }
}

/// A call. `named`: what its address names; `about`: what its texts do.
fn call(
    texts: &Texts,
    call: &About,
    named: &[&str],
    body: Option<Value>,
    about: &str,
) -> OperatorMove {
    let body = body.map(|mut body| {
        body["note"] = json!(NOTE);
        body
    });
    OperatorMove {
        operation: Some(call.id.to_owned()),
        method: call.verb.name().to_owned(),
        path: call.address(named),
        body,
        role: call.access.role(),
        button: texts.3.to_owned(),
        ..of_texts(texts, about)
    }
}

fn of_texts(texts: &Texts, about: &str) -> OperatorMove {
    OperatorMove {
        name: texts.0.to_owned(),
        title: texts.1.replace("{}", about),
        does: texts.2.replace("{}", about),
        ..OperatorMove::default()
    }
}

/// A command of this program.
fn command(
    name: &'static str,
    words: String,
    title: &'static str,
    does: &'static str,
) -> OperatorMove {
    OperatorMove {
        command: Some(words),
        ..of_texts(&Texts(name, title, does, ""), "")
    }
}

#[rustfmt::skip] // A table is read by its columns.
mod gates {
    use super::Texts;

    pub(super) const RESUME: Texts = Texts("resume-queue", "resume the queue {}", "lets processes claim tasks of the queue again", "Resume it");
    pub(super) const RESUME_WORKERS: Texts = Texts("resume-workers", "resume the processes of {}", "lets the processes of the machine take tasks again", "Resume them");
    pub(super) const RESET: Texts = Texts("reset-limit", "reset the limit {}", "lets the limit hold again as it is declared", "Reset the limit");
    pub(super) const CLOSE: Texts = Texts("close-breaker", "close the breaker {}",
        "closes it in all processes: attempts start; a task that sleeps for it starts at its time", "Close it");
    pub(super) const CANCEL_FIRST: Texts = Texts("cancel-first", "cancel the task that comes first", "cancels the task that comes first", "Cancel the task");
}

pub(super) fn resume_queue(queue: &str) -> OperatorMove {
    call(
        &gates::RESUME,
        &ResumeQueue::ABOUT,
        &[queue],
        Some(json!({})),
        queue,
    )
}

pub(super) fn resume_workers(machine: &str, role: &str) -> OperatorMove {
    call(
        &gates::RESUME_WORKERS,
        &ResumeWorkers::ABOUT,
        &[machine],
        Some(json!({ "role": role })),
        machine,
    )
}

/// `now`: the values to start from; `does`: how they have to differ.
pub(super) fn set_limit(limit: &str, now: Value, does: &'static str) -> OperatorMove {
    let texts = Texts("set-limit", "set the limit {}", does, "Set the limit");
    let values = now.as_object().into_iter().flatten();
    let set = values.filter(|(_, value)| !value.is_null());
    // With the values of now it would end nothing.
    let asks = set.map(|(name, _)| name.clone()).collect();
    OperatorMove {
        asks,
        ..call(&texts, &SetLimit::ABOUT, &[limit], Some(now), limit)
    }
}

pub(super) fn reset_limit(limit: &str) -> OperatorMove {
    call(
        &gates::RESET,
        &ResetLimit::ABOUT,
        &[limit],
        Some(json!({})),
        limit,
    )
}

pub(super) fn close_breaker(breaker: &str) -> OperatorMove {
    call(
        &gates::CLOSE,
        &CloseBreaker::ABOUT,
        &[breaker],
        Some(json!({})),
        breaker,
    )
}

/// A task that another one waits for.
pub(super) fn cancel_first(task: TaskId) -> OperatorMove {
    call(
        &gates::CANCEL_FIRST,
        &CancelTask::ABOUT,
        &[&task.to_string()],
        None,
        "",
    )
}

/// The move of the table, where losses that no row counts yet hold the task back.
pub(super) fn recount(record: &TaskRecord) -> OperatorMove {
    let of = Standing {
        record,
        task_type: None,
        again: None,
    };
    RECOUNT.of(&of, None)
}

/// A process that takes the task. `queue`: its own, without the lane.
pub(super) fn another_process(record: &TaskRecord, queue: &str) -> OperatorMove {
    let task = &record.task;
    let words = match task.host {
        Host::Api => "api".to_owned(),
        Host::Worker => format!(
            "worker --queues {queue} --task-types {}@{}",
            task.task_type, task.version
        ),
    };
    command(
        "start-process",
        words,
        "start another process",
        "starts another process that takes it: start it as you start the others",
    )
}

pub(super) fn reconcile(does: &'static str) -> OperatorMove {
    command(
        "reconcile",
        "reconciler --once".to_owned(),
        "run a pass of the reconciler",
        does,
    )
}

/// `of`: the processes whose rights are checked.
pub(super) fn doctor(of: Option<Host>, does: &'static str) -> OperatorMove {
    let words = match of {
        Some(host) => format!("doctor --role {}", host.as_str()),
        None => "doctor".to_owned(),
    };
    command("doctor", words, "check the servers", does)
}
