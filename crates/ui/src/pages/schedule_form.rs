//! Making a schedule and changing one: its form, by the declared type of the request, and what is sent. Must not read a cron
//! expression: the interface does, and names the field that it refuses.

use super::confirm::{self, Form, Proposal};
use super::declared::Group;
use super::part;
use super::schedules::{Schedules, next_due};
use super::schema_fields::{self, Typed};
use super::submit::{Taken, taken};
use crate::equivalents::Equivalents;
use crate::failed::{Answer, Failed};
use crate::forms;
use crate::layout::{self, Chapter};
use crate::markup::{empty, plain};
use crate::notice;
use crate::page_request::PageRequest;
use crate::query::{Fields, segment};
use actix_web::{HttpRequest, web};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use counterstep_contracts::declaration::kebab_case;
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::{About, Takes};
use counterstep_contracts::schedule::{NAME, ScheduleSpec, ScheduleView, is_name};
use counterstep_contracts::{Misfire, Overlap, ProblemCode};
use maud::html;
use serde_json::Value;
use sha2::{Digest, Sha256};

const PUT: &str = "putSchedule";

/// The field with a digest of the schedule that an edit was opened with.
const SEEN: &str = "seen";

/// The expression that a new one begins with.
const DAILY: &str = "0 3 * * *";

/// What a form of a schedule is of.
enum Of {
    /// A new one, of the type of this route.
    New(String),
    /// One that there is.
    Kept(Box<ScheduleView>),
}

/// The types that a new schedule may submit; with one, the form.
pub(crate) async fn new(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    needs_role(&visit)?;
    if Fields::of(request.query_string()).get("type").is_none() {
        return choices(&visit).await;
    }
    let proposal = asked(&visit, &new_one(&visit), None).await?;
    Ok(confirm::page(&visit, &proposal, None))
}

pub(crate) async fn make(request: HttpRequest, payload: web::Payload) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let fields = forms::read(&visit, payload).await?;
    let proposal = asked(&visit, &new_one(&visit), Some(&fields)).await?;
    confirm::send(&visit, &proposal).await
}

pub(crate) async fn edit(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let proposal = asked(&visit, &kept(&visit).await?, None).await?;
    Ok(confirm::page(&visit, &proposal, None))
}

pub(crate) async fn change(request: HttpRequest, payload: web::Payload) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let fields = forms::read(&visit, payload).await?;
    let proposal = asked(&visit, &kept(&visit).await?, Some(&fields)).await?;
    confirm::send(&visit, &proposal).await
}

/// Refuses those who may not set one.
fn needs_role(visit: &PageRequest) -> Result<(), Failed> {
    let role = About::of_operation(PUT).and_then(|about| about.access.role());
    role.map_or(Ok(()), |role| visit.needs(role))
}

/// By its route, or by its name, which an address takes too.
fn new_one(visit: &PageRequest) -> Of {
    let query = Fields::of(visit.request.query_string());
    Of::New(kebab_case(query.get("type").unwrap_or_default()))
}

async fn kept(visit: &PageRequest) -> Result<Of, Failed> {
    let path = path(part(&visit.request, "name"));
    let kept = visit.get::<ScheduleView>(&format!("{path}?next=5")).await?;
    Ok(Of::Kept(Box::new(kept)))
}

fn path(name: &str) -> String {
    format!("/api/schedules/{}", segment(name))
}

async fn choices(visit: &PageRequest) -> Answer {
    let found = visit.get::<Page<Value>>("/api/task-types").await?;
    let document = visit.get::<Value>("/api/openapi.json").await?;
    // One that takes files begins with an upload: no schedule has files.
    let takes_json = |route: &String| {
        let operation = &document["paths"][format!("/api/tasks/{route}")]["post"];
        operation["requestBody"]["content"]["application/json"].is_object()
    };
    let names = found.items.iter().filter_map(|it| it["name"].as_str());
    let all: Vec<_> = names
        .map(|name| (name, kebab_case(name)))
        .filter(|(_, route)| takes_json(route))
        .collect();
    let body = html! {
        p.up { a href=(visit.at("/schedules")) { "Schedules" } }
        div.head { h1 { "New schedule" } p.quiet { "Of which task type?" } }
        @if all.is_empty() { (empty("This server knows no type whose tasks begin without files.")) }
        ul.choices {
            @for (name, route) in &all {
                li { a href=(visit.at(&format!("/schedules/new?type={route}"))) { (name) } }
            }
        }
    };
    Ok(layout::page(
        &visit.shell,
        Chapter::Schedules,
        "New schedule",
        body,
    ))
}

