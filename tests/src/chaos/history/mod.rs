//! What clients of a chaos run have asked and seen of a task, and what in it no task can show that changes by the judge's table alone.
//! Calls nothing: tests hand it a history that breaks a rule.

mod table;
#[cfg(test)]
mod tests;

use crate::rows::Known;
use counterstep_contracts::http::TaskView;
use counterstep_contracts::{ProblemCode, StepStatus, TaskStatus};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::AddAssign;
use std::time::Duration;

/// What a client asks of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Submit,
    Read,
    Cancel,
    /// That it goes on, as an operator does with a parked one.
    Retry,
}

/// What comes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Got {
    Shown(Shown),
    /// A change was accepted. The state is the one that the answer names.
    Accepted(Option<TaskStatus>),
    Refused(ProblemCode),
    /// No answer, or one that leaves open whether something changed.
    Open,
}

/// A task as a read shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) revision: i64,
    pub(super) status: TaskStatus,
    pub(super) cancel_requested: bool,
    pub(super) steps: Vec<StepStatus>,
}

impl From<&TaskView> for Shown {
    fn from(view: &TaskView) -> Self {
        Self {
            revision: view.revision,
            status: view.status,
            cancel_requested: view.cancel_requested,
            steps: view.steps.iter().map(|step| step.status).collect(),
        }
    }
}

/// A call and its answer. Times are since the begin of the run, by the one monotonic clock of all its clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) began: Duration,
    pub(super) ended: Duration,
    /// Number of the API process.
    pub(super) api: usize,
    pub(super) asked: Asked,
    pub(super) got: Got,
}

impl Call {
    fn is_before(&self, other: &Self) -> bool {
        self.ended < other.began
    }

    fn shown(&self) -> Option<&Shown> {
        match &self.got {
            Got::Shown(shown) => Some(shown),
            _ => None,
        }
    }

    fn status(&self) -> Option<TaskStatus> {
        match &self.got {
            Got::Shown(shown) => Some(shown.status),
            Got::Accepted(status) => *status,
            Got::Refused(ProblemCode::AlreadyCompleted) => Some(TaskStatus::Completed),
            Got::Refused(_) | Got::Open => None,
        }
    }

    fn is(&self, asked: Asked, got: impl Fn(&Got) -> bool) -> bool {
        self.asked == asked && got(&self.got)
    }

    fn finds_no_task(&self) -> bool {
        self.got == Got::Refused(ProblemCode::NoSuchTask)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (began, ended) = (self.began.as_secs_f64(), self.ended.as_secs_f64());
        let asked = format!("{:?}", self.asked).to_lowercase();
        let api = self.api;
        write!(f, "{began:>9.3} to {ended:>9.3} s  API {api}  {asked}: ")?;
        match &self.got {
            Got::Shown(shown) => {
                write!(f, "revision {}, {}", shown.revision, shown.status)?;
                if shown.cancel_requested {
                    f.write_str(", cancel requested")?;
                }
                f.write_str("; steps")?;
                shown.steps.iter().try_for_each(|step| write!(f, " {step}"))
            }
            Got::Accepted(Some(status)) => write!(f, "accepted, {status}"),
            Got::Accepted(None) => f.write_str("accepted"),
            Got::Refused(code) => write!(f, "refused, {}", code.as_str()),
            Got::Open => f.write_str("no answer that decides"),
        }
    }
}

/// What the journal of a task has in the end.
#[derive(Debug, Clone, Default)]
pub(super) struct Journal {
    /// Its state by revision.
    pub(super) states: BTreeMap<i64, TaskStatus>,
    /// Names of its events.
    pub(super) events: BTreeSet<String>,
}

impl From<&Known> for Journal {
    fn from(known: &Known) -> Self {
        let audit = &known.history.audit;
        let mut states = BTreeMap::new();
        let mut status = None;
        for (revision, change) in &known.history.changes {
            let last = audit.iter().rfind(|row| row.change_id == *change);
            status = last.map(|row| row.entry.to).or(status);
            states.extend(status.map(|status| (revision.0, status)));
        }
        let events = audit.iter().map(|row| row.entry.event.clone()).collect();
        Self { states, events }
    }
}

