//! What may be decided about a task: each decision with what it would lead to, before it is taken. The
//! interface judges; what is offered here is what it would take as things stand.

use super::super::decide::{self, Form, Proposal};
use super::preview::{again, left, undone};
use super::task_data::Found;
use crate::equivalents::Equivalents;
use crate::failed::{Answer, Failed};
use crate::forms;
use crate::layout::Chapter;
use crate::markup::{glyph, number, plain};
use crate::page_request::PageRequest;
use crate::query::{Address, Fields, segment};
use actix_web::{HttpRequest, web};
use counterstep_contracts::access::Role;
use counterstep_contracts::http::TaskView;
use counterstep_contracts::settled::SettledAs;
use counterstep_contracts::{ProblemCode, StepStatus, TaskStatus, WaitReason};
use maud::{Markup, html};
use serde_json::{Value, json};

/// A decision about a task, or about a step of it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Decision {
    Cancel,
    /// It goes on, the way that it went.
    Retry,
    /// It turns back.
    Undo,
    /// The step was done by hand, with this output.
    StepDone(String),
    /// The undo of the step was done by hand.
    StepUndone(String),
    /// The step stays as it is.
    StepSkipped(String),
    /// The whole task is settled.
    Settled(SettledAs),
    Signal(String),
    Recount,
    /// A new task does what this one was to do.
    RunAgain,
}

