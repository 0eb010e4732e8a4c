//! How a case is written down.

use crate::admission::gate::{Gate, Hold};
use crate::cancel::CancelReason;
use crate::draft::{Draft, NewTask};
use crate::error::{StepError, StepResult};
use crate::plan::{Answers, Children, Decision, Facts, Room, View, decide};
use crate::record::{ChildrenRow, DbTime, ProbeRow, SignalRow, StepRow, TaskRecord};
use crate::task::Probe;
use crate::waits::Wait;
use counterstep_contracts::declaration::{FallbackDecl, InputDecl, NamedPolicy};
use counterstep_contracts::retry::parse_duration;
use counterstep_contracts::{
    AuditSeq, FlowDecl, Host, Labels, OnExhausted, OnLost, OnProbeFailure, OnUndoFailure,
    RetryPolicy, StepDecl, StepKind, StepNo, StepStatus, TaskDecl, TaskId, TaskStatus, Tenant,
    UndoDecl, WaitDecl, WhenCutOff,
};
use counterstep_steps::ChildOutcome;
use serde_json::{Value, json};
use std::time::Duration;

/// The task of all cases.
const CASE: TaskId = TaskId(uuid::Uuid::nil());

/// The database's time in all cases.
pub(super) const NOW: DbTime = DbTime(1_000_000_000);

pub(super) fn duration(text: &str) -> Duration {
    parse_duration(text).expect("a duration")
}

pub(super) fn later(text: &str) -> DbTime {
    NOW.later(duration(text))
}

/// A step of a case: its declaration and its row. A step of worker hosts that has an undo and has
/// not started, unless it says otherwise.
#[derive(Clone)]
pub(super) struct Step {
    pub(super) decl: StepDecl,
    pub(super) row: StepRow,
}

pub(super) fn step(name: &'static str) -> Step {
    let policy = NamedPolicy {
        name: "none",
        policy: RetryPolicy::NONE,
    };
    Step {
        decl: StepDecl {
            no: StepNo(0),
            name,
            host: Host::Worker,
            kind: StepKind::Custom,
            inputs: &[],
            output: "Value",
            retry: policy,
            breaker: None,
            limit: None,
            undo: UndoDecl::Function { name: "undo" },
            undo_retry: policy,
            on_exhausted: OnExhausted::Compensate,
            timeout: None,
            group: None,
            heavy: false,
            heartbeat: None,
            scratch: None,
            isolate: None,
            when_cut_off: WhenCutOff::Stop,
            when: None,
            when_inputs: &[],
            waits: None,
            fallback: None,
            probe: None,
            probe_retry: None,
            on_probe_failure: OnProbeFailure::Park,
        },
        row: StepRow::pending(StepNo(0), name),
    }
}

/// A step with this state; of those that have started, the later ones started later.
pub(super) fn step_is(name: &'static str, status: StepStatus) -> Step {
    step(name).is(status)
}

