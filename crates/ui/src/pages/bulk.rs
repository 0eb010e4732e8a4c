//! An operation on many tasks before it is started: what it would be for, what it would lead to, and its pace. Must not hold what it
//! shows.

use super::confirm::{self, Form, Proposal};
use crate::equivalents::Equivalents;
use crate::failed::{Answer, Failed};
use crate::forms;
use crate::layout::Chapter;
use crate::markup::{number, task_link};
use crate::page_request::PageRequest;
use crate::query::{Fields, segment};
use actix_web::http::Method;
use actix_web::{HttpRequest, web};
use counterstep_contracts::access::Role;
use counterstep_contracts::bulk::{Amount, BulkPreview, BulkUndo};
use counterstep_contracts::operation::Operation;
use counterstep_contracts::operation::bulk::StartBulkOperation;
use counterstep_contracts::operator::OperatorMove;
use counterstep_contracts::{Labels, ProblemCode};
use maud::{Markup, html};
use serde_json::{Value, json};

/// The actions, each with what it does to a task.
pub(crate) const ACTIONS: &[(&str, &str, &str)] = &[
    (
        "redrive",
        "redrive them",
        "Each goes on from the steps that it has completed, with its retries anew; where an undo gave up, the undo is tried again.",
    ),
    (
        "resolve",
        "settle them by hand",
        "Each ends as resolved. Nothing more runs.",
    ),
    (
        "cancel",
        "cancel them",
        "The step of each is told to stop, and what it has done is undone. What waits for a person is not among them.",
    ),
    (
        "run-again",
        "run them again",
        "For each a new task does the same from the start, with copies of its files. What has ended stays as it is.",
    ),
];

/// Parameters that there may be one of.
const ONCE: &[&str] = &[
    "action",
    "group",
    "type",
    "failure_class",
    "failure_text",
    "since",
    "until",
    "as",
];

/// The body that the parameters of its page ask for. One that it does not know would have narrowed the tasks.
fn body(query: &Fields) -> Result<Value, (ProblemCode, String)> {
    let names: Vec<_> = query.names().collect();
    let is_known = |name: &str| match ONCE.contains(&name) {
        true => names.iter().filter(|other| **other == name).count() == 1,
        false => ["label", "status"].contains(&name),
    };
    if let Some(odd) = names.iter().find(|name| !is_known(name)) {
        let why = format!("`{odd}` cannot be asked for, or not twice");
        return Err((ProblemCode::MalformedParameter, why));
    }
    let action = query.get("action").unwrap_or("redrive");
    if !ACTIONS.iter().any(|(name, ..)| *name == action) {
        let why = format!("there is no action `{action}`");
        return Err((ProblemCode::MalformedParameter, why));
    }
    let mut body = json!({ "action": action });
    if let Some(group) = query.get("group") {
        body["group"] = json!(group);
    }
    let mut filter = serde_json::Map::new();
    for name in ["type", "failure_class", "failure_text", "since", "until"] {
        if let Some(value) = query.get(name) {
            filter.insert(name.to_owned(), json!(value));
        }
    }
    let labels = Labels::of_pairs(query.all("label"));
    let labels = labels.map_err(|error| (ProblemCode::InvalidLabel, error.to_string()))?;
    if !labels.is_empty() {
        filter.insert("labels".to_owned(), json!(labels));
    }
    let statuses: Vec<_> = query.all("status").collect();
    if !statuses.is_empty() {
        filter.insert("status".to_owned(), json!(statuses));
    }
    if !filter.is_empty() {
        body["filter"] = Value::Object(filter);
    }
    Ok(body)
}

async fn asked<'a>(visit: &PageRequest, sent: Option<&'a Fields>) -> Result<Proposal<'a>, Failed> {
    visit.needs(Role::Operate)?;
    let query = Fields::of(visit.request.query_string());
    let mut body = body(&query).map_err(|(code, why)| visit.refused(code, &why))?;
    let action = body["action"].as_str().unwrap_or_default().to_owned();
    let mut form = Form::of(sent);
    if action == "resolve" {
        body["as"] = json!(settled(&mut form, &query));
    }
    if let Some(pace) = pace(&mut form) {
        body["pace"] = pace;
    }
    let mut look = body.clone();
    look["note"] = json!("preview");
    look["preview"] = json!(true);
    let found = visit
        .json::<BulkPreview>(Method::POST, "/api/bulk-operations", Some(&look))
        .await?;
    let known = ACTIONS.iter().find(|(name, ..)| *name == action);
    let (_, title, does) = known.copied().unwrap_or(("", "do this", ""));
    let start = OperatorMove {
        operation: Some(StartBulkOperation::ABOUT.id.to_owned()),
        path: StartBulkOperation::ABOUT.path.to_owned(),
        body: Some(body),
        ..OperatorMove::default()
    };
    let elsewhere = Equivalents::of(&start).note(&form.note());
    Ok(Proposal {
        chapter: Chapter::Parked,
        title: format!("What would happen if I {title}?"),
        about: ("Parked".to_owned(), "/parked".to_owned()),
        preview: preview(visit, &found, does),
        form,
        button: match action.as_str() {
            "redrive" => "Redrive all of them",
            "resolve" => "Settle all of them",
            "cancel" => "Cancel all of them",
            "run-again" => "Run all of them again",
            _ => "Do it for all of them",
        }
        .to_owned(),
        did: "started",
        elsewhere,
    })
}

