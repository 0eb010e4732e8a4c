//! `GET /api/tasks`: pages of tasks, the newest first.

use super::answer::Answer;
use crate::app_state::Api;
use crate::cursor;
use crate::problem::{Refused, invalid};
use crate::query::Params;
use crate::task_view;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::TaskStatus;
use counterstep_contracts::http::Page;
use counterstep_kernel::ports::TaskQuery;

const DEFAULT_LIMIT: u32 = 50;
const MAX_LIMIT: u32 = 200;

pub(super) async fn get(api: web::Data<Api>, request: HttpRequest) -> Answer {
    let params = Params::of(&request, &["type", "status", "limit", "cursor"])?;
    let limit = limit_of(&params)?;
    let mut query = TaskQuery {
        tenant: Some(api.tenant()),
        task_type: params.get("type").map(|name| declared_name(&api, name)),
        status: params.get("status").map(status_of).transpose()?,
        before: None,
        // One more than is shown, to know whether there is a next page.
        limit: limit + 1,
    };
    query.before = params
        .get("cursor")
        .map(|text| cursor::read(text, cursor::TASKS, &query))
        .transpose()?;
    let mut lines = api.engine.ports.store.list(&query).await?;
    let has_more = lines.len() > limit as usize;
    lines.truncate(limit as usize);
    let next_cursor = lines
        .last()
        .filter(|_| has_more)
        .map(|last| cursor::after(last.task, cursor::TASKS, &query));
    let items = lines.into_iter().map(task_view::summary).collect();
    Ok(HttpResponse::Ok().json(Page { items, next_cursor }))
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

fn status_of(text: &str) -> Result<TaskStatus, Refused> {
    text.parse().map_err(|_| {
        let known: Vec<_> = TaskStatus::ALL
            .iter()
            .map(|status| status.as_str())
            .collect();
        invalid(format!("`status` is one of {}", known.join(", "))).at("status")
    })
}

/// A type by its route or by its declared name. One that this program does not know may still have
/// tasks, of an older program, so it is no error.
pub(super) fn declared_name(api: &Api, name: &str) -> String {
    let known = api.engine.registry.by_route(name);
    known.map_or_else(
        || name.to_owned(),
        |task_type| task_type.decl.name.to_owned(),
    )
}