impl Step {
    pub(super) fn is(mut self, status: StepStatus) -> Self {
        self.row.status = status;
        let started = !matches!(status, StepStatus::Pending | StepStatus::Skipped);
        self.row.started_seq = started.then_some(AuditSeq(0));
        let open = [StepStatus::Running, StepStatus::Compensating];
        self.row.attempt_open = open.contains(&status);
        if status == StepStatus::Completed {
            self.row.output = Some(json!("output"));
        }
        self
    }
    pub(super) fn on(mut self, host: Host) -> Self {
        self.decl.host = host;
        self
    }
    pub(super) fn group(mut self) -> Self {
        self.decl.group = Some("group");
        self
    }
    pub(super) fn heavy(mut self) -> Self {
        self.decl.heavy = true;
        self
    }
    pub(super) fn undo(mut self, undo: UndoDecl) -> Self {
        self.decl.undo = undo;
        self
    }
    pub(super) fn on_exhausted(mut self, policy: OnExhausted) -> Self {
        self.decl.on_exhausted = policy;
        self
    }
    pub(super) fn conditional(mut self) -> Self {
        self.decl.when = Some("when");
        self
    }
    /// It is skipped by what this source gave.
    pub(super) fn conditional_on(mut self, source: &'static str) -> Self {
        self.decl.when_inputs = Box::leak(Box::new([InputDecl {
            name: source,
            source,
            ty: "Value",
        }]));
        self.conditional()
    }
    pub(super) fn probed(mut self) -> Self {
        self.decl.probe = Some("probe");
        self
    }
    pub(super) fn with_fallback(mut self) -> Self {
        self.decl.fallback = Some(FallbackDecl {
            name: "fallback",
            inputs: &[],
        });
        self
    }
    pub(super) fn in_fallback(mut self) -> Self {
        self = self.with_fallback();
        self.row.in_fallback = true;
        self
    }
    pub(super) fn timer(mut self) -> Self {
        self.decl.waits = Some(WaitDecl::Timer);
        self
    }
    pub(super) fn signal(mut self, optional: bool) -> Self {
        self.decl.waits = Some(WaitDecl::Signal { optional });
        self
    }
    /// It submits tasks, which are undone with it.
    pub(super) fn tasks(mut self) -> Self {
        self.decl.waits = Some(WaitDecl::Tasks { of: Some("Child") });
        self.undo(UndoDecl::BuiltIn)
    }
    pub(super) fn started(mut self, started: u32, seen: u32) -> Self {
        self.row.children = Some(ChildrenRow {
            started,
            seen,
            ..ChildrenRow::default()
        });
        self.row.attempt_open = false;
        self
    }
    pub(super) fn missed(mut self, missed: u32) -> Self {
        if let Some(children) = &mut self.row.children {
            children.missed = missed;
        }
        self
    }
    pub(super) fn signalled(mut self, body: Value) -> Self {
        self.row.signal = Some(SignalRow {
            body,
            actor: "a client".to_owned(),
            at: NOW,
        });
        self
    }
    pub(super) fn reads(mut self, source: &'static str) -> Self {
        self.decl.inputs = Box::leak(Box::new([InputDecl {
            name: source,
            source,
            ty: "Value",
        }]));
        self
    }
    pub(super) fn made_scratch(mut self) -> Self {
        let file = json!({
            "name": "a.bin", "size_bytes": 3, "sha256": "0".repeat(64), "task": CASE, "step": self.row.name,
        });
        self.row.output = Some(json!({"$scratch": file}));
        self
    }
    pub(super) fn due(mut self, at: DbTime) -> Self {
        self.row.due_at = Some(at);
        self
    }
    pub(super) fn error(mut self, error: &StepError) -> Self {
        self.row.error = Some(error.into());
        self
    }
    /// Between two attempts of its undo.
    pub(super) fn at_rest(mut self) -> Self {
        self.row.attempt_open = false;
        self
    }
    /// An attempt that makes its scratch again is under way.
    pub(super) fn rebuilding(mut self) -> Self {
        self.row.attempt_open = true;
        self
    }
}

/// A task as it stands, and what its host knows.
#[derive(Clone)]
pub(super) struct Case {
    decl: &'static TaskDecl,
    pub(super) record: TaskRecord,
    host: Host,
    facts: Facts,
    answers: Answers,
}

/// A running task of these steps, on a worker.
pub(super) fn task<const N: usize>(steps: [Step; N]) -> Case {
    let (mut decls, mut rows) = (Vec::new(), Vec::new());
    for (at, mut step) in steps.into_iter().enumerate() {
        let no = StepNo(i32::try_from(at).expect("few steps") + 1);
        (step.decl.no, step.row.no) = (no, no);
        let started = step.row.started_seq.is_some();
        step.row.started_seq = started.then_some(AuditSeq(i64::from(no.0)));
        decls.push(step.decl);
        rows.push(step.row);
    }
    let decl: &'static TaskDecl = Box::leak(Box::new(TaskDecl {
        name: "Case",
        version: 1,
        queue: "cases",
        timeout: None,
        lease: None,
        max_recoveries: 3,
        on_lost: OnLost::Requeue,
        cancellable: true,
        on_undo_failure: OnUndoFailure::Stop,
        auto_disable: None,
        labels: &[],
        flow: FlowDecl::FREE,
        steps: decls.leak(),
        request: "Value",
        response: "Value",
    }));
    let new = NewTask {
        parent: None,
        webhook: None,
        id: CASE,
        tenant: Tenant::default(),
        request: Value::Null,
        client_key: None,
        traceparent: None,
        labels: Labels::new(),
        place_key: None,
    };
    let mut record = Draft::of_submission(decl, new, "a client").record().clone();
    record.task.status = TaskStatus::Running;
    record.steps = rows;
    record.now = NOW;
    Case {
        decl,
        record,
        host: Host::Worker,
        facts: Facts::default(),
        answers: Answers::default(),
    }
}

/// A task of these steps that is being undone.
pub(super) fn undone<const N: usize>(steps: [Step; N]) -> Case {
    task(steps).is(TaskStatus::Compensating)
}

