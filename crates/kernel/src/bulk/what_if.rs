//! What an operation would do to many tasks, before it is started: which steps would be undone and from where tasks would go on,
//! by type and step, with the amounts that they name; and which tasks differ from the others. The plan of each is that of the task
//! alone (`operator::undo_plan`). Reads, and changes nothing.

use crate::engine::Engine;
use crate::operator::amounts::{DeclaredAmounts, listed};
use crate::operator::{known_records, undo_plan};
use crate::ports::StoreError;
use crate::record::TaskRecord;
use crate::task::TaskType;
use counterstep_contracts::bulk::{BulkAction, BulkUndo, GoesOn, UndoneStep, UnusualTask};
use counterstep_contracts::{StepNo, StepStatus, TaskId, TaskStatus};
use counterstep_steps::task::AmountSums;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of tasks that are read, and how many of them at a time: with all that was handed in.
pub(super) const MOST_RECORDS: usize = 1_000;
const AT_ONCE: usize = 25;

/// Maximum number of tasks that are named because they differ.
const UNUSUAL: usize = 10;

/// What an action would do to these tasks. Those that this program does not know are counted alone.
pub(super) async fn what_if(
    engine: &Engine,
    action: BulkAction,
    tasks: &[TaskId],
) -> Result<BulkUndo, StoreError> {
    let mut found = Found::default();
    for page in tasks.chunks(AT_ONCE) {
        let (known, unknown) = known_records(engine, page).await?;
        found.unknown += unknown;
        for (task_type, record) in known {
            found.add(action, &task_type, &record);
        }
    }
    Ok(found.view())
}

/// What would happen to one step of a task, or a step from which the task would go on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    step: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Undone,
    UndoneInDoubt,
    UndoneAgain,
    GoesOn,
    GoesOnInDoubt,
}

impl Kind {
    const fn is_in_doubt(self) -> bool {
        matches!(self, Self::UndoneInDoubt | Self::GoesOnInDoubt)
    }
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let step = &self.step;
        match self.kind {
            Kind::Undone => write!(f, "undoes `{step}`"),
            Kind::UndoneInDoubt => write!(f, "undoes `{step}`, which is in doubt"),
            Kind::UndoneAgain => write!(f, "tries the undo of `{step}` again, which gave up"),
            Kind::GoesOn => write!(f, "goes on from `{step}`"),
            Kind::GoesOnInDoubt => write!(f, "goes on from `{step}`, which is in doubt"),
        }
    }
}

type Parts = BTreeSet<Part>;

#[derive(Debug, Default)]
struct Found {
    unknown: u64,
    /// By type, with what would happen to each.
    plans: BTreeMap<String, Vec<(TaskId, Parts)>>,
    amounts: AmountSums,
    /// By type and number, in which order steps are shown.
    undone: BTreeMap<(String, StepNo), (UndoneStep, AmountSums)>,
    goes_on: BTreeMap<(String, StepNo), GoesOn>,
    declared: DeclaredAmounts,
}

impl Found {
    fn add(&mut self, action: BulkAction, task_type: &TaskType, record: &TaskRecord) {
        let (name, task) = (&record.task.task_type, record.task.id);
        self.declared
            .add_request(task_type, record, &mut self.amounts);
        let mut parts = Parts::new();
        if action == BulkAction::Redrive && record.task.status == TaskStatus::DeadLettered {
            for row in goes_on_from(record) {
                let row = &record.steps[row];
                let in_doubt = row.probe.is_some() || row.status == StepStatus::InDoubt;
                let kind = if in_doubt {
                    Kind::GoesOnInDoubt
                } else {
                    Kind::GoesOn
                };
                let all = self.goes_on.entry((name.clone(), row.no));
                let all = all.or_insert_with(|| GoesOn {
                    task_type: name.clone(),
                    step: row.name.clone(),
                    tasks: 0,
                    in_doubt: 0,
                });
                all.tasks += 1;
                all.in_doubt += u64::from(in_doubt);
                parts.insert(Part {
                    step: row.name.clone(),
                    kind,
                });
            }
        } else {
            let stages = undo_plan(task_type, record).stages;
            for step in stages.into_iter().flat_map(|stage| stage.steps) {
                let kind = match (step.gave_up, step.in_doubt) {
                    (true, _) => Kind::UndoneAgain,
                    (false, true) => Kind::UndoneInDoubt,
                    (false, false) => Kind::Undone,
                };
                let all = self.undone.entry((name.clone(), step.no));
                let (all, amounts) = all.or_insert_with(|| {
                    let row = UndoneStep {
                        task_type: name.clone(),
                        step: step.step.clone(),
                        undo: step.undo.clone(),
                        tasks: 0,
                        in_doubt: 0,
                        gave_up: 0,
                        amounts: Vec::new(),
                    };
                    (row, AmountSums::default())
                });
                all.tasks += 1;
                all.in_doubt += u64::from(step.in_doubt);
                all.gave_up += u64::from(step.gave_up);
                let at = record.steps.iter().position(|row| row.no == step.no);
                if let Some(at) = at {
                    self.declared.add_output(task_type, record, at, amounts);
                }
                parts.insert(Part {
                    step: step.step,
                    kind,
                });
            }
        }
        self.plans
            .entry(name.clone())
            .or_default()
            .push((task, parts));
    }

