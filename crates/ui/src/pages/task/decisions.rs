//! What may be decided about a task: the moves that the interface offers of it, each with what it would lead to, before it is
//! made. Must not know which move fits which task.

use super::super::confirm::{self, Form, Proposal};
use super::super::schema_fields::{self, Typed};
use super::task_data::Found;
use super::would_run::{again, left, undone};
use crate::equivalents::Equivalents;
use crate::failed::{Answer, Failed};
use crate::forms;
use crate::layout::Chapter;
use crate::markup::{glyph, number, plain};
use crate::notice;
use crate::page_request::PageRequest;
use crate::query::{Address, Fields};
use actix_web::{HttpRequest, web};
use counterstep_contracts::access::Role;
use counterstep_contracts::commands::WHOLE_BODY;
use counterstep_contracts::http::TaskView;
use counterstep_contracts::operator::OperatorMove;
use counterstep_contracts::{ProblemCode, TaskStatus};
use maud::{Markup, html};
use serde_json::{Value, json};

/// The moves of the task itself, and not of another one that it waits for.
fn moves(found: &Found) -> impl Iterator<Item = &OperatorMove> {
    let address = format!("/api/tasks/{}", found.task.task_id);
    let all = found.why.iter().flat_map(|why| &why.operator_can);
    all.filter(move |can| {
        let behind = can.path.strip_prefix(&address);
        behind.is_some_and(|behind| behind.is_empty() || behind.starts_with('/'))
    })
}

/// The decisions of a task's page.
pub(super) fn list(visit: &PageRequest, found: &Found) -> Markup {
    let may = |can: &&OperatorMove| can.role.is_some_and(|role| visit.may(role));
    let allowed: Vec<_> = moves(found).filter(may).collect();
    if allowed.is_empty() {
        return html! {};
    }
    html! {
        section.decisions aria-labelledby="decisions" {
            h2 #decisions { "What would happen if I …" }
            ul {
                @for can in allowed {
                    li {
                        a href=(address(visit, found, can)) { "… " (can.title) "?" }
                        span.quiet { (sentence(&can.does)) }
                    }
                }
            }
            (others(visit, found))
        }
    }
}

