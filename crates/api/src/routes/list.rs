//! `GET /api/tasks`: pages of tasks, the newest first.

use super::answer::Answer;
use crate::app_state::Api;
use crate::caller::Authenticated;
use crate::cursor;
use crate::query::Params;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::http::{FAILURE_CLASSES, Page};
use counterstep_contracts::{Labels, ProblemCode, TaskId, TaskStatus};
use counterstep_kernel::ports::{FailureFilter, TaskPage, TaskQuery, first_id_at};
use counterstep_operations::{Refused, invalid, task_view};
use counterstep_steps::times::read_time;

const DEFAULT_LIMIT: u32 = 50;
const MAX_LIMIT: u32 = 200;

/// Maximum characters of a text that is searched for.
const LONGEST_TEXT: usize = 256;

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
        task_type: params.get("type").map(|name| declared_name(&api, name)),
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

/// `label=order=4711`, once for each.
pub(super) fn labels_of(params: &Params) -> Result<Labels, Refused> {
    let mut labels = Labels::new();
    for text in params.all("label") {
        let (name, value) = text.split_once('=').ok_or_else(|| {
            let detail = "a label is looked for by its name and value: send `label=name=value`";
            Refused::new(ProblemCode::InvalidLabel, detail).at("label")
        })?;
        labels.look_for(name, value).map_err(|error| {
            Refused::new(ProblemCode::InvalidLabel, error.to_string()).at("label")
        })?;
    }
    Ok(labels)
}

pub(super) fn failure_of(params: &Params) -> Result<FailureFilter, Refused> {
    failure_filter(params.get("failure_class"), params.get("failure_text"))
        .map_err(|(field, detail)| invalid(detail).at(field))
}

/// A class and a text as they came; else the field that is at fault, and why.
pub(super) fn failure_filter(
    class: Option<&str>,
    text: Option<&str>,
) -> Result<FailureFilter, (&'static str, String)> {
    if class.is_some_and(|class| !FAILURE_CLASSES.contains(&class)) {
        let known = FAILURE_CLASSES.join(", ");
        return Err((
            "failure_class",
            format!("`failure_class` is one of {known}"),
        ));
    }
    if text.is_some_and(|text| text.is_empty() || text.chars().count() > LONGEST_TEXT) {
        let detail = format!("`failure_text` has 1 to {LONGEST_TEXT} characters");
        return Err(("failure_text", detail));
    }
    Ok(FailureFilter {
        class: class.map(str::to_owned),
        text: text.map(str::to_owned),
    })
}

/// The least id of that time.
pub(super) fn id_at(name: &'static str, text: &str) -> Result<TaskId, Refused> {
    millis(name, text).map(first_id_at)
}

/// A time in milliseconds since 1970.
pub(super) fn millis(name: &'static str, text: &str) -> Result<u64, Refused> {
    let time = read_time(text).map_err(|why| invalid(why).at(name))?;
    Ok(u64::try_from(time.0 / 1_000).unwrap_or(0))
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

/// A type by its route or by its declared name. One that this program does not know may still have
/// tasks, of an older program, so it is no error.
pub(super) fn declared_name(api: &Api, name: &str) -> String {
    let known = api.engine.registry.by_route(name);
    known.map_or_else(
        || name.to_owned(),
        |task_type| task_type.decl.name.to_owned(),
    )
}