/// What the docs except.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Excepted {
    /// An API process that may use a PostgreSQL primary after its standby was promoted: what is read from it is old
    /// (`docs/operations.md`, PostgreSQL with a standby).
    pub(super) left_behind: Option<usize>,
    /// Time after its end from which on retention may have deleted a task (`docs/operations.md`, Retention).
    pub(super) deleted_after: Option<Duration>,
}

/// How much was compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compared {
    /// Tasks with a history.
    pub tasks: usize,
    /// Reads that showed a task.
    pub reads: usize,
    /// Pairs of reads of one task of which the second began after the first had ended.
    pub pairs: usize,
    /// Changes that were accepted.
    pub accepted: usize,
    /// Changes that were refused, submissions among them.
    pub refused: usize,
}

impl AddAssign for Compared {
    fn add_assign(&mut self, other: Self) {
        self.tasks += other.tasks;
        self.reads += other.reads;
        self.pairs += other.pairs;
        self.accepted += other.accepted;
        self.refused += other.refused;
    }
}

/// What in the history of a task contradicts itself or the journal: of each rule the first pair.
pub(super) fn contradictions(
    calls: &[Call],
    journal: Option<&Journal>,
    excepted: Excepted,
) -> Vec<String> {
    let history = History {
        calls,
        journal,
        excepted,
    };
    let mut found = Vec::new();
    found.extend(history.older_revision());
    found.extend(history.forgotten());
    found.extend(history.no_path());
    found.extend(history.not_as_written());
    found.extend(history.trace_of_refused());
    found
}

/// How much of a history there was to compare.
pub(super) fn compared(calls: &[Call]) -> Compared {
    let reads: Vec<&Call> = calls.iter().filter(|it| it.shown().is_some()).collect();
    let later = |first: &&Call| reads.iter().filter(|it| first.is_before(it)).count();
    let changes = || calls.iter().filter(|it| it.asked != Asked::Read);
    Compared {
        tasks: 1,
        reads: reads.len(),
        pairs: reads.iter().map(later).sum(),
        accepted: changes()
            .filter(|it| matches!(it.got, Got::Accepted(_)))
            .count(),
        refused: changes()
            .filter(|it| matches!(it.got, Got::Refused(_)))
            .count(),
    }
}

const NO_PATH: &str = "the judge's table has no path between two states";

struct History<'a> {
    calls: &'a [Call],
    journal: Option<&'a Journal>,
    excepted: Excepted,
}

impl<'a> History<'a> {
    /// All pairs of calls of which the second began after the first had ended.
    fn in_order(&self) -> impl Iterator<Item = (&'a Call, &'a Call)> {
        let calls = self.calls;
        calls.iter().flat_map(move |first| {
            let later = calls.iter().filter(move |it| first.is_before(it));
            later.map(move |second| (first, second))
        })
    }

    fn is_left_behind(&self, call: &Call) -> bool {
        self.excepted.left_behind == Some(call.api)
    }

    /// (a) A read that begins after another one ended never shows an older revision.
    fn older_revision(&self) -> Option<String> {
        let mut pairs = self.in_order();
        let older = pairs.find(|(first, second)| match (first.shown(), second.shown()) {
            (Some(first), Some(now)) => {
                now.revision < first.revision && !self.is_left_behind(second)
            }
            _ => false,
        });
        Some(pair("a later read shows an older revision", older?))
    }

    /// (b) What was acknowledged is in each later read.
    fn forgotten(&self) -> Option<String> {
        let pairs = self.in_order();
        let is_look = |it: &Call| it.asked == Asked::Read || it.finds_no_task();
        let mut reads = pairs.filter(|(_, it)| is_look(it) && !self.is_left_behind(it));
        let forgotten = reads.find(|(first, read)| {
            let accepted = |asked| first.is(asked, |got| matches!(got, Got::Accepted(_)));
            if read.finds_no_task() {
                return first.status().is_some() && !self.may_be_deleted(read);
            }
            let Some(shown) = read.shown() else {
                return false;
            };
            let completed = shown.status == TaskStatus::Completed;
            if accepted(Asked::Cancel) {
                return !shown.cancel_requested || completed;
            }
            let had_completed = Got::Refused(ProblemCode::AlreadyCompleted);
            first.is(Asked::Cancel, |got| *got == had_completed) && !completed
        });
        let what = "a later read does not have what was acknowledged";
        Some(pair(what, forgotten?))
    }

