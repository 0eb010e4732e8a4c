//! `GET /api/dead-letters`: the tasks that wait for a person, the newest first; `/groups`: the same by cause.

use super::answer::Answer;
use super::list::{labels_of, limit_of};
use crate::app_state::Api;
use crate::caller::Authenticated;
use crate::query::Params;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::TaskStatus;
use counterstep_contracts::http::Page;
use counterstep_kernel::dead_letters::{Selection, groups};
use counterstep_kernel::ports::{FailureFilter, TaskQuery};
use counterstep_operations::filters::declared_name;
use counterstep_operations::{Refused, cursor, invalid, task_view};

pub(super) async fn get(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
) -> Answer {
    let params = Params::of_list(&request, &["type", "limit", "cursor"], &["status"])?;
    let limit = limit_of(&params)?;
    let statuses: Vec<TaskStatus> = params
        .all("status")
        .map(status_of)
        .collect::<Result<_, _>>()?;
    let mut query = TaskQuery {
        tenant: Some(caller.tenant.clone()),
        task_type: params
            .get("type")
            .map(|name| declared_name(&api.engine, name)),
        statuses: statuses.clone(),
        // One more than is shown, to know whether there is a next page.
        limit: limit + 1,
        ..TaskQuery::default()
    };
    query.before = params
        .get("cursor")
        .map(|text| cursor::read(text, cursor::DEAD_LETTERS, &query))
        .transpose()?;
    let store = &api.engine.ports.store;
    let mut asked = query.clone();
    if statuses.is_empty() {
        let parked = TaskStatus::ALL.iter().filter(|status| status.is_parked());
        asked.statuses = parked.copied().collect();
    }
    let mut lines = store.list(&asked).await?.lines;
    let has_more = lines.len() > limit as usize;
    lines.truncate(limit as usize);
    let last = lines.last().filter(|_| has_more);
    let next_cursor = last.map(|last| cursor::after(last.task, cursor::DEAD_LETTERS, &query));
    let items = lines.into_iter().map(task_view::dead_letter).collect();
    Ok(HttpResponse::Ok().json(Page { items, next_cursor }))
}

pub(super) async fn by_cause(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
) -> Answer {
    let params = Params::of_list(&request, &["type"], &["status", "label"])?;
    let asked: Vec<TaskStatus> = params
        .all("status")
        .map(status_of)
        .collect::<Result<_, _>>()?;
    let parked = TaskStatus::ALL.iter().filter(|it| it.is_parked());
    let statuses = parked.filter(|it| asked.is_empty() || asked.contains(it));
    let selection = Selection {
        tenant: caller.tenant.clone(),
        task_type: params
            .get("type")
            .map(|name| declared_name(&api.engine, name)),
        statuses: statuses.copied().collect(),
        labels: labels_of(&params)?,
        failure: FailureFilter::default(),
        group: None,
        since: None,
        until: None,
    };
    let found = groups(&api.engine.ports.store, &selection).await?;
    Ok(HttpResponse::Ok().json(found))
}

fn status_of(text: &str) -> Result<TaskStatus, Refused> {
    text.parse().ok().filter(|status: &TaskStatus| status.is_parked()).ok_or_else(|| {
        invalid("`status` is one of dead_lettered, compensation_failed; /api/tasks lists the others").at("status")
    })
}