impl Decision {
    /// Its name in addresses.
    fn name(&self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Retry => "retry",
            Self::Undo => "undo",
            Self::StepDone(_) => "step-done",
            Self::StepUndone(_) => "step-undone",
            Self::StepSkipped(_) => "step-skipped",
            Self::Settled(SettledAs::Undone) => "settle-undone",
            Self::Settled(SettledAs::Done) => "settle-done",
            Self::Settled(SettledAs::Skipped) => "settle-skipped",
            Self::Settled(SettledAs::NotNeeded) => "settle-not-needed",
            Self::Settled(SettledAs::Redriven) => "settle-redriven",
            Self::Signal(_) => "signal",
            Self::Recount => "recount",
            Self::RunAgain => "run-again",
        }
    }

    fn step(&self) -> Option<&str> {
        match self {
            Self::StepDone(step)
            | Self::StepUndone(step)
            | Self::StepSkipped(step)
            | Self::Signal(step) => Some(step),
            _ => None,
        }
    }

    /// Behind "What would happen if I".
    fn title(&self, task: &TaskView) -> String {
        match (self, task.status) {
            (Self::Cancel, _) => "cancel it".to_owned(),
            (Self::Retry, TaskStatus::CompensationFailed) => "try the undo again".to_owned(),
            (Self::Retry, _) => "run it again from where it gave up".to_owned(),
            (Self::Undo, _) => "have it undone".to_owned(),
            (Self::StepDone(step), _) => format!("did {step} by hand"),
            (Self::StepUndone(step), _) => format!("undid {step} by hand"),
            (Self::StepSkipped(step), _) => format!("leave {step} as it is"),
            (Self::Settled(SettledAs::Undone), _) => "undid all of it by hand".to_owned(),
            (Self::Settled(SettledAs::Done), _) => "did all of it by hand".to_owned(),
            (Self::Settled(SettledAs::Skipped), _) => "leave all of it as it is".to_owned(),
            (Self::Settled(SettledAs::NotNeeded), _) => "need it no more".to_owned(),
            (Self::Settled(SettledAs::Redriven), _) => "had another task do it".to_owned(),
            (Self::Signal(step), _) => format!("answer {step}"),
            (Self::Recount, _) => "count its lost hosts anew".to_owned(),
            (Self::RunAgain, _) => "run it again".to_owned(),
        }
    }

    /// In one line, beside the title.
    const fn leads_to(&self) -> &'static str {
        match self {
            Self::Cancel => "Its step is told to stop, and what it has done is undone.",
            Self::Retry => "What gave up is tried again, with all its retries.",
            Self::Undo => "Nothing runs forward any more; what it has done is undone.",
            Self::StepDone(_) => "The step gets an output, and the task goes on behind it.",
            Self::StepUndone(_) => "The step counts as undone; the others are undone.",
            Self::StepSkipped(_) => {
                "Its effects stay, and the task says so; the others are undone."
            }
            Self::Settled(SettledAs::Undone | SettledAs::Done) => {
                "It ends as resolved. Nothing more runs."
            }
            Self::Settled(_) => "It ends as resolved, with its effects left.",
            Self::Signal(_) => "The step that waits gets this answer.",
            Self::Recount => "The next loss counts as the first one. Nothing else changes.",
            Self::RunAgain => {
                "A new task does the same, from the start or from a step. This one stays as it is."
            }
        }
    }

    const fn role(&self) -> Role {
        match self {
            Self::Cancel | Self::Signal(_) => Role::Submit,
            _ => Role::Operate,
        }
    }

    /// What it sends, with what its form holds.
    fn elsewhere(&self, task: &TaskView, form: &mut Form<'_>) -> Equivalents {
        let id = task.task_id.to_string();
        let path = |what: &str| format!("/api/tasks/{id}/{what}");
        let resolve = |step: Option<&str>, settled: SettledAs| {
            let it = Equivalents::new("POST", path("resolve"), &["tasks", "resolve", &id]);
            let it = match step {
                Some(step) => it.flag("--step", step).field("step", step),
                None => it,
            };
            let word = settled.as_str().replace('_', "-");
            it.flag("--as", &word).field("as", json!(settled))
        };
        let it = match self {
            Self::Cancel => {
                let path = format!("/api/tasks/{id}");
                return Equivalents::new("DELETE", path, &["tasks", "cancel", &id]);
            }
            Self::Signal(step) => {
                let label = html! { "Answer for " code { (step) } span.quiet { ", as JSON of its declared type" } };
                let body = form.json("body", label, "{}").unwrap_or_default();
                let path = path(&format!("signals/{}", segment(step)));
                let it = Equivalents::new("POST", path, &["tasks", "signal", &id, step]);
                return it.flag("--body", &body.to_string()).body(body);
            }
            Self::Retry => {
                let it = Equivalents::new("POST", path("retry"), &["tasks", "retry", &id]);
                match task.status {
                    TaskStatus::DeadLettered => it.patch(changes(form, "it stays as it is")),
                    _ => it,
                }
            }
            Self::Undo => {
                let words = ["tasks", "retry", &id, "--undo"];
                Equivalents::new("POST", path("retry"), &words).field("direction", "undo")
            }
            Self::StepDone(step) => {
                let label = html! { "Output of " code { (step) } span.quiet { ", as JSON of its declared type" } };
                let output = form.json("output", label, "null").unwrap_or_default();
                let it = resolve(Some(step), SettledAs::Done);
                it.flag("--output", &output.to_string())
                    .field("output", output)
            }
            Self::StepUndone(step) => resolve(Some(step), SettledAs::Undone),
            Self::StepSkipped(step) => resolve(Some(step), SettledAs::Skipped),
            Self::Settled(settled) => resolve(None, *settled),
            Self::Recount => {
                let words = ["tasks", "recoveries", &id, "--set", "0"];
                Equivalents::new("POST", path("recoveries"), &words).field("recovery_attempts", 0)
            }
            Self::RunAgain => {
                let it = Equivalents::new("POST", path("run-again"), &["tasks", "run-again", &id]);
                let it = match from(form, task) {
                    step if step.is_empty() => it,
                    step => it.flag("--from", &step).field("from", step),
                };
                it.patch(changes(form, "the same request"))
            }
        };
        it.note(&form.note())
    }

    const fn did(&self) -> &'static str {
        match self {
            Self::Cancel => "cancelled",
            Self::Retry => "retried",
            Self::Undo => "undone",
            Self::Signal(_) => "signalled",
            Self::Recount => "recounted",
            Self::RunAgain => "submitted",
            Self::StepDone(_) | Self::StepUndone(_) | Self::StepSkipped(_) | Self::Settled(_) => {
                "resolved"
            }
        }
    }
}

