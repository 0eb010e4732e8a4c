//! Small declarations: what they may be, how they are made by chance, and how they are written down.

use super::small::{Chance, NAMES};
use counterstep_contracts::declaration::{FallbackDecl, InputDecl, NamedPolicy};
use counterstep_contracts::{
    FlowDecl, Host, OnExhausted, OnLost, OnProbeFailure, OnUndoFailure, RetryPolicy, StepDecl,
    StepKind, StepNo, TaskDecl, UndoDecl, WaitDecl, WhenCutOff,
};
use std::fmt;
use std::time::Duration;

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Code,
    /// A call: an attempt may provably not have been sent.
    Call,
    Timer,
    Signal {
        optional: bool,
    },
    /// This number of tasks; `any`: one has to complete, and the others are told to stop then.
    Children {
        count: u32,
        any: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Undo {
    Function,
    Waived,
    Pure,
}

/// What a condition asks: whether a number is even, of the request or of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    Always,
    Request,
    Output(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retry {
    No,
    Soon,
    Late,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StepShape {
    pub(super) kind: Kind,
    pub(super) undo: Undo,
    /// In a group with the step before it.
    pub(super) beside: bool,
    pub(super) when: When,
    pub(super) reads: Option<usize>,
    pub(super) scratch: bool,
    pub(super) fallback: bool,
    pub(super) retry: Retry,
    pub(super) exhausted: OnExhausted,
    pub(super) probe: Option<OnProbeFailure>,
}

/// The plainest step.
pub(super) const PLAIN: StepShape = StepShape {
    kind: Kind::Code,
    undo: Undo::Function,
    beside: false,
    when: When::Always,
    reads: None,
    scratch: false,
    fallback: false,
    retry: Retry::No,
    exhausted: OnExhausted::Compensate,
    probe: None,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) steps: Vec<StepShape>,
    pub(super) on_undo_failure: OnUndoFailure,
    pub(super) on_lost: OnLost,
    pub(super) max_recoveries: u32,
    pub(super) timeout: bool,
    /// Attempts of the last step fail where nothing else is chosen: most rules are about the way back.
    pub(super) fails: bool,
}

impl Shape {
    /// Two to five steps.
    pub(super) fn by(chance: &mut Chance) -> Self {
        let count = 2 + chance.below(4);
        let mut steps = Vec::with_capacity(count);
        for at in 0..count {
            let beside = at > 0 && chance.percent(45);
            let first = if beside { first_beside(&steps) } else { at };
            steps.push(StepShape {
                beside,
                ..step(chance, first)
            });
        }
        let on_undo_failure = if chance.percent(30) {
            OnUndoFailure::Continue
        } else {
            OnUndoFailure::Stop
        };
        let on_lost = if chance.percent(10) {
            OnLost::Fail
        } else {
            OnLost::Requeue
        };
        Self {
            steps,
            on_undo_failure,
            on_lost,
            max_recoveries: if chance.percent(20) { 1 } else { 3 },
            timeout: chance.percent(15),
            fails: chance.percent(60),
        }
    }

    /// The same without a step, and with nothing that refers to it.
    pub(super) fn without(&self, gone: usize) -> Self {
        let earlier = |at: usize| match at.cmp(&gone) {
            std::cmp::Ordering::Less => Some(at),
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => Some(at - 1),
        };
        let mut shape = self.clone();
        let removed = shape.steps.remove(gone);
        for step in &mut shape.steps {
            step.reads = step.reads.and_then(earlier);
            if let When::Output(at) = step.when {
                step.when = earlier(at).map_or(When::Always, When::Output);
            }
        }
        if let Some(next) = shape.steps.get_mut(gone) {
            next.beside &= removed.beside;
        }
        shape
    }

    /// The declaration. It lives as long as the process: the engine knows no other.
    pub(super) fn declare(&self) -> &'static TaskDecl {
        let mut steps: Vec<StepDecl> = Vec::with_capacity(self.steps.len());
        for (at, shape) in self.steps.iter().enumerate() {
            let next_is_beside = self.steps.get(at + 1).is_some_and(|next| next.beside);
            let group = match steps.last().filter(|_| shape.beside) {
                Some(before) => before.group,
                None => next_is_beside.then_some(NAMES[at]),
            };
            steps.push(declared(at, shape, group));
        }
        Box::leak(Box::new(TaskDecl {
            name: "Case",
            version: 1,
            queue: "cases",
            timeout: self.timeout.then_some(Duration::from_secs(90 * 60)),
            lease: None,
            max_recoveries: self.max_recoveries,
            on_lost: self.on_lost,
            cancellable: true,
            on_undo_failure: self.on_undo_failure,
            auto_disable: None,
            labels: &[],
            flow: FlowDecl::FREE,
            steps: steps.leak(),
            request: "u64",
            response: "()",
        }))
    }
}

/// The first step of the group to which the next one is added.
fn first_beside(steps: &[StepShape]) -> usize {
    steps.iter().rposition(|step| !step.beside).unwrap_or(0)
}

/// `first`: only the outputs of steps before this one are there when it starts.
fn step(chance: &mut Chance, first: usize) -> StepShape {
    let kind = match chance.below(20) {
        0..10 => Kind::Code,
        10..13 => Kind::Call,
        13 => Kind::Timer,
        14..16 => Kind::Signal {
            optional: chance.percent(30),
        },
        16 => Kind::Signal { optional: false },
        _ => Kind::Children {
            count: 1 + u32::try_from(chance.below(2)).unwrap_or(0),
            any: chance.percent(50),
        },
    };
    let waits = !matches!(kind, Kind::Code | Kind::Call);
    let undo = match chance.below(10) {
        0..7 => Undo::Function,
        7..9 => Undo::Waived,
        _ if matches!(kind, Kind::Code) => Undo::Pure,
        _ => Undo::Function,
    };
    let when = match chance.below(10) {
        0 => When::Request,
        1 | 2 if first > 0 => When::Output(chance.below(first)),
        _ => When::Always,
    };
    let exhausted = match chance.below(10) {
        0..5 => OnExhausted::DeadLetter,
        5 => OnExhausted::Fail,
        _ => OnExhausted::Compensate,
    };
    let probe = match chance.below(10) {
        0 | 1 if !waits => Some(OnProbeFailure::Park),
        2 if !waits => Some(OnProbeFailure::RunAgain),
        _ => None,
    };
    let retry = match chance.below(5) {
        0 => Retry::Soon,
        1 => Retry::Late,
        _ => Retry::No,
    };
    StepShape {
        kind,
        undo,
        beside: false,
        when,
        reads: (first > 0 && chance.percent(50)).then(|| chance.below(first)),
        scratch: kind == Kind::Code && chance.percent(40),
        fallback: !matches!(kind, Kind::Children { .. }) && chance.percent(30),
        retry,
        exhausted,
        probe,
    }
}

/// What a step reads: one input, by the producer.
static INPUTS: [[InputDecl; 1]; 5] = [
    [input(NAMES[0])],
    [input(NAMES[1])],
    [input(NAMES[2])],
    [input(NAMES[3])],
    [input(NAMES[4])],
];

const fn input(source: &'static str) -> InputDecl {
    InputDecl {
        name: source,
        source,
        ty: "Value",
    }
}

fn declared(at: usize, shape: &StepShape, group: Option<&'static str>) -> StepDecl {
    let policy = match shape.retry {
        Retry::No => RetryPolicy::NONE,
        Retry::Soon => RetryPolicy::constant("10ms").max_retries(1).jitter(false),
        Retry::Late => RetryPolicy::constant("2h").max_retries(1).jitter(false),
    };
    let policy = NamedPolicy {
        name: "policy",
        policy,
    };
    let inputs = shape.reads.map_or(&[][..], |at| &INPUTS[at]);
    let waits = match shape.kind {
        Kind::Code | Kind::Call => None,
        Kind::Timer => Some(WaitDecl::Timer),
        Kind::Signal { optional } => Some(WaitDecl::Signal { optional }),
        Kind::Children { .. } => Some(WaitDecl::Tasks { of: Some("Child") }),
    };
    let undo = match (shape.undo, shape.kind) {
        (Undo::Waived, _) => UndoDecl::Waived { reason: "test" },
        (Undo::Pure, _) => UndoDecl::Pure,
        (Undo::Function, Kind::Children { .. }) => UndoDecl::BuiltIn,
        (Undo::Function, _) => UndoDecl::Function { name: "undo" },
    };
    let is_code = shape.kind == Kind::Code;
    StepDecl {
        no: StepNo(i32::try_from(at).unwrap_or(0) + 1),
        name: NAMES[at],
        host: Host::Worker,
        kind: if is_code {
            StepKind::Custom
        } else {
            StepKind::BuiltIn
        },
        inputs,
        output: "Value",
        retry: policy,
        breaker: None,
        limit: None,
        undo,
        undo_retry: policy,
        on_exhausted: shape.exhausted,
        timeout: None,
        heartbeat: None,
        scratch: None,
        isolate: None,
        group,
        heavy: false,
        when_cut_off: WhenCutOff::Stop,
        when: (shape.when != When::Always).then_some("when"),
        when_inputs: match shape.when {
            When::Output(at) => &INPUTS[at],
            When::Always | When::Request => &[],
        },
        waits,
        fallback: shape.fallback.then_some(FallbackDecl {
            name: "fallback",
            inputs,
        }),
        probe: shape.probe.map(|_| "probe"),
        probe_retry: shape.probe.map(|_| policy),
        on_probe_failure: shape.probe.unwrap_or(OnProbeFailure::Park),
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "  task: on_undo_failure {}", self.on_undo_failure)?;
        write!(
            out,
            ", on_lost {}, max_recoveries {}",
            self.on_lost, self.max_recoveries
        )?;
        if self.timeout {
            write!(out, ", timeout 90m")?;
        }
        if self.fails {
            write!(out, ", its last step fails")?;
        }
        writeln!(out)?;
        for (at, step) in self.steps.iter().enumerate() {
            let name = NAMES[at];
            let beside = if step.beside { " beside it" } else { "" };
            write!(
                out,
                "  {name}{beside}: {:?}, undo {:?}",
                step.kind, step.undo
            )?;
            match step.when {
                When::Always => {}
                When::Request => write!(out, ", when the request is even")?,
                When::Output(of) => write!(out, ", when the output of {} is even", NAMES[of])?,
            }
            if let Some(of) = step.reads {
                write!(out, ", reads {}", NAMES[of])?;
            }
            if step.scratch {
                write!(out, ", makes scratch")?;
            }
            if step.fallback {
                write!(out, ", fallback")?;
            }
            if step.retry != Retry::No {
                write!(out, ", retry {:?}", step.retry)?;
            }
            if let Some(fails) = step.probe {
                write!(out, ", probe (on failure {fails})")?;
            }
            writeln!(out, ", on_exhausted {}", step.exhausted)?;
        }
        Ok(())
    }
}