    /// Whether retention may have deleted it by the end of this call. It may have ended as soon as the last look that showed it
    /// going on had begun.
    fn may_be_deleted(&self, call: &Call) -> bool {
        let Some(after) = self.excepted.deleted_after else {
            return false;
        };
        let goes_on =
            |it: &&Call| it.is_before(call) && it.status().is_some_and(|it| !it.is_terminal());
        let ended = self
            .calls
            .iter()
            .filter(goes_on)
            .map(|it| it.began)
            .max()
            .unwrap_or_default();
        call.ended >= ended + after
    }

    /// (c) Between two states that were seen there is a path in the judge's table. Of two reads the one with the higher revision
    /// shows the later state, whichever came first; two of one revision show the same.
    fn no_path(&self) -> Option<String> {
        let shown = self.calls.iter().filter(|it| it.shown().is_some());
        let mut shown: Vec<&Call> = shown.collect();
        shown.sort_by_key(|it| it.shown().map(|it| it.revision));
        let (task, step) = (table::of_task(), table::of_step());
        for pair_of in shown.windows(2) {
            let (first, second) = (pair_of[0], pair_of[1]);
            let Some((then, now)) = first.shown().zip(second.shown()) else {
                continue;
            };
            if then.revision == now.revision && then != now {
                let what = "one revision was shown in two ways";
                return Some(pair(what, (first, second)));
            }
            let mut steps = then.steps.iter().zip(&now.steps);
            let leads = task.leads(then.status, now.status)
                && then.steps.len() == now.steps.len()
                && steps.all(|(then, now)| step.leads(*then, *now));
            if !leads {
                return Some(pair(NO_PATH, (first, second)));
            }
        }
        // Answers without a revision are ordered by time.
        let without = self.in_order().find(|(first, second)| {
            let is_ordered = first.shown().is_none() || second.shown().is_none();
            let states = first.status().zip(second.status());
            is_ordered
                && !self.is_left_behind(second)
                && !is_repeated(second)
                && states.is_some_and(|(then, now)| !task.leads(then, now))
        });
        Some(pair(NO_PATH, without?))
    }

    /// (c) too: a state that was shown is the one that the journal has at its revision.
    fn not_as_written(&self) -> Option<String> {
        let journal = self.journal?;
        let wrong = self.calls.iter().find_map(|call| {
            let shown = call.shown()?;
            let written = journal.states.get(&shown.revision);
            (written != Some(&shown.status)).then_some((call, written))
        });
        let (call, written) = wrong?;
        let written = written.map_or("no such revision".to_owned(), |it| it.to_string());
        Some(format!(
            "a read shows what was not written\n      {call}\n      the journal: {written}"
        ))
    }

    /// (d) A refused change left no trace: neither in a read nor in the journal.
    fn trace_of_refused(&self) -> Option<String> {
        for asked in [Asked::Cancel, Asked::Retry] {
            let of_kind = || self.calls.iter().filter(move |it| it.asked == asked);
            let may_have_changed = |it: &Call| matches!(it.got, Got::Accepted(_) | Got::Open);
            let mut refused = of_kind().filter(|it| matches!(it.got, Got::Refused(_)));
            let Some(refused) = refused.next().filter(|_| !of_kind().any(may_have_changed)) else {
                continue;
            };
            let what = "a refused change has left a trace";
            let seen = |it: &&Call| it.shown().is_some_and(|it| it.cancel_requested);
            if asked == Asked::Cancel
                && let Some(read) = self.calls.iter().find(seen)
            {
                return Some(pair(what, (refused, read)));
            }
            let mut events = self.journal?.events.iter();
            if let Some(event) = events.find(|event| is_trace(asked, event)) {
                return Some(format!(
                    "{what}\n      {refused}\n      the journal: {event}"
                ));
            }
        }
        None
    }
}

/// An answer that repeats the first one of its key names the state of then (`docs/http.md`, Idempotency).
fn is_repeated(call: &Call) -> bool {
    call.asked == Asked::Submit
}

/// Whether an event of the journal can come of such a change alone.
fn is_trace(asked: Asked, event: &str) -> bool {
    match asked {
        Asked::Cancel => event == "cancel_requested",
        Asked::Retry => event.starts_with("operator_"),
        Asked::Submit | Asked::Read => false,
    }
}

fn pair(what: &str, (first, second): (&Call, &Call)) -> String {
    format!("{what}\n      {first}\n      {second}")
}
