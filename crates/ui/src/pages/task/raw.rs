//! What went into a task and came out of it as JSON and nothing else, under the rights with which the page of the task shows it. Must
//! not answer markup, nor anything that a browser may take for some.

use super::super::part;
use crate::failed::{Answer, Failed};
use crate::markup::json_text;
use crate::page_request::PageRequest;
use crate::query::segment;
use actix_web::http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use actix_web::{HttpRequest, HttpResponse};
use counterstep_contracts::ProblemCode;
use counterstep_contracts::http::{Payloads, TaskView};
use serde_json::Value;

pub(crate) async fn request(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let payloads = visit.get::<Payloads>(&payloads_of(&visit)).await?;
    answer(&visit, Some(payloads.request))
}

pub(crate) async fn response(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let task = visit.get::<TaskView>(&task_of(&visit)).await?;
    answer(&visit, task.response)
}

pub(crate) async fn output(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let task = visit.get::<TaskView>(&task_of(&visit)).await?;
    let payloads = visit.get::<Payloads>(&payloads_of(&visit)).await?;
    let no = part(&request, "no");
    let step = task.steps.iter().find(|it| it.no.to_string() == no);
    let mut outputs = payloads.outputs.into_iter();
    let output = step.and_then(|step| outputs.find(|it| it.step == step.name));
    answer(&visit, output.map(|it| it.output))
}

fn task_of(visit: &PageRequest) -> String {
    format!("/api/tasks/{}", segment(part(&visit.request, "id")))
}

fn payloads_of(visit: &PageRequest) -> String {
    format!("{}/payloads", task_of(visit))
}

fn answer(visit: &PageRequest, value: Option<Value>) -> Answer {
    let value = value.filter(|it| !it.is_null());
    let value = value.ok_or_else(|| nothing(visit))?;
    Ok(HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, "application/json"))
        .insert_header((CONTENT_DISPOSITION, "inline"))
        .insert_header((X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .insert_header((CACHE_CONTROL, "no-store"))
        .body(json_text(&value)))
}

fn nothing(visit: &PageRequest) -> Failed {
    let why = "the task has no such JSON: nothing was put out, or it was erased";
    visit.refused(ProblemCode::NoSuchRoute, why)
}
