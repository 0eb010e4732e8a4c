//! Submitting a task: a form for types that take files, JSON for the others. What is sent goes to the
//! interface as it came. Must not check a request.

use super::confirm::{self, Form, Proposal};
use super::{part, parts, types};
use crate::equivalents::Equivalents;
use crate::failed::{Answer, Failed};
use crate::forms;
use crate::layout::{self, Chapter};
use crate::markup::empty;
use crate::page_request::PageRequest;
use crate::query::{Fields, segment};
use crate::shell::TOKEN;
use actix_web::http::Method;
use actix_web::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use actix_web::{HttpRequest, web};
use counterstep_contracts::ProblemCode;
use counterstep_contracts::access::Role;
use counterstep_contracts::declaration::kebab_case;
use counterstep_contracts::first_request::{is_file, resolved, sample};
use counterstep_contracts::http::Page;
use maud::html;
use serde_json::{Map, Value};

pub(crate) async fn types(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    visit.needs(Role::Submit)?;
    let found = visit.get::<Page<Value>>("/api/task-types").await?;
    let body = html! {
        div.head { h1 { "Submit a task" } }
        @if found.items.is_empty() { (empty(types::none())) }
        ul.choices {
            @for name in found.items.iter().filter_map(|it| it["name"].as_str()) {
                li { a href=(visit.at(&format!("/submit/{}", kebab_case(name)))) { (name) } }
            }
        }
    };
    Ok(layout::page(
        &visit.shell,
        Chapter::Tasks,
        "Submit a task",
        body,
    ))
}

/// What a type takes, as the document of the interface has it.
pub(super) struct Taken {
    /// An example of its request.
    pub(super) example: Value,
    /// The schema of its request, where it takes JSON.
    pub(super) schema: Value,
    /// The schema of its form, where it takes files.
    pub(super) form: Option<Value>,
    pub(super) document: Value,
}

pub(super) async fn taken(visit: &PageRequest, route: &str) -> Result<Taken, Failed> {
    let document = visit.get::<Value>("/api/openapi.json").await?;
    let operation = &document["paths"][format!("/api/tasks/{route}")]["post"];
    if operation.is_null() {
        return Err(visit.refused(ProblemCode::NoSuchTaskType, "no task type has this name"));
    }
    let content = &operation["requestBody"]["content"];
    let schema = |media: &str| resolved(&document, &content[media]["schema"]).clone();
    let form = content
        .get("multipart/form-data")
        .map(|_| schema("multipart/form-data"));
    let example = match &content["application/json"]["example"] {
        Value::Null => sample(&document, &content["application/json"]["schema"]),
        example => example.clone(),
    };
    Ok(Taken {
        example,
        schema: content["application/json"]["schema"].clone(),
        form,
        document,
    })
}

pub(crate) async fn page(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let proposal = asked(&visit, None).await?;
    Ok(confirm::page(&visit, &proposal, None))
}

async fn asked<'a>(visit: &PageRequest, sent: Option<&'a Fields>) -> Result<Proposal<'a>, Failed> {
    visit.needs(Role::Submit)?;
    // By its route, or by its name, which an address takes too.
    let route = kebab_case(part(&visit.request, "type"));
    let taken = taken(visit, &route).await?;
    let path = format!("/api/tasks/{}", segment(&route));
    let mut form = Form::of(sent);
    let elsewhere = Equivalents::new("POST", path, &["tasks", "submit", &route]);
    let elsewhere = match &taken.form {
        Some(schema) => with_files(&mut form, &taken.document, schema, elsewhere),
        None => with_json(&mut form, &taken.example, elsewhere),
    };
    Ok(Proposal {
        chapter: Chapter::Tasks,
        title: route,
        about: ("Submit a task".to_owned(), "/submit".to_owned()),
        preview: html! {},
        form,
        button: "Submit".to_owned(),
        did: "submitted",
        elsewhere,
    })
}