async fn asked<'a>(
    visit: &PageRequest,
    of: &Of,
    sent: Option<&'a Fields>,
) -> Result<Proposal<'a>, Failed> {
    needs_role(visit)?;
    let mut form = Form::of(sent);
    let (spec, title, preview) = match of {
        Of::New(route) => (
            ScheduleSpec {
                cron: Some(DAILY.to_owned()),
                ..ScheduleSpec::of(route)
            },
            format!("New schedule of {route}"),
            html! { p { "At each due time it submits a task of " b { (route) } " with this request." } },
        ),
        Of::Kept(it) => (
            it.spec.clone(),
            format!("What would happen if I change {}?", it.name),
            html! {
                p { "Due times from now on are those of the new expression. Tasks that were submitted go on." }
                (next_due(it))
            },
        ),
    };
    let taken = taken(visit, &kebab_case(&spec.task_type)).await?;
    if taken.form.is_some() {
        let why = "its tasks begin with an upload: no schedule submits them";
        return Err(visit.refused(ProblemCode::InvalidRequest, why));
    }
    let name = match of {
        Of::New(route) => new_name(visit, &mut form, route).await,
        Of::Kept(it) => {
            unchanged(&mut form, it);
            it.name.clone()
        }
    };
    let request = match of {
        Of::New(_) => None,
        Of::Kept(it) => Some(&it.spec.request),
    };
    let elsewhere = filled(&mut form, &name, &spec, &taken, request);
    let (label, back) = Schedules::BACK;
    Ok(Proposal {
        chapter: Chapter::Schedules,
        title,
        about: (label.to_owned(), back.to_owned()),
        preview,
        form,
        button: match of {
            Of::New(_) => "Make the schedule".to_owned(),
            Of::Kept(it) => format!("Change {}", it.name),
        },
        did: notice::first_of([PUT, ""]),
        elsewhere,
    })
}

/// An edit sends all of a schedule: what others changed meanwhile would be lost. Its revision grows with each firing too, which changes
/// none of what is sent.
fn unchanged(form: &mut Form<'_>, it: &ScheduleView) {
    let spec = serde_json::to_vec(&it.spec).unwrap_or_default();
    let now = URL_SAFE_NO_PAD.encode(Sha256::digest(spec));
    let seen = form.value(SEEN, &now);
    if seen != now {
        let why = format!(
            "`{}` was changed after this form was opened; expected the one that it shows: open the form again from the list \
             of schedules, and enter the change there",
            it.name
        );
        form.refuse(ProblemCode::InvalidRequest, why);
    }
    form.add(html! { input type="hidden" name=(SEEN) value=(seen); });
}

/// The name of a new one. The interface would change one that there is.
async fn new_name(visit: &PageRequest, form: &mut Form<'_>, route: &str) -> String {
    let label = html! { "Name" span.quiet { ", of A-Z a-z 0-9 . _ -" } };
    let name = form.line("name", label, route, "");
    if !is_name(&name) {
        let why = format!("`name`: `{name}`: {NAME}");
        form.refuse(ProblemCode::InvalidRequest, why);
    } else if form.was_sent("name") {
        match visit.get::<ScheduleView>(&path(&name)).await {
            Ok(_) => {
                let why =
                    format!("`name`: a schedule `{name}` exists: edit it, or choose another name");
                form.refuse(ProblemCode::InvalidRequest, why);
            }
            Err(failed) if failed.problem().is_some_and(|it| it.status == 404) => {}
            Err(_) => {
                let why = format!("whether a schedule `{name}` exists is not known now: try again");
                form.refuse(ProblemCode::Unavailable, why);
            }
        }
    }
    name
}

