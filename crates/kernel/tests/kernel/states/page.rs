//! The page itself: Markdown and Mermaid from edges.

use super::edges::{Edge, label, step_edges, task_edges};
use super::meaning;
use crate::kernel::space::cases;
use counterstep_contracts::{StepStatus, TaskStatus};
use counterstep_kernel::saga::{Event, LifecycleEvent};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Write};

const HEAD: &str = "\
# States

After this page you can say what each state of a task and of a step means, and which event leads to which.

An edge that is not on this page is refused. *Terminal*: no event leaves the state, but one:
a completed task that another one has submitted is undone with it. *Parked*: only a person's decision
does. *With effects*: a step that is neither pure nor waived. *To be undone*: with effects, started, and neither undone
nor settled. Events have the [names](#events) that the audit gives them; in brackets stands the `on_exhausted` of the step, which the audit
leaves out. What a person decides may be several events of one change: before `operator_retried_undo` stands `undo_redriven` for each undo
that has failed, before `operator_redrove` `step_redriven` or `step_supplied`.
";

const LAST: &str = "\
## Where this comes from

A test, `crates/kernel/tests/kernel/states.rs`, asks the function that allows and refuses events, the judge
(`crates/kernel/src/saga/mod.rs`), about every state and every event, and writes this page. Do not edit it: change the judge, and then run
`COUNTERSTEP_BLESS=1 cargo test -p counterstep-kernel --test kernel page_of_states`.
";

/// What each event means, as its source says.
fn events() -> String {
    let mut meanings: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for event in Event::samples() {
        let (of, event_itself) = match event {
            Event::Task(LifecycleEvent::Operator(decided)) => ("Operator", format!("{decided:?}")),
            Event::Task(event) => ("LifecycleEvent", format!("{event:?}")),
            Event::Step(_, event) => ("StepEvent", format!("{event:?}")),
        };
        let variant = event_itself.split(['(', ' ']).next().unwrap_or_default();
        let meaning = documentation(of, variant);
        meanings.entry(event.name()).or_default().insert(meaning);
    }
    let mut out = "| event | meaning |\n|---|---|\n".to_owned();
    for (name, meaning) in meanings {
        let meaning: Vec<String> = meaning.into_iter().collect();
        let _ = writeln!(out, "| `{name}` | {} |", meaning.join(" "));
    }
    out
}

fn documentation(of: &str, variant: &str) -> String {
    let source = include_str!("../../../src/saga/event.rs");
    let (_, its) = source
        .split_once(&format!("pub enum {of} {{"))
        .expect("the type");
    let mut lines = Vec::new();
    for line in its.lines().map(str::trim) {
        match line.strip_prefix("/// ") {
            Some(text) => lines.push(text),
            None if line.trim_end_matches([',', '{', ' ']).split('(').next() == Some(variant) => {
                return lines.join(" ");
            }
            None => lines.clear(),
        }
    }
    panic!("{of} has no {variant}");
}

pub(super) fn render() -> String {
    let (tasks, steps) = (task_edges(), step_edges());
    let parts = [
        HEAD.to_owned(),
        format!("## A task\n\n{}", task_meanings()),
        diagram(
            &tasks,
            TaskStatus::ALL,
            |status| status.is_terminal(),
            |status| status.is_parked(),
        ),
        "Edges that lead back to the same state are left out of the diagram; the table has all.\n"
            .to_owned(),
        table(&tasks, false),
        format!("## A step\n\n{}", step_meanings()),
        diagram(&steps, StepStatus::ALL, |_| false, |_| false),
        table(&steps, true),
        format!("## Events\n\n{}", events()),
        format!(
            "## What is refused once a task has ended\n\nOf all combinations of states of a task and of its steps, those too that do not come \
             about.\n\n{}",
            refused()
        ),
        LAST.to_owned(),
    ];
    parts.join("\n")
}

fn task_meanings() -> String {
    let mut out = "| state | | meaning |\n|---|---|---|\n".to_owned();
    for &status in TaskStatus::ALL {
        let kind = match (status.is_terminal(), status.is_parked()) {
            (true, _) => "terminal",
            (_, true) => "parked",
            _ => "",
        };
        let _ = writeln!(
            out,
            "| `{status}` | {kind} | {} |",
            meaning::of_a_task(status)
        );
    }
    out
}

fn step_meanings() -> String {
    let mut out = "| state | meaning |\n|---|---|\n".to_owned();
    for &status in StepStatus::ALL {
        let _ = writeln!(out, "| `{status}` | {} |", meaning::of_a_step(status));
    }
    out
}

fn diagram<S: Ord + Copy + Display>(
    edges: &[Edge<S>],
    all: &[S],
    is_terminal: fn(S) -> bool,
    is_parked: fn(S) -> bool,
) -> String {
    let mut arrows: BTreeMap<(Option<S>, S), BTreeSet<&str>> = BTreeMap::new();
    for edge in edges.iter().filter(|edge| edge.from != Some(edge.to)) {
        arrows
            .entry((edge.from, edge.to))
            .or_default()
            .insert(&edge.event);
    }
    let mut out = "```mermaid\nstateDiagram-v2\n".to_owned();
    for ((from, to), events) in arrows {
        let from = from.map_or("[*]".to_owned(), |from| from.to_string());
        let events: Vec<&str> = events.into_iter().collect();
        let _ = writeln!(out, "    {from} --> {to}: {}", events.join(", "));
    }
    for status in all.iter().filter(|status| is_terminal(**status)) {
        let _ = writeln!(out, "    {status} --> [*]");
    }
    let parked: Vec<String> = all
        .iter()
        .filter(|status| is_parked(**status))
        .map(ToString::to_string)
        .collect();
    if !parked.is_empty() {
        let _ = writeln!(
            out,
            "    classDef parked stroke-dasharray: 4 4\n    class {} parked",
            parked.join(",")
        );
    }
    out + "```\n"
}

fn table<S: Copy + Display>(edges: &[Edge<S>], of_steps: bool) -> String {
    let mut out = if of_steps {
        "| from | event | to | while the task is | only when |\n|---|---|---|---|---|\n".to_owned()
    } else {
        "| from | event | to | only when |\n|---|---|---|---|\n".to_owned()
    };
    for edge in edges {
        let from = edge
            .from
            .map_or("nothing".to_owned(), |from| format!("`{from}`"));
        let _ = write!(out, "| {from} | {} | `{}` | ", edge.event, edge.to);
        if of_steps {
            let tasks: Vec<String> = edge
                .tasks
                .iter()
                .flatten()
                .map(|task| format!("`{task}`"))
                .collect();
            let _ = write!(out, "{} | ", tasks.join(", "));
        }
        let _ = writeln!(out, "{} |", edge.when.join("; "));
    }
    out
}

/// Why each event is refused, for the terminal states together: they differ in what they mean, not
/// in what they allow.
fn refused() -> String {
    let mut reasons: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for case in cases() {
        // Without a step the answer to the events of one would be that there is none, and after a
        // cancel the answer to another would be that there was one.
        if !case.status.is_some_and(TaskStatus::is_terminal)
            || case.cancel_requested
            || case.steps.is_empty()
        {
            continue;
        }
        for event in Event::samples() {
            if let Err(illegal) = case.judge(event) {
                reasons.entry(illegal.why).or_default().insert(label(event));
            }
        }
    }
    let mut out = "| because | events |\n|---|---|\n".to_owned();
    for (why, events) in reasons {
        let events: Vec<String> = events.into_iter().collect();
        let _ = writeln!(out, "| {why} | {} |", events.join(", "));
    }
    out
}
