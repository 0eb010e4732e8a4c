//! The judge's table, as its page has it: a test of the kernel compares the page with the judge. Decides nothing.

use counterstep_contracts::{StepStatus, TaskStatus};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::str::FromStr;
use std::sync::LazyLock;

const PAGE: &str = include_str!("../../../../docs/states.md");

/// Which state leads to which, over any number of others.
#[derive(Debug)]
pub(super) struct Paths<S>(BTreeSet<(S, S)>);

impl<S: Copy + Ord> Paths<S> {
    /// A change may leave the state as it is.
    pub(super) fn leads(&self, from: S, to: S) -> bool {
        from == to || self.0.contains(&(from, to))
    }

    fn over(mut edges: BTreeSet<(S, S)>) -> Self {
        loop {
            let next = |&(from, over): &(S, S)| {
                let from_there = edges.iter().filter(move |(state, _)| *state == over);
                from_there.map(move |&(_, to)| (from, to))
            };
            let longer: BTreeSet<(S, S)> = edges.iter().flat_map(next).collect();
            let before = edges.len();
            edges.extend(longer);
            if edges.len() == before {
                return Self(edges);
            }
        }
    }
}

/// Of a task that no other one has submitted: a run has no others.
pub(super) fn of_task() -> &'static Paths<TaskStatus> {
    static PATHS: LazyLock<Paths<TaskStatus>> = LazyLock::new(|| Paths::over(edges("## A task")));
    &PATHS
}

/// Of a step.
pub(super) fn of_step() -> &'static Paths<StepStatus> {
    static PATHS: LazyLock<Paths<StepStatus>> = LazyLock::new(|| Paths::over(edges("## A step")));
    &PATHS
}

/// The rows of a chapter: from, event, to, and what must hold besides.
fn edges<S: FromStr + Ord>(chapter: &str) -> BTreeSet<(S, S)> {
    let (_, text) = PAGE.split_once(chapter).expect("a chapter of the page");
    let text = text.split("\n## ").next().unwrap_or_default();
    let edge = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let &[_, from, _, to, .., when, _] = &cells[..] else {
            return None;
        };
        let state = |cell: &str| cell.strip_prefix('`')?.strip_suffix('`')?.parse().ok();
        let of_a_child = when.contains("another task has submitted it");
        (!of_a_child).then_some((state(from)?, state(to)?))
    };
    text.lines().filter_map(edge).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paths_are_those_of_the_page() {
        let task = of_task();
        assert!(task.leads(TaskStatus::Submitted, TaskStatus::Failed));
        assert!(task.leads(TaskStatus::Waiting, TaskStatus::Dispatched));
        assert!(task.leads(TaskStatus::DeadLettered, TaskStatus::Completed));
        assert!(!task.leads(TaskStatus::Completed, TaskStatus::Failed));
        assert!(!task.leads(TaskStatus::Dispatched, TaskStatus::Submitted));
        assert!(!task.leads(TaskStatus::Compensating, TaskStatus::Completed));
        let step = of_step();
        assert!(step.leads(StepStatus::Completed, StepStatus::Running));
        assert!(step.leads(StepStatus::Pending, StepStatus::Compensated));
        assert!(!step.leads(StepStatus::Compensated, StepStatus::Running));
        assert!(!step.leads(StepStatus::Skipped, StepStatus::Running));
        // Each row of the page was understood.
        assert_eq!(edges::<TaskStatus>("## A task").len(), task_rows());
    }

    /// Pairs of states in the rows of the page, without the one of a child.
    fn task_rows() -> usize {
        let (_, text) = PAGE.split_once("## A task").unwrap();
        let text = text.split("\n## ").next().unwrap();
        let rows = text.lines().filter(|line| line.starts_with("| `"));
        let rows =
            rows.filter(|line| line.matches('`').count() == 4 && !line.contains("parent_undone"));
        let pairs: BTreeSet<(&str, &str)> = rows
            .map(|line| {
                let mut words = line.split('`');
                (words.nth(1).unwrap(), words.nth(1).unwrap())
            })
            .collect();
        pairs.len()
    }
}