/// The fields of the form, and what is sent.
fn filled(
    form: &mut Form<'_>,
    name: &str,
    spec: &ScheduleSpec,
    taken: &Taken,
    request: Option<&Value>,
) -> Equivalents {
    let elsewhere = Equivalents::new("PUT", path(name), &["schedules", "set", name]);
    let mut sent = Sent(with(elsewhere, "type", spec.task_type.clone().into()));
    let own = |text: &Option<String>| text.clone().unwrap_or_default();
    let label = html! { "Cron expression" span.quiet { ", as minute, hour, day of the month, month, day of the week; or @daily" } };
    let cron = form.line("cron", label, &own(&spec.cron), DAILY);
    sent.text("cron", &cron, "");
    let label = html! { "Time zone" span.quiet { " of the expression" } };
    let zone = form.line("zone", label, &own(&spec.zone), "UTC");
    sent.text("zone", &zone, "");
    let label = html! { "Or once, at" span.quiet { ", in place of an expression and its zone" } };
    let at = form.line(
        "run_at",
        label,
        &own(&spec.run_at),
        "2026-12-24T18:00:00+01:00",
    );
    sent.text("run_at", &at, "");
    let typed = Typed {
        document: &taken.document,
        schema: &taken.schema,
        example: Some(&taken.example),
    };
    let label = html! { "Request of each task" };
    if let Some(request) = schema_fields::value(form, "request", &label, typed, request) {
        sent.0 = with(sent.0, "request", request);
    }
    policies(form, sent, spec)
}

/// What becomes of due times that come in a bad moment. What is as without a word is left out.
fn policies(form: &mut Form<'_>, mut sent: Sent, spec: &ScheduleSpec) -> Equivalents {
    let usual = ScheduleSpec::of("");
    let word = |it: &str| (it.to_owned(), plain(it));
    let all: Vec<_> = Misfire::ALL.iter().map(|it| word(it.as_str())).collect();
    let misfire = form.choice(
        "misfire",
        "Due times missed by an outage",
        &all,
        spec.misfire.as_str(),
    );
    sent.text("misfire", &misfire, usual.misfire.as_str());
    let all: Vec<_> = Overlap::ALL.iter().map(|it| word(it.as_str())).collect();
    let overlap = form.choice(
        "overlap",
        "Due times while the last task runs",
        &all,
        spec.overlap.as_str(),
    );
    sent.text("overlap", &overlap, usual.overlap.as_str());
    let label = html! { "Late after" span.quiet { ", as 1m: a due time counts as missed then" } };
    let grace = form.line("grace", label, &spec.grace, &usual.grace);
    if grace.is_empty() {
        missing(form, "grace", &usual.grace);
    }
    sent.text("grace", &grace, &usual.grace);
    let label = html! { "Due times that fire at once" span.quiet { " where missed ones catch up, the newest" } };
    let most = form.number("catch_up_limit", label, &spec.catch_up_limit.to_string());
    match most.parse::<u32>() {
        Ok(most) if most != usual.catch_up_limit => {
            sent.0 = with(sent.0, "catch_up_limit", most.into());
        }
        Ok(_) => {}
        Err(_) if most.is_empty() => {
            missing(form, "catch_up_limit", &usual.catch_up_limit.to_string());
        }
        Err(_) => {
            let why = format!("`catch_up_limit`: `{most}` is no number");
            form.refuse(ProblemCode::InvalidRequest, why);
        }
    }
    sent.0
}

/// Without it the interface would take what is usual, which the form had not.
fn missing(form: &mut Form<'_>, field: &str, usual: &str) {
    let why = format!("`{field}` is missing; expected `{usual}` or another value");
    form.refuse(ProblemCode::InvalidRequest, why);
}

/// What is sent.
struct Sent(Equivalents);

impl Sent {
    /// A text; it is left out where it is empty, or what holds without it.
    fn text(&mut self, field: &str, text: &str, usual: &str) {
        if !text.is_empty() && text != usual {
            self.0 = with(self.0.clone(), field, text.into());
        }
    }
}

/// A field of the body, and the flag of the command that has it.
fn with(elsewhere: Equivalents, field: &str, value: Value) -> Equivalents {
    let command = About::of_operation(PUT).and_then(|about| about.command);
    let flags = command.map_or(&[][..], |command| command.flags);
    let Some(flag) = flags.iter().find(|flag| flag.field == field) else {
        return elsewhere.field(field, value).only_http();
    };
    let text = match &value {
        Value::String(text) if matches!(flag.takes, Takes::Word) => text.replace('_', "-"),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    elsewhere.flag(flag.name, &text).field(field, value)
}
