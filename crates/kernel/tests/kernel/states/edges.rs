//! Which edges the judge has, found by asking it everything. Knows no rule of its own: what an edge
//! depends on is worked out from the answers.

use super::super::space::{Case, cases};
use counterstep_contracts::{StepStatus, TaskStatus};
use counterstep_kernel::saga::{Event, LifecycleEvent, Ruling};
use std::collections::{BTreeMap, BTreeSet};

/// An edge, and all that it takes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct Edge<S> {
    /// `None`: from nothing.
    pub(in super::super) from: Option<S>,
    pub(in super::super) to: S,
    pub(in super::super) event: String,
    /// The task's states in which it is legal: of use for the edges of a step.
    pub(in super::super) tasks: BTreeSet<Option<TaskStatus>>,
    /// What must hold besides.
    pub(in super::super) when: Vec<&'static str>,
}

/// Something that can be true of a case.
struct Fact {
    yes: &'static str,
    no: &'static str,
    holds: fn(&Case) -> bool,
}

/// The telling ones first: of two that say the same, the first is kept.
const OF_A_TASK: &[Fact] = &[
    Fact {
        yes: "another task has submitted it",
        no: "no task has submitted it",
        holds: |case| case.is_child,
    },
    Fact {
        yes: "a cancel was accepted",
        no: "no cancel was accepted",
        holds: |case| case.cancel_requested,
    },
    Fact {
        yes: "every step is completed or skipped",
        no: "a step is neither completed nor skipped",
        holds: |case| {
            case.steps
                .iter()
                .all(|s| matches!(s.status, StepStatus::Completed | StepStatus::Skipped))
        },
    },
    Fact {
        yes: "something is to be undone",
        no: "nothing is to be undone",
        holds: |case| case.state().has_effects(),
    },
    Fact {
        yes: "the undo of a step has failed",
        no: "no undo has failed",
        holds: |case| case.any_step(StepStatus::CompensationFailed),
    },
    Fact {
        yes: "a step is failed",
        no: "no step is failed",
        holds: |case| case.any_step(StepStatus::Failed),
    },
    Fact {
        yes: "a step is running",
        no: "no step is running",
        holds: |case| case.any_step(StepStatus::Running),
    },
];

const OF_A_STEP: &[Fact] = &[
    Fact {
        yes: "a cancel was accepted",
        no: "no cancel was accepted",
        holds: |case| case.cancel_requested,
    },
    Fact {
        yes: "it has effects",
        no: "it has no effects",
        holds: |case| case.steps[0].effects,
    },
    Fact {
        yes: "it has started before",
        no: "it never started",
        holds: |case| case.steps[0].started,
    },
];

/// The event's name in the audit, with what it carries where that decides.
pub(super) fn label(event: Event) -> String {
    match event {
        Event::Task(LifecycleEvent::GaveUp(policy)) => format!("{} ({policy})", event.name()),
        _ => event.name().to_owned(),
    }
}

/// Every edge of a task.
pub(in super::super) fn task_edges() -> Vec<Edge<TaskStatus>> {
    collect(
        |event| event.step().is_none(),
        OF_A_TASK,
        |case| Some(case.status),
        |ruling| Some(ruling.task),
    )
}

/// Every edge of a step.
pub(in super::super) fn step_edges() -> Vec<Edge<StepStatus>> {
    let from = |case: &Case| case.steps.first().map(|step| Some(step.status));
    collect(
        |event| event.step().is_some(),
        OF_A_STEP,
        from,
        |ruling| ruling.step.map(|(_, to)| to),
    )
}

fn collect<S: Ord + Copy>(
    concerns: impl Fn(Event) -> bool,
    facts: &'static [Fact],
    from: impl Fn(&Case) -> Option<Option<S>>,
    to: impl Fn(Ruling) -> Option<S>,
) -> Vec<Edge<S>> {
    let cases = cases();
    let mut legal: BTreeMap<(Option<S>, S, String), BTreeSet<usize>> = BTreeMap::new();
    for event in Event::samples()
        .into_iter()
        .filter(|event| concerns(*event))
    {
        for (at, case) in cases.iter().enumerate() {
            let Some(from) = from(case) else { continue };
            if let Some(to) = case.judge(event).ok().and_then(&to) {
                legal
                    .entry((from, to, label(event)))
                    .or_default()
                    .insert(at);
            }
        }
    }
    let edge = |((stands, to, event), legal): ((Option<S>, S, String), BTreeSet<usize>)| {
        let tasks: BTreeSet<_> = legal.iter().map(|at| cases[*at].status).collect();
        let asked: Vec<&Case> = cases
            .iter()
            .filter(|case| from(case) == Some(stands) && tasks.contains(&case.status))
            .collect();
        let legal: Vec<&Case> = legal.iter().map(|at| &cases[*at]).collect();
        let when = conditions(&legal, &asked, facts);
        Edge {
            from: stands,
            to,
            event,
            tasks,
            when,
        }
    };
    legal.into_iter().map(edge).collect()
}

/// The fewest facts that tell the legal cases from the others. Panics when the facts do not
/// suffice: the page would keep a condition from its reader.
fn conditions(legal: &[&Case], asked: &[&Case], facts: &'static [Fact]) -> Vec<&'static str> {
    let constant = |fact: &'static Fact| {
        let first = (fact.holds)(legal[0]);
        legal
            .iter()
            .all(|case| (fact.holds)(case) == first)
            .then_some((fact, first))
    };
    let mut needed: Vec<(&Fact, bool)> = facts.iter().filter_map(constant).collect();
    let fitting = |needed: &[(&Fact, bool)]| {
        asked
            .iter()
            .filter(|case| {
                needed
                    .iter()
                    .all(|(fact, value)| (fact.holds)(case) == *value)
            })
            .count()
    };
    let whole = fitting(&needed);
    assert_eq!(
        whole,
        legal.len(),
        "the judge looks at something that is no `Fact` here yet"
    );
    for at in (0..needed.len()).rev() {
        let dropped = needed.remove(at);
        if fitting(&needed) != whole {
            needed.insert(at, dropped);
        }
    }
    needed
        .iter()
        .map(|(fact, value)| if *value { fact.yes } else { fact.no })
        .collect()
}