/// Those that the state of a task allows.
fn all(found: &Found) -> Vec<Decision> {
    let task = &found.task;
    let steps = |of: &[StepStatus]| {
        let fits = task.steps.iter().filter(|step| of.contains(&step.status));
        fits.map(|step| step.name.clone()).collect::<Vec<_>>()
    };
    let mut all = Vec::new();
    match task.status {
        TaskStatus::DeadLettered => {
            all.extend([Decision::Retry, Decision::Undo]);
            let open = steps(&[StepStatus::Failed, StepStatus::InDoubt]);
            all.extend(open.into_iter().map(Decision::StepDone));
            all.extend([
                Decision::Settled(SettledAs::Undone),
                Decision::Settled(SettledAs::Done),
                Decision::Settled(SettledAs::Skipped),
                Decision::Settled(SettledAs::NotNeeded),
            ]);
        }
        TaskStatus::CompensationFailed => {
            all.push(Decision::Retry);
            for step in steps(&[StepStatus::CompensationFailed]) {
                all.push(Decision::StepUndone(step.clone()));
                all.push(Decision::StepSkipped(step));
            }
            all.extend([
                Decision::Settled(SettledAs::Undone),
                Decision::Settled(SettledAs::Skipped),
            ]);
        }
        TaskStatus::Submitted
        | TaskStatus::Dispatched
        | TaskStatus::Running
        | TaskStatus::Waiting => {
            if task.waiting_for == Some(WaitReason::Signal) {
                all.extend(
                    steps(&[StepStatus::Waiting])
                        .into_iter()
                        .map(Decision::Signal),
                );
            }
            let is_allowed = found
                .declaration
                .as_ref()
                .is_none_or(|it| it["cancellable"] != false);
            if is_allowed && !task.cancel_requested {
                all.push(Decision::Cancel);
            }
        }
        TaskStatus::Completed
        | TaskStatus::Failed
        | TaskStatus::Cancelled
        | TaskStatus::Resolved => all.push(Decision::RunAgain),
        TaskStatus::Compensating => {}
    }
    if task.recovery_attempts > 0 && !task.status.is_terminal() {
        all.push(Decision::Recount);
    }
    all
}

/// The decisions of a task's page.
pub(super) fn list(visit: &PageRequest, found: &Found) -> Markup {
    let all = all(found);
    let allowed: Vec<_> = all.iter().filter(|it| visit.may(it.role())).collect();
    if allowed.is_empty() {
        return html! {};
    }
    html! {
        section.decisions aria-labelledby="decisions" {
            h2 #decisions { "What would happen if I …" }
            ul {
                @for it in allowed {
                    li {
                        a href=(address(visit, found, it)) { "… " (it.title(&found.task)) "?" }
                        span.quiet { (it.leads_to()) }
                    }
                }
            }
            (others(visit, found))
        }
    }
}

/// Tasks that stand where this one does, for the same cause.
fn others(visit: &PageRequest, found: &Found) -> Markup {
    let group = found.group.as_ref().filter(|group| group.count > 1);
    let Some(group) = group.filter(|_| visit.may(Role::Operate)) else {
        return html! {};
    };
    let all = |action: &str| {
        let address = Address::new(visit.at("/bulk/new")).with("group", &group.id);
        address.with("action", action).text()
    };
    html! {
        p.others {
            (glyph("person"))
            b { (number(group.count - 1)) " more" } " failed for the same cause"
            @if let Some(step) = &group.step { " at " code { (step) } }
            ". The same for all: " a href=(all("redrive")) { "redrive" } " or " a href=(all("resolve")) { "settle by hand" } "."
        }
    }
}

fn address(visit: &PageRequest, found: &Found, it: &Decision) -> String {
    let path = format!("/tasks/{}/decide/{}", found.task.task_id, it.name());
    Address::new(visit.at(&path))
        .with_some("step", it.step())
        .text()
}

