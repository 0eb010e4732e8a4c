//! `GET /api/tasks`: pages of tasks, the newest first.

use super::answer::Answer;
use crate::app_state::Api;
use crate::caller::Authenticated;
use crate::query::Params;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::http::Page;
use counterstep_contracts::{Labels, TaskStatus};
use counterstep_kernel::ports::{FailureFilter, TaskPage, TaskQuery};
use counterstep_operations::filters::{self, declared_name, failure_filter, id_at};
use counterstep_operations::{Refused, cursor, invalid, task_view};

const DEFAULT_LIMIT: u32 = 50;
const MAX_LIMIT: u32 = 200;

pub(super) async fn get(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
) -> Answer {
    let once = [
        "type",
        "since",
        "until",
        "failure_class",
        "failure_text",
        "limit",
        "cursor",
    ];
    let params = Params::of_list(&request, &once, &["status", "label"])?;
    let limit = limit_of(&params)?;
    let mut query = TaskQuery {
        tenant: Some(caller.tenant.clone()),
        task_type: params
            .get("type")
            .map(|name| declared_name(&api.engine, name)),
        statuses: params
            .all("status")
            .map(status_of)
            .collect::<Result<_, _>>()?,
        labels: labels_of(&params)?,
        failure: failure_of(&params)?,
        from: params
            .get("since")
            .map(|text| id_at("since", text))
            .transpose()?,
        before: None,
        // One more than is shown, to know whether there is a next page.
        limit: limit + 1,
    };
    let until = params
        .get("until")
        .map(|text| id_at("until", text))
        .transpose()?;
    let is_narrow = query.task_type.is_some() || query.from.is_some();
    if query.failure.text.is_some() && !is_narrow {
        let detail = "`failure_text` is looked for among the tasks of a `type`, or `since` a time: send one of these";
        return Err(invalid(detail).at("failure_text").into());
    }
    let last = params
        .get("cursor")
        .map(|text| cursor::read(text, cursor::TASKS, &query))
        .transpose()?;
    query.before = last.into_iter().chain(until).min();
    let TaskPage {
        mut lines,
        looked_to,
    } = api.engine.ports.store.list(&query).await?;
    let has_more = lines.len() > limit as usize;
    lines.truncate(limit as usize);
    let last = lines.last().filter(|_| has_more).map(|last| last.task);
    let next_cursor = last
        .or(looked_to)
        .map(|last| cursor::after(last, cursor::TASKS, &query));
    let items = lines.into_iter().map(task_view::summary).collect();
    Ok(HttpResponse::Ok().json(Page { items, next_cursor }))
}

pub(super) fn labels_of(params: &Params) -> Result<Labels, Refused> {
    filters::labels_of(params.all("label"))
}

pub(super) fn failure_of(params: &Params) -> Result<FailureFilter, Refused> {
    failure_filter(params.get("failure_class"), params.get("failure_text"))
        .map_err(|(field, detail)| invalid(detail).at(field))
}

pub(super) fn limit_of(params: &Params) -> Result<u32, Refused> {
    let Some(text) = params.get("limit") else {
        return Ok(DEFAULT_LIMIT);
    };
    let limit = text
        .parse()
        .ok()
        .filter(|limit| (1..=MAX_LIMIT).contains(limit));
    limit.ok_or_else(|| {
        invalid(format!("`limit` is a whole number from 1 to {MAX_LIMIT}")).at("limit")
    })
}

pub(super) fn status_of(text: &str) -> Result<TaskStatus, Refused> {
    text.parse().map_err(|_| {
        let known: Vec<_> = TaskStatus::ALL
            .iter()
            .map(|status| status.as_str())
            .collect();
        invalid(format!("`status` is one of {}", known.join(", "))).at("status")
    })
}