    fn view(self) -> BulkUndo {
        let plans = || self.plans.values().flatten();
        let with = |fits: fn(Kind) -> bool| {
            let fitting = plans().filter(|(_, parts)| parts.iter().any(|part| fits(part.kind)));
            fitting.count() as u64
        };
        let undone = self.undone.into_values().map(|(row, sums)| UndoneStep {
            amounts: listed(&sums),
            ..row
        });
        BulkUndo {
            tasks: plans().count() as u64,
            unknown: self.unknown,
            in_doubt: with(Kind::is_in_doubt),
            gave_up: with(|kind| kind == Kind::UndoneAgain),
            amounts: listed(&self.amounts),
            unusual: unusual(&self.plans),
            steps: undone.collect(),
            goes_on: self.goes_on.into_values().collect(),
        }
    }
}

/// The places of the steps from which a dead letter goes on: those that gave up or are in doubt, or else the first that has not run.
fn goes_on_from(record: &TaskRecord) -> Vec<usize> {
    let places = |fits: fn(StepStatus) -> bool| {
        let rows = record.steps.iter().enumerate();
        rows.filter(|(_, row)| fits(row.status))
            .map(|(at, _)| at)
            .collect::<Vec<_>>()
    };
    let begun = places(|status| {
        matches!(
            status,
            StepStatus::Failed | StepStatus::InDoubt | StepStatus::Running | StepStatus::Waiting
        )
    });
    match begun.is_empty() {
        true => places(|status| status == StepStatus::Pending)
            .into_iter()
            .take(1)
            .collect(),
        false => begun,
    }
}

/// Those that would be treated as the fewest others of their type, with what differs from what happens to most of them.
fn unusual(plans: &BTreeMap<String, Vec<(TaskId, Parts)>>) -> Vec<UnusualTask> {
    let mut found = Vec::new();
    for tasks in plans.values() {
        let mut counts: BTreeMap<&Parts, usize> = BTreeMap::new();
        for (_, parts) in tasks {
            *counts.entry(parts).or_default() += 1;
        }
        // Of two that are as frequent the first in their order, so that the same tasks are named again.
        let most = counts
            .iter()
            .max_by_key(|(parts, count)| (**count, std::cmp::Reverse(**parts)));
        let Some((&usual, _)) = most else { continue };
        let others = tasks.iter().filter(|(_, parts)| parts != usual);
        found.extend(others.map(|(task, parts)| (counts[parts], *task, differs(parts, usual))));
    }
    found.sort();
    let named = found.into_iter().take(UNUSUAL);
    let named = named.map(|(_, task_id, differs)| UnusualTask { task_id, differs });
    named.collect()
}

fn differs(parts: &Parts, usual: &Parts) -> String {
    let of_step = |step: &str| parts.iter().any(|part| part.step == step);
    let more = parts.difference(usual).map(ToString::to_string);
    let less = usual.iter().filter(|part| !of_step(&part.step));
    let less = less.map(|part| format!("not: {part}"));
    more.chain(less).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::{Kind, Part, Parts, UNUSUAL, unusual};
    use counterstep_contracts::TaskId;
    use std::collections::BTreeMap;
    use uuid::Uuid;

    fn parts(all: &[(&str, Kind)]) -> Parts {
        let all = all.iter().map(|(step, kind)| Part {
            step: (*step).to_owned(),
            kind: *kind,
        });
        all.collect()
    }

    #[test]
    fn the_tasks_that_differ_most_are_named_with_what_differs() {
        let usual = [("reserve", Kind::Undone), ("charge", Kind::Undone)];
        let doubt = [("reserve", Kind::Undone), ("charge", Kind::UndoneInDoubt)];
        let mut tasks: Vec<_> = (0..30).map(|_| parts(&usual)).collect();
        tasks.extend((0..20).map(|_| parts(&doubt)));
        tasks.push(parts(&[("reserve", Kind::UndoneAgain)]));
        let tasks = tasks.into_iter().enumerate();
        let tasks = tasks.map(|(at, parts)| (TaskId(Uuid::from_u128(at as u128)), parts));
        let plans = BTreeMap::from([("Order".to_owned(), tasks.collect::<Vec<_>>())]);
        let found = unusual(&plans);
        assert_eq!(found.len(), UNUSUAL);
        assert_eq!(
            (found[0].task_id.0.as_u128(), &*found[0].differs),
            (
                50,
                "tries the undo of `reserve` again, which gave up; not: undoes `charge`"
            )
        );
        assert_eq!(found[1].differs, "undoes `charge`, which is in doubt");
    }
}
