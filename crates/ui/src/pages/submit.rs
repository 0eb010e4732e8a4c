//! Submitting a task: a form for types that take files, JSON for the others. What is sent goes to the
//! interface as it came. Must not check a request.

use super::part;
use crate::elsewhere::Elsewhere;
use crate::failed::{Answer, Failed};
use crate::forms;
use crate::layout::{self, Chapter};
use crate::markup::empty;
use crate::query::{Fields, segment};
use crate::shell::TOKEN;
use crate::visit::Visit;
use actix_web::body::to_bytes;
use actix_web::http::Method;
use actix_web::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::ProblemCode;
use counterstep_contracts::access::Role;
use counterstep_contracts::declaration::kebab_case;
use counterstep_contracts::http::{Accepted, Page};
use maud::{Markup, html};
use serde_json::{Map, Value, json};

pub(crate) async fn types(request: HttpRequest) -> Answer {
    let visit = Visit::of(&request).await?;
    visit.needs(Role::Submit)?;
    let found = visit.get::<Page<Value>>("/api/task-types").await?;
    let body = html! {
        div.head { h1 { "Submit a task" } }
        @if found.items.is_empty() { (empty("This server knows no type.")) }
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
struct Taken {
    /// An example of its request.
    example: Value,
    /// The schema of its form, where it takes files.
    form: Option<Value>,
}

async fn taken(visit: &Visit, route: &str) -> Result<Taken, Failed> {
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
        Value::Null => sample(&document, &content["application/json"]["schema"], 0),
        example => example.clone(),
    };
    Ok(Taken { example, form })
}

fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let reference = schema["$ref"].as_str().and_then(|it| it.strip_prefix('#'));
    let found = reference.and_then(|pointer| document.pointer(pointer));
    found.unwrap_or(schema)
}