impl Case {
    pub(super) fn is(mut self, status: TaskStatus) -> Self {
        self.record.task.status = status;
        self
    }
    pub(super) fn cancelled(mut self) -> Self {
        self.record.task.cancel_requested_at = Some(NOW);
        self
    }
    pub(super) fn deadline(mut self, at: DbTime) -> Self {
        self.record.task.deadline_at = Some(at);
        self
    }
    pub(super) fn draining(mut self) -> Self {
        self.facts.draining = true;
        self
    }
    pub(super) fn stopping(mut self) -> Self {
        self.facts.stopping = true;
        self.interrupted(CancelReason::Shutdown)
    }
    pub(super) fn interrupted(mut self, reason: CancelReason) -> Self {
        self.facts.interrupted = Some(reason);
        self
    }
    pub(super) fn lost(mut self, at: usize) -> Self {
        self.facts.lost_scratch.insert(at);
        self
    }
    pub(super) fn held_back(mut self, at: usize, left: &str) -> Self {
        let gate = Gate::Breaker(format!("breaker {at}"));
        let left = duration(left);
        self.facts.held_back.insert(at, Hold { gate, left });
        self
    }
    pub(super) fn asking(mut self, at: usize) -> Self {
        self.facts.probes.asked.insert(at);
        self
    }
    pub(super) fn found(mut self, at: usize, found: Probe<Value>) -> Self {
        let attempt = self.record.steps[at].attempts;
        self.facts.probes.found.insert(at, (attempt, found));
        self
    }
    pub(super) fn attempt(mut self, at: usize, attempt: i32) -> Self {
        self.record.steps[at].attempts.0 = attempt;
        self
    }
    /// Its probe is tried again after this long; `None`: it gave up.
    pub(super) fn probe_failed(mut self, at: usize, left: Option<&str>) -> Self {
        let row = &mut self.record.steps[at];
        row.probe = Some(ProbeRow {
            retries_used: 1,
            gave_up: left.is_none(),
        });
        row.due_at = left.map(|left| NOW.later(duration(left)));
        self
    }
    pub(super) fn condition(mut self, at: usize, holds: StepResult<bool>) -> Self {
        self.answers.conditions.insert(at, holds);
        self
    }
    pub(super) fn children(mut self, at: usize, completed: u32, failed: u32) -> Self {
        let children = Children {
            completed,
            failed,
            ..Children::default()
        };
        self.facts.children.insert(at, children);
        self
    }
    pub(super) fn ended(mut self, at: usize, outcomes: Vec<ChildOutcome<Value>>) -> Self {
        if let Some(children) = self.facts.children.get_mut(&at) {
            children.outcomes = Some(outcomes);
        }
        self
    }
    /// The children of a step whose task was retried: how many `places` have a task, and how many tasks were
    /// `replaced`.
    pub(super) fn retried(mut self, at: usize, places: u32, replaced: u32, again: &[u32]) -> Self {
        if let Some(children) = self.facts.children.get_mut(&at) {
            (children.places, children.replaced) = (places, replaced);
            children.again = again.to_vec();
        }
        self
    }
    pub(super) fn unseen(mut self, at: usize) -> Self {
        self.facts.unseen_children.insert(at);
        self
    }
    pub(super) fn unreadable(mut self, at: usize, why: &str) -> Self {
        self.facts.unreadable_children.insert(at, why.to_owned());
        self.unseen(at)
    }
    pub(super) fn stopped(mut self, at: usize) -> Self {
        self.facts.stopped_children.insert(at);
        self
    }
    pub(super) fn wait(mut self, at: usize, wait: StepResult<Wait>) -> Self {
        self.answers.waits.insert(at, wait);
        self
    }
    pub(super) fn room(mut self, steps: usize) -> Self {
        self.answers.room = Some(Room {
            steps,
            stuck: false,
        });
        self
    }
    pub(super) fn stuck(mut self) -> Self {
        self.answers.room = Some(Room {
            steps: 0,
            stuck: true,
        });
        self
    }
    pub(super) fn rebuild_delayed(mut self, at: usize, left: &str) -> Self {
        self.facts.delayed_rebuilds.insert(at, duration(left));
        self
    }
    pub(super) fn undo_delayed(mut self, at: usize, left: &str) -> Self {
        self.facts.delayed_undos.insert(at, duration(left));
        self
    }
    /// An undo that gave up does not stop the others.
    pub(super) fn going_on(mut self) -> Self {
        self.decl = Box::leak(Box::new(TaskDecl {
            on_undo_failure: OnUndoFailure::Continue,
            ..*self.decl
        }));
        self
    }
    pub(super) fn decl(&self) -> &'static TaskDecl {
        self.decl
    }
    pub(super) fn decision(&self) -> Decision {
        decide(&View {
            decl: self.decl,
            record: &self.record,
            host: self.host,
            facts: &self.facts,
            answers: &self.answers,
        })
    }
}

/// Compares all cases of a table, and names those that differ.
pub(super) fn table(cases: Vec<(&str, Case, Decision)>) {
    let differ: Vec<String> = cases
        .into_iter()
        .filter_map(|(text, case, expected)| {
            let decided = case.decision();
            (decided != expected)
                .then(|| format!("{text}:\n  decided  {decided:?}\n  expected {expected:?}"))
        })
        .collect();
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

pub(super) fn start<const N: usize>(steps: [usize; N]) -> Decision {
    Decision::Start {
        steps: steps.to_vec(),
        wants_room: false,
    }
}

pub(super) const HOLD: Decision = Decision::Hold { wants_room: false };

pub(super) fn broken() -> StepError {
    StepError::permanent("broken")
}
