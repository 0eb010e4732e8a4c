//! What a decision would lead to: the steps that would run, be undone, or stay. Must not know which decisions
//! there are.

use super::task_data::Found;
use crate::markup::{glyph, step_state};
use counterstep_contracts::StepStatus;
use counterstep_contracts::operator::UndoPlan;
use maud::{Markup, html};

/// The steps that a retry runs. The interface has a plan of the undo only: going forward, the order is that of the declaration, which
/// the task's steps have.
pub(super) fn again(found: &Found) -> Markup {
    let open = [StepStatus::Failed, StepStatus::InDoubt, StepStatus::Pending];
    let steps = found
        .task
        .steps
        .iter()
        .filter(|step| open.contains(&step.status));
    html! {
        h2 { "Would run, in this order" }
        ol.plan { @for step in steps { li { b { (step.name) } " " (step_state(step.status)) } } }
    }
}

/// The undos that would run, without the step that a person settles.
pub(super) fn undone(plan: Option<&UndoPlan>, but: Option<&str>) -> Markup {
    let Some(plan) = plan else {
        return html! { p.quiet { "What would be undone is not known here: this server does not know the task's type as it was submitted." } };
    };
    let stages = plan
        .stages
        .iter()
        .filter(|stage| stage.steps.iter().any(|it| Some(it.step.as_str()) != but));
    let stages: Vec<_> = stages.collect();
    html! {
        @if stages.is_empty() {
            p { "Nothing is left to undo." }
        } @else {
            h2 { "Would be undone, in this order" }
            ol.plan {
                @for stage in stages {
                    li {
                        @for it in stage.steps.iter().filter(|it| Some(it.step.as_str()) != but) {
                            div {
                                (glyph("back")) b { (it.step) } " by " code { (it.undo) } " "
                                @if it.in_doubt { (step_state(StepStatus::InDoubt)) }
                                @if let Some(probe) = &it.probe { span.quiet { " after " code { (probe) } } }
                                @if it.gave_up { span.quiet { " gave up before, after " (it.undo_attempts.0) " tries" } }
                            }
                        }
                        @if stage.steps.len() > 1 { span.quiet { "side by side" } }
                    }
                }
            }
        }
        (not_undone(plan))
    }
}

fn not_undone(plan: &UndoPlan) -> Markup {
    html! {
        @if !plan.not_undone.is_empty() {
            h2 { "Would stay" }
            ul.plan { @for it in &plan.not_undone { li { b { (it.step) } " " span.quiet { (it.reason) } } } }
        }
    }
}

/// What nothing would undo any more.
pub(super) fn left(plan: Option<&UndoPlan>) -> Markup {
    let steps = plan
        .into_iter()
        .flat_map(|it| &it.stages)
        .flat_map(|it| &it.steps);
    let steps: Vec<_> = steps.collect();
    html! {
        @if !steps.is_empty() {
            h2 { "Nothing would undo any more" }
            ul.plan { @for it in steps { li { b { (it.step) } " " (step_state(it.status)) } } }
        }
    }
}