/// A value of a schema, to begin with.
fn sample(document: &Value, schema: &Value, depth: u32) -> Value {
    let schema = resolved(document, schema);
    if depth > 8 {
        return Value::Null;
    }
    for given in ["example", "default", "const"] {
        if let Some(value) = schema.get(given) {
            return value.clone();
        }
    }
    if let Some(first) = schema["enum"].as_array().and_then(|all| all.first()) {
        return first.clone();
    }
    for choice in ["anyOf", "oneOf", "allOf"] {
        if let Some(first) = schema[choice].as_array().and_then(|all| all.first()) {
            return sample(document, first, depth + 1);
        }
    }
    let kind = schema["type"]
        .as_str()
        .or_else(|| schema["type"][0].as_str());
    match kind {
        Some("object") => {
            let properties = schema["properties"].as_object();
            let fields = properties.into_iter().flatten();
            let fields = fields.map(|(name, of)| (name.clone(), sample(document, of, depth + 1)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Some("array") => json!([]),
        Some("string") => json!(""),
        Some("integer" | "number") => json!(schema["minimum"].as_i64().unwrap_or(1)),
        Some("boolean") => json!(false),
        _ => Value::Null,
    }
}

pub(crate) async fn page(request: HttpRequest) -> Answer {
    let visit = Visit::of(&request).await?;
    shown(&visit, None, None).await
}

/// The page; with what was refused, and what was sent, where it was sent before.
async fn shown(visit: &Visit, failed: Option<&Failed>, text: Option<&str>) -> Answer {
    visit.needs(Role::Submit)?;
    // By its route, or by its name, which an address takes too.
    let route = kebab_case(part(&visit.request, "type"));
    let taken = taken(visit, &route).await?;
    let path = format!("/submit/{}", segment(&route));
    let elsewhere = elsewhere(&route, &taken);
    let problem = failed.and_then(Failed::problem);
    let body = html! {
        section.sheet.decision {
            p.up { a href=(visit.at("/submit")) { "Submit a task" } }
            h1 { (route) }
            @if let Some(problem) = problem {
                p.wrong role="alert" {
                    b { (problem.title) } ": " (problem.detail)
                    @if let Some(pointer) = &problem.pointer { " (" code { (pointer) } ")" }
                }
            }
            @match &taken.form {
                Some(schema) => (form(visit, &path, schema)),
                None => form method="post" action=(visit.at(&path)) {
                    (forms::token(visit))
                    label for="request" { "Request" span.quiet { ", as JSON" } }
                    textarea #request.code name="request" rows="12" spellcheck="false" required {
                        @match text { Some(text) => (text), None => (format!("{:#}", taken.example)), }
                    }
                    label for="key" { "Idempotency key" span.quiet { ", so that a second time makes no second task" } }
                    input #key name="key" maxlength="255";
                    label for="label" { "Labels" span.quiet { ", as order=4711, urgent=yes" } }
                    input #label name="label";
                    div.buttons { button.primary type="submit" { "Submit" } }
                },
            }
            (elsewhere.shown(visit))
        }
    };
    let mut answer = layout::page(&visit.shell, Chapter::Tasks, &route, body);
    if let Some(failed) = failed {
        *answer.status_mut() = actix_web::ResponseError::status_code(failed);
    }
    Ok(answer)
}

fn elsewhere(route: &str, taken: &Taken) -> Elsewhere {
    let path = format!("/api/tasks/{}", segment(route));
    match &taken.form {
        Some(_) => Elsewhere::new(
            "POST",
            path,
            &["tasks", "submit", route, "--file", "files=PATH"],
        ),
        None => {
            let words = ["tasks", "submit", route, "--request", "request.json"];
            Elsewhere::new("POST", path, &words).body(taken.example.clone())
        }
    }
}

/// A form of the type's own fields. The browser sends it as it stands; its token is in the address, since a
/// field of ours would be one that the type does not know.
fn form(visit: &Visit, path: &str, schema: &Value) -> Markup {
    let action = format!("{}?{TOKEN}={}", visit.at(path), visit.shell.token);
    let required = |name: &str| {
        let all = schema["required"].as_array();
        all.is_some_and(|all| all.iter().any(|it| it == name))
    };
    // Texts go before files.
    let fields = schema["properties"].as_object().into_iter().flatten();
    let (files, texts): (Vec<_>, Vec<_>) =
        fields.partition(|(_, of)| is_file(of) || is_file(&of["items"]));
    html! {
        form method="post" enctype="multipart/form-data" action=(action) {
            @for (name, of) in texts {
                label for={ "f-" (name) } { (name) @if let Some(about) = of["description"].as_str() { span.quiet { ", " (about) } } }
                input id={ "f-" (name) } name=(name) required[required(name)];
            }
            @for (name, of) in files {
                label for={ "f-" (name) } { (name) }
                input id={ "f-" (name) } type="file" name=(name) multiple[of["type"] == "array"] required[required(name)];
            }
            div.buttons { button.primary type="submit" { "Submit" } }
        }
    }
}

fn is_file(of: &Value) -> bool {
    of["format"] == "binary"
        || of["contentMediaType"].is_string()
        || of["contentEncoding"] == "binary"
}

pub(crate) async fn post(request: HttpRequest, payload: web::Payload) -> Answer {
    let visit = Visit::of(&request).await?;
    let kind = request
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|it| it.to_str().ok());
    let is_form = kind.is_some_and(|kind| kind.starts_with("multipart/form-data"));
    if is_form {
        return uploaded(&visit, payload).await;
    }
    let fields = forms::read(&visit, payload).await?;
    let text = fields.get("request").unwrap_or_default().to_owned();
    let mut headers = visit.headers();
    for (name, field) in [("idempotency-key", "key"), ("counterstep-label", "label")] {
        let value = fields
            .get(field)
            .map(actix_web::http::header::HeaderValue::try_from);
        match value {
            None => {}
            Some(Ok(value)) => {
                headers.insert(
                    actix_web::http::header::HeaderName::from_static(name),
                    value,
                );
            }
            Some(Err(_)) => {
                let failed = visit.refused(
                    ProblemCode::InvalidRequest,
                    &format!("`{field}` cannot stand in a header"),
                );
                return shown(&visit, Some(&failed), Some(&text)).await;
            }
        }
    }
    let json = actix_web::http::header::HeaderValue::from_static("application/json");
    headers.insert(CONTENT_TYPE, json);
    let body = crate::visit::whole(text.clone());
    let called = visit.call(Method::POST, &path(&visit), headers, body).await;
    accepted(&visit, called, Some(&text)).await
}

fn path(visit: &Visit) -> String {
    format!("/api/tasks/{}", segment(part(&visit.request, "type")))
}

/// The form of a browser, on to the interface as it arrives.
async fn uploaded(visit: &Visit, payload: web::Payload) -> Answer {
    let query = Fields::of(visit.request.query_string());
    visit.check_token(query.get(TOKEN).unwrap_or_default())?;
    let mut headers = visit.headers();
    for name in [CONTENT_TYPE, CONTENT_LENGTH] {
        if let Some(value) = visit.request.headers().get(&name) {
            headers.insert(name, value.clone());
        }
    }
    let called = visit
        .call(Method::POST, &path(visit), headers, payload.into_inner())
        .await;
    accepted(visit, called, None).await
}

async fn accepted(
    visit: &Visit,
    called: Result<HttpResponse, Failed>,
    text: Option<&str>,
) -> Answer {
    let answer = match called {
        Ok(answer) => answer,
        Err(failed) if failed.problem().is_some_and(|it| it.status < 500) => {
            return shown(visit, Some(&failed), text).await;
        }
        Err(failed) => return Err(failed),
    };
    let bytes = to_bytes(answer.into_body()).await.unwrap_or_default();
    let accepted: Accepted = serde_json::from_slice(&bytes).map_err(|error| {
        tracing::error!(%error, "the answer to a submission is not of its form");
        visit.refused(
            ProblemCode::Internal,
            "the answer cannot be read: the log has the details",
        )
    })?;
    Ok(super::done(
        visit,
        &format!("/tasks/{}", accepted.task_id),
        "submitted",
    ))
}
