//! `/api/schedules`: pages of schedules, one of them, and setting one.

use super::address::segment;
use super::answer::Answer;
use super::list::limit_of;
use super::operation::body;
use crate::app_state::Api;
use crate::caller::Authenticated;
use crate::query::Params;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::ScheduleSpec;
use counterstep_contracts::http::Page;
use counterstep_kernel::ports::ScheduleQuery;
use counterstep_kernel::schedule;
use counterstep_operations::{Refused, cursor, invalid, schedule_view};

/// Maximum number of due times of one answer.
const MOST_UPCOMING: usize = 100;

pub(super) async fn list(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
) -> Answer {
    let params = Params::of(&request, &["limit", "cursor"])?;
    let limit = limit_of(&params)?;
    let after = params
        .get("cursor")
        .map(|text| cursor::read_name(text, &caller.tenant))
        .transpose()?;
    // One more than is shown, to know whether there is a next page.
    let query = ScheduleQuery::Page {
        tenant: caller.tenant.clone(),
        after,
        limit: limit + 1,
    };
    let mut rows = api.engine.ports.store.schedules(&query).await?.rows;
    let has_more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next_cursor = rows
        .last()
        .filter(|_| has_more)
        .map(|last| cursor::after_name(&last.name, &caller.tenant));
    let items = rows
        .into_iter()
        .map(|row| schedule_view(row, Vec::new()))
        .collect();
    Ok(HttpResponse::Ok().json(Page { items, next_cursor }))
}

pub(super) async fn get(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
) -> Answer {
    let params = Params::of(&request, &["next"])?;
    let count = match params.get("next") {
        None => 0,
        Some(text) => text
            .parse()
            .ok()
            .filter(|count| *count <= MOST_UPCOMING)
            .ok_or_else(|| {
                invalid(format!(
                    "`next` is the number of due times: a whole number from 0 to {MOST_UPCOMING}"
                ))
                .at("next")
            })?,
    };
    let kept = schedule::get(&api.engine, &caller.tenant, segment(&request, "name")).await?;
    let upcoming = kept.upcoming(count);
    Ok(HttpResponse::Ok().json(schedule_view(kept.row, upcoming)))
}

pub(super) async fn put(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
    payload: web::Payload,
) -> Answer {
    Params::of(&request, &[])?;
    let spec: ScheduleSpec = body(&api, &request, payload).await?;
    let actor = caller.actor("client");
    let (engine, tenant, name) = (
        api.engine.clone(),
        caller.tenant,
        segment(&request, "name").to_owned(),
    );
    let setting = async move {
        schedule::set(&engine, &tenant, &name, spec, &actor)
            .await
            .map_err(Refused::from)
    };
    let kept = api.finish("setting a schedule", setting).await?;
    let mut answer = if kept.is_new {
        HttpResponse::Created()
    } else {
        HttpResponse::Ok()
    };
    Ok(answer.json(schedule_view(kept.row, Vec::new())))
}
