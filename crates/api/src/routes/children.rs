//! `GET /api/tasks/{id}/children`: pages of the tasks that a task has submitted, in the order of its
//! steps and of their places.

use super::address::{load, task_id};
use super::answer::Answer;
use super::list::{limit_of, status_of};
use crate::app_state::Api;
use crate::caller::Authenticated;
use crate::cursor;
use crate::query::Params;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::StepNo;
use counterstep_contracts::http::Page;
use counterstep_kernel::ports::{ChildCount, ChildQuery, StoreError};
use counterstep_kernel::record::TaskRecord;
use counterstep_operations::{Refused, invalid, task_view};

pub(super) async fn get(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
) -> Answer {
    let parent = task_id(&request)?;
    let params = Params::of_list(&request, &["step", "limit", "cursor"], &["status"])?;
    let limit = limit_of(&params)?;
    let statuses = params.all("status").map(status_of);
    let statuses = statuses.collect::<Result<_, _>>()?;
    let record = load(&api, &caller, parent).await?;
    let step = params.get("step").map(|name| step_of(&record, name));
    let mut query = ChildQuery {
        parent,
        step: step.transpose()?,
        statuses,
        after: None,
        // One more than is shown, to know whether there is a next page.
        limit: limit + 1,
    };
    query.after = params
        .get("cursor")
        .map(|text| cursor::read_child(text, &query))
        .transpose()?;
    let mut lines = api.engine.ports.store.children(&query).await?;
    let has_more = lines.len() > limit as usize;
    lines.truncate(limit as usize);
    let last = lines.last().filter(|_| has_more);
    let next_cursor = last.map(|last| cursor::after_child((last.step, last.no), &query));
    let items = lines.into_iter();
    let items = items.map(|line| task_view::child(&record, line)).collect();
    Ok(HttpResponse::Ok().json(Page { items, next_cursor }))
}

/// How the tasks stand that a task has submitted. Its rows say whether there are any.
pub(super) async fn counts(api: &Api, record: &TaskRecord) -> Result<Vec<ChildCount>, StoreError> {
    let mut steps = record.steps.iter();
    if steps.any(|step| step.children.is_some_and(|children| children.started > 0)) {
        api.engine.ports.store.child_counts(record.task.id).await
    } else {
        Ok(Vec::new())
    }
}

fn step_of(record: &TaskRecord, name: &str) -> Result<StepNo, Refused> {
    let step = record.steps.iter().find(|step| step.name == name);
    step.map(|step| step.no).ok_or_else(|| {
        let known: Vec<&str> = record.steps.iter().map(|step| &*step.name).collect();
        invalid(format!("`step` is one of {}", known.join(", "))).at("step")
    })
}