async fn asked(visit: &PageRequest) -> Result<(Found, Decision), Failed> {
    let found = Found::of(visit, super::super::part(&visit.request, "id")).await?;
    let what = super::super::part(&visit.request, "what").to_owned();
    let query = Fields::of(visit.request.query_string());
    let step = query.get("step");
    let is_it = |it: &Decision| it.name() == what && it.step() == step;
    match all(&found).into_iter().find(is_it) {
        Some(decision) => {
            visit.needs(decision.role())?;
            Ok((found, decision))
        }
        None => {
            let detail = format!(
                "the task is {}: there is no such decision about it any more",
                plain(found.task.status.as_str())
            );
            Err(visit.refused(ProblemCode::NotSettleable, &detail))
        }
    }
}

pub(crate) async fn page(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let (found, decision) = asked(&visit).await?;
    Ok(decide::page(
        &visit,
        &proposal(&found, &decision, None),
        None,
    ))
}

pub(crate) async fn post(request: HttpRequest, payload: web::Payload) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let fields = forms::read(&visit, payload).await?;
    let (found, decision) = asked(&visit).await?;
    let proposal = proposal(&found, &decision, Some(&fields));
    match decision {
        Decision::RunAgain => decide::send_to(&visit, &proposal, decide::new_task).await,
        _ => decide::send(&visit, &proposal).await,
    }
}

fn proposal<'a>(found: &Found, decision: &Decision, sent: Option<&'a Fields>) -> Proposal<'a> {
    let task = &found.task;
    let mut form = Form::of(sent);
    let elsewhere = decision.elsewhere(task, &mut form);
    Proposal {
        chapter: Chapter::Tasks,
        title: format!("What would happen if I {}?", decision.title(task)),
        about: (
            format!(
                "{} {}",
                task.task_type,
                crate::markup::short(&task.task_id.to_string())
            ),
            format!("/tasks/{}", task.task_id),
        ),
        preview: preview(found, decision),
        form,
        button: button(decision),
        did: decision.did(),
        elsewhere,
    }
}

const fn button(decision: &Decision) -> &'static str {
    match decision {
        Decision::Cancel => "Cancel the task",
        Decision::Retry => "Let it go on",
        Decision::Undo => "Have it undone",
        Decision::StepDone(_) => "It is done",
        Decision::StepUndone(_) | Decision::Settled(SettledAs::Undone) => "It is undone",
        Decision::StepSkipped(_) => "Leave it as it is",
        Decision::Settled(_) => "Settle it",
        Decision::Signal(_) => "Answer",
        Decision::Recount => "Count anew",
        Decision::RunAgain => "Run it again",
    }
}

/// What is to be different in the request, of which nothing has to be.
fn changes(form: &mut Form<'_>, of: &str) -> Option<Value> {
    let label = html! { "Other fields of the request" span.quiet { ", as a JSON merge patch; empty: " (of) } };
    form.json("patch", label, "")
}

/// The step from which it runs again; empty: the start.
fn from(form: &mut Form<'_>, task: &TaskView) -> String {
    let start = (String::new(), "the start".to_owned());
    let steps = task.steps.iter().skip(1).map(|step| {
        let text = format!("{}, with what the steps before it gave", step.name);
        (step.name.clone(), text)
    });
    let all: Vec<_> = [start].into_iter().chain(steps).collect();
    form.choice("from", "From", &all, "")
}

/// What would follow, from the plan of the interface.
fn preview(found: &Found, decision: &Decision) -> Markup {
    let undoes = |but: Option<&str>| undone(found.plan.as_ref(), but);
    html! {
        p { (decision.leads_to()) }
        @match decision {
            Decision::Cancel | Decision::Undo => (undoes(None)),
            Decision::Retry if found.task.status == TaskStatus::CompensationFailed => (undoes(None)),
            Decision::Retry => (again(found)),
            Decision::StepUndone(step) | Decision::StepSkipped(step) => (undoes(Some(step))),
            Decision::Settled(_) => (left(found.plan.as_ref())),
            Decision::StepDone(_) | Decision::Signal(_) | Decision::Recount | Decision::RunAgain => "",
        }
    }
}
