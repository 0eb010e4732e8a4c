//! What an undo would do, and what a task waits for, as people read it.

use super::proposal::Caller;
use super::table::Look;
use super::times::shown;
use counterstep_contracts::children::ParentView;
use counterstep_contracts::operation::shown::{Cell, Table};
use counterstep_contracts::operator::{PlannedUndo, UndoPlan, Why};

/// The user of this machine.
pub(super) fn user() -> Option<String> {
    let name = std::env::var("USER").ok();
    name.filter(|name| !name.is_empty())
}

pub(super) fn plan(plan: &UndoPlan, look: &Look) -> String {
    let stages = plan.stages.iter().enumerate();
    let undone = stages.flat_map(|(at, stage)| {
        let row = move |step: &PlannedUndo| {
            let group = stage.group.as_ref();
            let probe = step.probe.as_ref();
            let notes = [
                group.map(|group| format!("side by side in group {group}")),
                step.in_doubt.then(|| "in doubt".to_owned()),
                probe.map(|probe| format!("{probe} is asked first")),
                step.gave_up.then(|| match step.undo_attempts.0 {
                    1 => "gave up after 1 try".to_owned(),
                    tries => format!("gave up after {tries} tries"),
                }),
            ];
            let notes: Vec<_> = notes.into_iter().flatten().collect();
            vec![
                Cell::of(&(at + 1)),
                Cell::of(&step.step),
                Cell::of(&step.status),
                Cell::of(&step.undo),
                notes.join("; ").into(),
            ]
        };
        stage.steps.iter().map(row)
    });
    let left = plan.not_undone.iter().map(|left| {
        vec![
            Cell::NONE,
            Cell::of(&left.step),
            Cell::of(&left.status),
            "none".into(),
            Cell::of(&left.reason),
        ]
    });
    let heads = ["order", "step", "status", "undo", "notes"];
    let table = Table::of("undos", &heads, undone.chain(left));
    let (task, status, when) = (plan.task_id, plan.status, &plan.when);
    format!("{task} {status}: undone {when}\n{}", look.plain(&table))
}

/// Who has submitted a task that no client has.
pub(super) fn parent(parent: ParentView) -> String {
    let ParentView {
        task_id,
        step,
        place,
    } = parent;
    format!("submitted by: {task_id}, step {step}, place {place}\n")
}

pub(super) fn why(why: &Why, caller: &Caller) -> String {
    let mut text = format!("{} {}\n", why.task_id, why.status);
    text.extend(
        why.parent
            .map(|parent| format!("  {}", self::parent(parent))),
    );
    for reason in &why.because {
        let until = reason
            .until
            .as_ref()
            .map_or_else(String::new, |until| format!("; until {}", shown(until)));
        text.push_str(&format!("  because {}{until}\n", reason.detail));
    }
    text.extend(why.cause.iter().map(|cause| format!("  cause: {cause}\n")));
    for can in &why.operator_can {
        text.push_str(&format!("  {}\n      {}\n", caller.command(can), can.does));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_plan_counts_the_tries_of_an_undo_that_gave_up() {
        let shown = |tries: i32| {
            let step = json!({
                "no": 1, "step": "reserve", "status": "compensation_failed", "undo": "release",
                "in_doubt": false, "undo_attempts": tries, "gave_up": true,
            });
            let found = json!({
                "task_id": "0199c0de-0000-7000-8000-000000000001", "status": "compensation_failed",
                "when": "when an operator retries it", "stages": [{"steps": [step]}], "not_undone": [],
            });
            plan(
                &serde_json::from_value(found).expect("a plan"),
                &Look::here(),
            )
        };
        assert!(shown(1).ends_with("gave up after 1 try\n"), "{}", shown(1));
        assert!(shown(2).ends_with("gave up after 2 tries\n"));
    }

    #[test]
    fn why_says_which_task_has_submitted_it() {
        let (parent, child) = (
            "0199c0de-0000-7000-8000-000000000001",
            "0199c0de-0000-7000-8000-000000000002",
        );
        let found = json!({
            "task_id": child, "status": "running", "operator_can": [],
            "parent": {"task_id": parent, "step": 2, "place": 7},
            "because": [{"code": "working", "detail": "worker:1 works on reserve"}],
        });
        let found = serde_json::from_value(found).expect("an answer");
        let url = "http://127.0.0.1:8080";
        let text = why(&found, &Caller::new("counterstep", url, url));
        let expected = format!(
            "{child} running\n  submitted by: {parent}, step 2, place 7\n  because worker:1 works on reserve\n"
        );
        assert_eq!(text, expected);
    }
}
