//! The steps as a list: the same as the picture, as text and with each try. Must not leave out what the
//! picture shows.

use crate::markup::{self, outcome, step_state};
use crate::task_history::{Span, SpanKind, StepHistory, TaskHistory, WayBack};
use crate::time_text::duration;
use maud::{Markup, html};

pub(super) fn of(story: &TaskHistory) -> Markup {
    html! {
        section.steps aria-labelledby="steps" {
            h2 #steps { "Steps" }
            ol { @for step in &story.steps { (self::step(story, step)) } }
        }
    }
}

fn step(story: &TaskHistory, step: &StepHistory) -> Markup {
    let has_tries = !step.forward.is_empty() || !step.back.is_empty();
    html! {
        li.step id={ "step-" (step.no) } tabindex="-1" {
            div.line {
                span.no { (step.no) }
                b.name { (step.name) }
                (step_state(step.status))
                @if let Some(progress) = &step.progress { (self::progress(progress)) }
                span.way-back {
                    @match &step.way_back {
                        WayBack::Undo(undo) => { "undo: " code { (undo) } },
                        WayBack::Waived(reason) => { "undo waived: " (reason) },
                        WayBack::Pure => "no effects",
                        WayBack::Unknown => "",
                    }
                }
            }
            @if let Some(error) = &step.error { p.message { (error) } }
            @if has_tries {
                details open[is_short(step)] {
                    summary { (count(step)) }
                    div.scroll role="region" aria-label={ "Tries of " (step.name) } tabindex="0" {
                        table.tries {
                            thead { tr {
                                th scope="col" { "Way" } th scope="col" { "Try" } th scope="col" { "Began" }
                                th scope="col" { "Took" } th scope="col" { "End" } th scope="col" { "By" }
                            } }
                            tbody {
                                @for span in &step.forward { (row(story, span, "forward")) }
                                @for span in &step.back { (row(story, span, "back")) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Whether its tries are open when the page comes.
fn is_short(step: &StepHistory) -> bool {
    let spans = || step.forward.iter().chain(&step.back);
    let errors = spans().filter_map(|span| span.error.as_ref());
    markup::is_short(spans().count(), errors.map(String::len).sum())
}

fn progress(of: &counterstep_contracts::http::StepProgress) -> Markup {
    html! {
        span.progress {
            @if let Some(percent) = of.percent {
                progress max="100" value=(percent) aria-label="Progress of the step" {}
                " " (percent) " %"
            } @else { (markup::number(of.done)) " done" }
            @if let Some(message) = &of.message { ", " (message) }
        }
    }
}

fn count(step: &StepHistory) -> String {
    let tries = |spans: &[Span]| {
        let is_try = |it: &&Span| matches!(it.kind, SpanKind::Attempt(..));
        spans.iter().filter(is_try).count()
    };
    match (tries(&step.forward), tries(&step.back)) {
        (0, 0) => "Waits".to_owned(),
        (forward, 0) => format!("Tries: {forward}"),
        (forward, back) => format!("Tries: {forward} forward, {back} back"),
    }
}

fn row(story: &TaskHistory, span: &Span, way: &str) -> Markup {
    html! {
        tr {
            td { (way) }
            td { @if let SpanKind::Attempt(no, _) = span.kind { (no) } }
            td { "+" (duration(span.begin - story.created)) }
            td { (duration(span.took(story.now))) }
            td {
                @match &span.kind {
                    SpanKind::Attempt(_, of) => (outcome(*of)),
                    SpanKind::Wait(of) => { "waits for " (of) },
                    SpanKind::Point(status) => (step_state(*status)),
                }
                @if let Some(error) = &span.error { p.message { (error) } }
            }
            td { (span.by.as_deref().unwrap_or("")) }
        }
    }
}