fn with_json(form: &mut Form<'_>, example: &Value, elsewhere: Equivalents) -> Equivalents {
    let label = html! { "Request" span.quiet { ", as JSON" } };
    let request = form.text("request", label, &format!("{example:#}"), true);
    let mut elsewhere = elsewhere.request(request.trim().to_owned());
    let label =
        html! { "Idempotency key" span.quiet { ", so that a second time makes no second task" } };
    let key = form.line("key", label, "", "");
    if !key.is_empty() {
        elsewhere = elsewhere
            .flag("--key", &key)
            .header("idempotency-key", &key);
    }
    let label = html! { "Labels" span.quiet { ", as order=4711, urgent=yes" } };
    let labels = form.line("label", label, "", "");
    if labels.is_empty() {
        return elsewhere;
    }
    let elsewhere = elsewhere.header("counterstep-label", &labels);
    // Without quotes a comma separates labels. Only the HTTP interface accepts quotes.
    if labels.contains('"') {
        return elsewhere.only_http();
    }
    let all = labels.split(',').map(str::trim);
    let all = all.filter(|label| !label.is_empty());
    all.fold(elsewhere, |it, label| it.flag("--label", label))
}

/// A form of the type's own fields. The browser sends it as it stands. A file is the person's, and only its place
/// among the fields is shown.
fn with_files(
    form: &mut Form<'_>,
    document: &Value,
    schema: &Value,
    elsewhere: Equivalents,
) -> Equivalents {
    form.has_files = true;
    let required = |name: &str| {
        let all = schema["required"].as_array();
        all.is_some_and(|all| all.iter().any(|it| it == name))
    };
    // Texts go before files.
    let fields = schema["properties"].as_object().into_iter().flatten();
    let (files, texts): (Vec<_>, Vec<_>) = fields.partition(|(_, of)| is_file(document, of));
    let (mut parts, mut request) = (Vec::new(), Map::new());
    for (name, of) in texts {
        let value = form.value(name, "");
        form.add(html! {
            label for={ "f-" (name) } { (name) @if let Some(about) = of["description"].as_str() { span.quiet { ", " (about) } } }
            input id={ "f-" (name) } name=(name) value=(value) required[required(name)];
        });
        let typed = match of["type"].as_str() {
            Some("string") => None,
            _ => serde_json::from_str(&value).ok(),
        };
        parts.push(["--form-string".to_owned(), format!("{name}={value}")]);
        request.insert(name.clone(), typed.unwrap_or(Value::String(value)));
    }
    let request = (!request.is_empty()).then(|| Value::Object(request).to_string());
    parts.extend(
        files
            .iter()
            .map(|(name, _)| ["-F".to_owned(), format!("{name}=@PATH")]),
    );
    let mut elsewhere = elsewhere.form(parts, request);
    for (name, of) in files {
        form.add(html! {
            label for={ "f-" (name) } { (name) }
            input id={ "f-" (name) } type="file" name=(name) multiple[of["type"] == "array"] required[required(name)];
        });
        elsewhere = elsewhere.flag("--file", &format!("{name}=PATH"));
    }
    elsewhere
}

pub(crate) async fn post(request: HttpRequest, payload: web::Payload) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let kind = request
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|it| it.to_str().ok());
    let is_form = kind.is_some_and(|kind| kind.starts_with("multipart/form-data"));
    if is_form {
        return uploaded(&visit, payload).await;
    }
    let fields = forms::read(&visit, payload).await?;
    let proposal = asked(&visit, Some(&fields)).await?;
    confirm::send_to(&visit, &proposal, confirm::new_task).await
}

/// The form of a browser, on to the interface as it arrives.
async fn uploaded(visit: &PageRequest, payload: web::Payload) -> Answer {
    let query = Fields::of(visit.request.query_string());
    visit.check_token(query.get(TOKEN).unwrap_or_default())?;
    let mut headers = visit.headers();
    for name in [CONTENT_TYPE, CONTENT_LENGTH] {
        if let Some(value) = visit.request.headers().get(&name) {
            headers.insert(name, value.clone());
        }
    }
    let (texts, payload) = parts::texts(payload).await;
    let proposal = asked(visit, Some(&texts)).await?;
    let path = &proposal.elsewhere.path;
    let sent = match visit.call(Method::POST, path, headers, payload).await {
        Ok(answer) => visit.json_of(path, answer).await,
        Err(failed) => Err(failed),
    };
    confirm::answered(visit, &proposal, sent, confirm::new_task)
}