fn preview(visit: &PageRequest, found: &BulkPreview, does: &str) -> Markup {
    html! {
        p.count { b { (number(found.count)) } @if !found.complete { " or more" } @if found.count == 1 { " task" } @else { " tasks" } }
        p { (does) }
        @if let Some(again @ 1..) = found.already_run_again {
            p { (number(again)) " have run again already, as new tasks: they are left out." }
        }
        @if let Some(refused) = found.refused.as_ref().filter(|it| !it.reasons.is_empty()) {
            p { "Would be refused, of " (number(refused.tasks)) " that were looked at:" }
            ul { @for it in &refused.reasons { li { (number(it.tasks)) ": " (it.reason) } } }
        }
        @if let Some(filter) = found.filter.as_ref().and_then(|it| serde_json::to_string(it).ok()).filter(|it| it != "{}") {
            p { "Those that fit " code { (filter) } }
        }
        @for it in &found.causes {
            p { b { (number(it.count)) } " " (it.task_type) ": " (it.cause) @if !it.text.is_empty() { " · " span.message { (it.text) } } }
        }
        @if let Some(undo) = &found.undo { (what_if(visit, undo)) }
        p.quiet { "Tasks that come to this later are not among them, and others may change some before their turn comes." }
        @if !found.tasks.is_empty() {
            p { "The last submitted: " @for task in &found.tasks { (task_link(&visit.shell.base, *task)) " " } }
        }
    }
}

/// What would become of the tasks: from where they go on, what is undone, and which differ.
fn what_if(visit: &PageRequest, undo: &BulkUndo) -> Markup {
    let some = |count: u64, what: &str| match count {
        0 => String::new(),
        count => format!(", {} {what}", number(count)),
    };
    html! {
        @if undo.unknown > 0 { p { "Of " (number(undo.unknown)) " no code is known here: what would become of them is not known." } }
        p { "Of " (number(undo.tasks)) " that were looked at" (Amount::listed(&undo.amounts)) ":" }
        ul {
            @for it in &undo.goes_on {
                li { (number(it.tasks)) " go on from " code { (it.step) } " of " (it.task_type) (some(it.in_doubt, "in doubt")) }
            }
            @for it in &undo.steps {
                li {
                    (number(it.tasks)) " × " code { (it.undo) } " for " code { (it.step) } " of " (it.task_type) (Amount::listed(&it.amounts))
                    (some(it.in_doubt, "in doubt")) (some(it.gave_up, "gave up before"))
                }
            }
            @if undo.goes_on.is_empty() && undo.steps.is_empty() { li { "Nothing is undone." } }
        }
        @if !undo.unusual.is_empty() {
            p { "These differ from most:" }
            ul { @for it in &undo.unusual { li { (task_link(&visit.shell.base, it.task_id)) " " (it.differs) } } }
        }
    }
}

/// What has become of the tasks, which a person says.
fn settled(form: &mut Form<'_>, query: &Fields) -> String {
    let all = [
        ("skipped", "left as they are, with their effects"),
        ("undone", "undone by hand"),
        ("done", "done by hand"),
        ("not_needed", "not needed any more"),
    ];
    let all = all.map(|(value, text)| (value.to_owned(), text.to_owned()));
    let at_first = query.get("as").unwrap_or("skipped");
    form.choice("as", "What has become of them", &all, at_first)
}

/// How fast it goes, where a person says so.
fn pace(form: &mut Form<'_>) -> Option<Value> {
    let mut pace = serde_json::Map::new();
    for (name, label, optional) in [
        (
            "sample",
            "A sample of",
            " tasks first; then it pauses until a person lets it go on",
        ),
        ("per_minute", "At most", " tasks a minute"),
        (
            "max_failures",
            "It pauses at",
            " tasks that have gone wrong",
        ),
    ] {
        let text = form.number(name, html! { (label) span.quiet { (optional) } }, "");
        if text.is_empty() {
            continue;
        }
        match text.parse::<u32>() {
            Ok(number) => drop(pace.insert(name.to_owned(), json!(number))),
            Err(_) => {
                let why = format!("`{name}` is a number from 1");
                form.refuse(ProblemCode::InvalidRequest, why);
            }
        }
    }
    (!pace.is_empty()).then_some(Value::Object(pace))
}

pub(crate) async fn new(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let proposal = asked(&visit, None).await?;
    Ok(confirm::page(&visit, &proposal, None))
}

pub(crate) async fn start(request: HttpRequest, payload: web::Payload) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let fields = forms::read(&visit, payload).await?;
    let proposal = asked(&visit, Some(&fields)).await?;
    let to = |answer: &Value| {
        answer["id"]
            .as_str()
            .map(|id| format!("/bulk/{}", segment(id)))
    };
    confirm::send_to(&visit, &proposal, to).await
}
