//! What is in doubt, with its evidence: which host was lost, what the probe found, and the key by which the
//! service outside can be asked. Must not judge it.

use super::task_data::Found;
use crate::markup::{chip, copied};
use crate::page_request::PageRequest;
use crate::task_history::{SpanKind, StepHistory, TaskHistory};
use crate::time_text::{ago, clock};
use counterstep_contracts::http::AuditView;
use counterstep_contracts::{Outcome, StepStatus};
use maud::{Markup, html};

pub(super) fn of(visit: &PageRequest, found: &Found, story: &TaskHistory) -> Markup {
    let doubtful: Vec<_> = story
        .steps
        .iter()
        .filter(|step| is_in_doubt(found, step))
        .collect();
    if doubtful.is_empty() {
        return html! {};
    }
    html! {
        section.doubt aria-labelledby="doubt" {
            h2 #doubt { "In doubt" }
            p.quiet { "It is unknown how far these came. Ask the service outside by the key." }
            @for step in doubtful { (evidence(visit, found, step)) }
        }
    }
}

/// It has begun and no end is known; nor has a probe or a person found one.
fn is_in_doubt(found: &Found, step: &StepHistory) -> bool {
    let planned = found.plan.iter().flat_map(|plan| &plan.stages);
    let mut planned = planned.flat_map(|stage| &stage.steps);
    let is_planned = planned.any(|it| it.step == step.name && it.in_doubt);
    let runs = step.status == StepStatus::Running && !found.task.status.is_at_rest();
    step.status == StepStatus::InDoubt || is_planned && !runs || undo_in_doubt(step)
}

fn undo_in_doubt(step: &StepHistory) -> bool {
    let lost = |kind: &SpanKind| matches!(kind, SpanKind::Attempt(_, Some(Outcome::InDoubt)));
    let is_open = matches!(
        step.status,
        StepStatus::Compensating | StepStatus::CompensationFailed
    );
    is_open
        && step
            .back
            .iter()
            .rev()
            .find(|it| matches!(it.kind, SpanKind::Attempt(..)))
            .is_some_and(|it| lost(&it.kind))
}

fn evidence(_visit: &PageRequest, found: &Found, step: &StepHistory) -> Markup {
    let is_undo = undo_in_doubt(step);
    let spans = if is_undo { &step.back } else { &step.forward };
    let last = spans
        .iter()
        .rev()
        .find(|it| matches!(it.kind, SpanKind::Attempt(..)));
    let entries: Vec<_> = found.trail.entries.iter().collect();
    let of_step = |entry: &&&AuditView| entry.step.as_deref() == Some(&step.name);
    let doubt = entries
        .iter()
        .filter(of_step)
        .rfind(|it| it.event.ends_with("in_doubt"));
    let lost = entries.iter().rfind(|it| it.details["lost_by"].is_string());
    let probed = entries
        .iter()
        .filter(of_step)
        .rfind(|it| it.event.starts_with("step_settled"));
    let planned = found.plan.iter().flat_map(|plan| &plan.stages);
    let probe = planned
        .flat_map(|it| &it.steps)
        .find(|it| it.step == step.name);
    let probe = probe.and_then(|it| it.probe.as_deref());
    let id = found.task.task_id;
    let key = match is_undo {
        true => format!("{id}:{}:undo", step.no),
        false => format!("{id}:{}", step.no),
    };
    html! {
        article.evidence {
            h3 { (step.name) " " (chip("question", "doubt", if is_undo { "undo in doubt" } else { "in doubt" })) }
            dl.facts {
                @if let Some(last) = last {
                    div { dt { "Ran on" } dd { (last.by.as_deref().unwrap_or("unknown")) } }
                }
                @if let Some(doubt) = doubt {
                    div { dt { "In doubt since" } dd { (ago(&doubt.at)) " " span.quiet { (clock(&doubt.at)) } } }
                    @if let Some(why) = doubt.details["why"].as_str().or_else(|| doubt.details["error"].as_str()) {
                        div { dt { "Because" } dd { (why) } }
                    }
                }
                @if let Some(lost) = lost {
                    div { dt { "Lost host" } dd { (lost.details["lost_by"].as_str().unwrap_or_default()) } }
                }
                div {
                    dt { "Probe" }
                    dd {
                        @if let Some(probed) = probed {
                            (crate::markup::plain(&probed.event)) " " (ago(&probed.at))
                        } @else if let Some(probe) = probe {
                            code { (probe) } " is asked first"
                        } @else { "none is declared" }
                    }
                }
                div { dt { "Effect key" } dd { (copied(&key)) } }
            }
        }
    }
}