/// A text of a move with a capital letter and a full stop.
fn sentence(does: &str) -> String {
    let mut signs = does.chars();
    let first = signs.next().map(char::to_uppercase);
    let first = first.into_iter().flatten();
    first.chain(signs).chain(['.']).collect()
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

fn address(visit: &PageRequest, found: &Found, can: &OperatorMove) -> String {
    let path = format!("/tasks/{}/decide/{}", found.task.task_id, can.name);
    Address::new(visit.at(&path))
        .with_some("step", can.step.as_deref())
        .text()
}

async fn asked(visit: &PageRequest) -> Result<(Found, OperatorMove), Failed> {
    let found = Found::of(visit, super::super::part(&visit.request, "id")).await?;
    let what = super::super::part(&visit.request, "what");
    let query = Fields::of(visit.request.query_string());
    let step = query.get("step");
    let is_it = |can: &&OperatorMove| can.name == what && can.step.as_deref() == step;
    let can = moves(&found).find(is_it).cloned();
    match can {
        Some(can) => {
            visit.needs(can.role.unwrap_or(Role::Admin))?;
            Ok((found, can))
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
    let (found, can) = asked(&visit).await?;
    Ok(confirm::page(&visit, &proposal(&found, &can, None), None))
}

pub(crate) async fn post(request: HttpRequest, payload: web::Payload) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let fields = forms::read(&visit, payload).await?;
    let (found, can) = asked(&visit).await?;
    let proposal = proposal(&found, &can, Some(&fields));
    // The task that the answer names: this one, or the new one that runs it again.
    confirm::send_to(&visit, &proposal, confirm::new_task).await
}

fn proposal<'a>(found: &Found, can: &'a OperatorMove, sent: Option<&'a Fields>) -> Proposal<'a> {
    let task = &found.task;
    let mut form = Form::of(sent);
    let filled = filled(can, found, &mut form);
    Proposal {
        chapter: Chapter::Tasks,
        title: format!("What would happen if I {}?", can.title),
        about: (
            format!(
                "{} {}",
                task.task_type,
                crate::markup::short(&task.task_id.to_string())
            ),
            format!("/tasks/{}", task.task_id),
        ),
        preview: preview(found, can),
        form,
        button: can.button.clone(),
        did: notice::first_of([&can.name, can.operation.as_deref().unwrap_or_default()]),
        elsewhere: Equivalents::of(&filled),
    }
}

/// The move with what its form holds. What a person is asked for has a field each.
fn filled(can: &OperatorMove, found: &Found, form: &mut Form<'_>) -> OperatorMove {
    let task = &found.task;
    let mut body = can.body.clone();
    for field in &can.asks {
        if field == WHOLE_BODY {
            body = Some(signal(can, found, form).unwrap_or_default());
            continue;
        }
        let body = body.get_or_insert_with(|| json!({}));
        let value = match field.as_str() {
            "from" => from(form, task),
            field => {
                let at_first = body.get(field).map_or_else(String::new, Value::to_string);
                form.json(field, label(field, can), &at_first, !at_first.is_empty())
            }
        };
        if let Some(value) = value {
            body[field] = value;
        }
    }
    // A person's own JSON may have a field of this name.
    let has_note = can
        .body
        .as_ref()
        .is_some_and(|own| own.get("note").is_some());
    if let Some(body) = body.as_mut().filter(|_| has_note) {
        body["note"] = Value::String(form.note());
    }
    OperatorMove {
        body,
        asks: Vec::new(),
        ..can.clone()
    }
}

/// The body of a signal: by its schema, where the type of the task is known as it was submitted and has one.
fn signal(can: &OperatorMove, found: &Found, form: &mut Form<'_>) -> Option<Value> {
    let step = can.step.as_deref().unwrap_or_default();
    let declared = found.declaration.as_ref();
    let schema = declared.and_then(|it| it["signals"].get(step));
    let Some(schema) = schema else {
        return form.json(WHOLE_BODY, label(WHOLE_BODY, can), "", true);
    };
    let legend = html! { "Answer for " code { (step) } };
    let typed = Typed {
        document: schema,
        schema,
        // What one press sends is an answer: a person enters it.
        example: None,
    };
    schema_fields::value(form, WHOLE_BODY, &legend, typed, None)
}

fn label(field: &str, can: &OperatorMove) -> Markup {
    let step = can.step.as_deref().unwrap_or_default();
    let typed = html! { span.quiet { ", as JSON of its declared type" } };
    match field {
        WHOLE_BODY => html! { "Answer for " code { (step) } (typed) },
        "output" => html! { "Output of " code { (step) } (typed) },
        "patch" => html! {
            "Other fields of the request" span.quiet { ", as a JSON merge patch; empty: it stays as it is" }
        },
        field => html! { (field) span.quiet { ", as JSON" } },
    }
}

/// The step from which it runs again; none: the start.
fn from(form: &mut Form<'_>, task: &TaskView) -> Option<Value> {
    let start = (String::new(), "the start".to_owned());
    let steps = task.steps.iter().skip(1).map(|step| {
        let text = format!("{}, with what the steps before it gave", step.name);
        (step.name.clone(), text)
    });
    let all: Vec<_> = [start].into_iter().chain(steps).collect();
    let step = form.choice("from", "From", &all, "");
    (!step.is_empty()).then_some(Value::String(step))
}

/// What would follow, from the plan of the interface.
fn preview(found: &Found, can: &OperatorMove) -> Markup {
    let undoes = |but: Option<&str>| undone(found.plan.as_ref(), but);
    let undo_goes_on = found.task.status == TaskStatus::CompensationFailed;
    html! {
        p { (sentence(&can.does)) }
        @match can.name.as_str() {
            "cancel" | "undo" => (undoes(None)),
            "retry" if undo_goes_on => (undoes(None)),
            "retry" => (again(found)),
            "step-undone" | "step-skipped" => (undoes(can.step.as_deref())),
            name if name.starts_with("settle-") => (left(found.plan.as_ref())),
            _ => "",
        }
    }
}
