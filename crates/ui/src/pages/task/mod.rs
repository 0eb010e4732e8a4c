//! A task: its picture, what it waits for, what may be decided about it, and all that is known of it. Must
//! not hold what it shows.

pub(crate) mod at_entry;
mod audit_section;
pub(crate) mod compare;
pub(crate) mod decisions;
mod head;
mod in_doubt_section;
mod log;
pub(crate) mod raw;
mod steps;
mod task_data;
mod would_run;

pub(crate) use task_data::Found;

use crate::failed::Answer;
use crate::layout::{self, Chapter};
use crate::markup::{json_section, json_with};
use crate::page_request::PageRequest;
use crate::picture;
use actix_web::HttpRequest;
use actix_web::dev::Payload;
use actix_web::http::header::{IF_NONE_MATCH, IF_RANGE, RANGE};
use counterstep_contracts::http::{AuditTrail, Payloads, StepOutput};
use maud::{Markup, html};
use serde_json::Value;

pub(crate) async fn get(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let found = Found::of(&visit, super::part(&request, "id")).await?;
    let id = found.task.task_id;
    let title = format!(
        "{} {}",
        found.task.task_type,
        crate::markup::short(&id.to_string())
    );
    let payloads = payloads(&visit, &found).await;
    let body = html! {
        div.task data-live=(visit.at(&format!("/live/tasks/{id}"))) { (live_part(&visit, &found)) }
        (payloads)
    };
    Ok(layout::page(&visit.shell, Chapter::Tasks, &title, body))
}

/// What is kept up to date.
pub(crate) fn live_part(visit: &PageRequest, found: &Found) -> Markup {
    let story = found.story();
    let picture = picture::picture(&story);
    html! {
        div #task {
            (head::of(visit, found))
            (picture::draw(&picture, found.task.status))
            (in_doubt_section::of(visit, found, &story))
            (decisions::list(visit, found))
            (steps::of(&story))
            (log::of(found))
            (audit_section::of(visit, found))
        }
    }
}

/// What was handed in and what came out of it.
async fn payloads(visit: &PageRequest, found: &Found) -> Markup {
    let path = format!("/api/tasks/{}/payloads", found.task.task_id);
    let payloads = visit.find::<Payloads>(&path).await;
    let files = files(&found.task.response);
    let base = visit.at(&format!("/tasks/{}/result", found.task.task_id));
    let raw = |of: &str| visit.at(&format!("/tasks/{}/raw/{of}", found.task.task_id));
    let output = |it: &StepOutput| {
        let step = found.task.steps.iter().find(|step| step.name == it.step);
        let raw = step.map_or_else(String::new, |step| {
            raw(&format!("steps/{}/output", step.no))
        });
        let title = html! { "Output of " code { (it.step) } };
        let what = format!("the output of {}", it.step);
        json_section(&title, &what, &it.output, &raw)
    };
    html! {
        section.payloads aria-labelledby="payloads" {
            h2 #payloads { "Request and outputs" }
            @if let Some(payloads) = &payloads {
                (json_section(&html! { "Request" }, "the request", &payloads.request, &raw("request")))
                @for it in &payloads.outputs { (output(it)) }
            }
            @if let Some(response) = &found.task.response {
                details open { summary { "Response" } (json_with("the response", response, &raw("response"))) }
            }
            @if !files.is_empty() {
                h3 { "Files" }
                ul.files {
                    @for (place, name, size) in &files {
                        li { a href={ (base) "/" (place) } download { (name) } " " span.quiet { (size) } }
                    }
                }
            }
        }
    }
}

/// The stored files of a response: where each is, its name, and its size.
fn files(response: &Option<Value>) -> Vec<(String, String, String)> {
    let fields = response.iter().filter_map(Value::as_object).flatten();
    let mut files = Vec::new();
    let mut add = |place: String, file: &Value| {
        let (Some(name), Some(size)) = (file["name"].as_str(), file["size"].as_u64()) else {
            return;
        };
        if file["bucket"].is_string() || file["key"].is_string() || file["sha256"].is_string() {
            files.push((
                place,
                name.to_owned(),
                format!("{} bytes", crate::markup::number(size)),
            ));
        }
    };
    for (field, value) in fields {
        add(crate::query::segment(field), value);
        for (at, file) in value.as_array().into_iter().flatten().enumerate() {
            add(format!("{}/{at}", crate::query::segment(field)), file);
        }
    }
    files
}

/// All entries of the audit.
pub(crate) async fn audit(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let id = crate::query::segment(super::part(&request, "id"));
    let trail = visit
        .get::<AuditTrail>(&format!("/api/tasks/{id}/audit"))
        .await?;
    let body = html! {
        p.up { a href=(visit.at(&format!("/tasks/{id}"))) { "The task" } }
        h1 { "Audit" }
        (audit_section::table(&trail.entries))
    };
    Ok(layout::page(&visit.shell, Chapter::Tasks, "Audit", body))
}

/// A file of the response, as the interface hands it over.
pub(crate) async fn file(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let id = crate::query::segment(super::part(&request, "id"));
    let place = super::part(&request, "place")
        .split('/')
        .map(crate::query::segment);
    let place = place.collect::<Vec<_>>().join("/");
    let mut headers = visit.headers();
    for name in [RANGE, IF_RANGE, IF_NONE_MATCH] {
        if let Some(value) = request.headers().get(&name) {
            headers.insert(name, value.clone());
        }
    }
    let path = format!("/api/tasks/{id}/result/{place}");
    let method = request.method().clone();
    visit.call(method, &path, headers, Payload::None).await
}
