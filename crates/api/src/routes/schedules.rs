//! `/api/schedules`: pages of schedules, one of them, and what people ask of it. The kernel
//! decides; here its answers get their codes.

use super::address::segment;
use super::answer::Answer;
use super::list::limit_of;
use super::operator::body;
use crate::app_state::Api;
use crate::caller::{Authenticated, caller_of};
use crate::cursor;
use crate::mount_path::address;
use crate::query::Params;
use crate::task_view;
use actix_web::http::header::LOCATION;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::http::Page;
use counterstep_contracts::{ProblemCode, ScheduleSpec};
use counterstep_kernel::ports::ScheduleQuery;
use counterstep_kernel::schedule;
use counterstep_kernel::schedule::ScheduleError;
use counterstep_operations::{Refused, invalid};

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
        .map(|row| task_view::schedule_view(row, Vec::new()))
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
    let kept = schedule::get(&api.engine, &caller.tenant, segment(&request, "name"))
        .await
        .map_err(refused)?;
    let upcoming = kept.upcoming(count);
    Ok(HttpResponse::Ok().json(task_view::schedule_view(kept.row, upcoming)))
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
            .map_err(refused)
    };
    let kept = api.finish("setting a schedule", setting).await?;
    let mut answer = if kept.is_new {
        HttpResponse::Created()
    } else {
        HttpResponse::Ok()
    };
    Ok(answer.json(task_view::schedule_view(kept.row, Vec::new())))
}

pub(super) async fn delete(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
) -> Answer {
    Params::of(&request, &[])?;
    let actor = caller.actor("client");
    let (engine, tenant, name) = (
        api.engine.clone(),
        caller.tenant,
        segment(&request, "name").to_owned(),
    );
    let deleting = async move {
        schedule::delete(&engine, &tenant, &name, &actor)
            .await
            .map_err(refused)
    };
    api.finish("deleting a schedule", deleting).await?;
    Ok(HttpResponse::NoContent().finish())
}

pub(super) async fn pause(api: web::Data<Api>, request: HttpRequest) -> Answer {
    set_paused(&api, &request, true).await
}

pub(super) async fn resume(api: web::Data<Api>, request: HttpRequest) -> Answer {
    set_paused(&api, &request, false).await
}

async fn set_paused(api: &Api, request: &HttpRequest, paused: bool) -> Answer {
    Params::of(request, &[])?;
    let caller = caller_of(request)?;
    let actor = caller.actor("client");
    let (engine, tenant, name) = (
        api.engine.clone(),
        caller.tenant,
        segment(request, "name").to_owned(),
    );
    let pausing = async move {
        schedule::pause(&engine, &tenant, &name, paused, &actor)
            .await
            .map_err(refused)
    };
    let kept = api.finish("pausing a schedule", pausing).await?;
    Ok(HttpResponse::Ok().json(task_view::schedule_view(kept.row, Vec::new())))
}

pub(super) async fn run(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
) -> Answer {
    Params::of(&request, &[])?;
    let actor = caller.actor("client");
    let (engine, tenant, name) = (
        api.engine.clone(),
        caller.tenant,
        segment(&request, "name").to_owned(),
    );
    let running = async move {
        schedule::run_now(&engine, &tenant, &name, &actor)
            .await
            .map_err(refused)
    };
    let accepted = api.finish("running a schedule", running).await?;
    let location = address(&request, &format!("/api/tasks/{}", accepted.task_id));
    Ok(HttpResponse::Accepted()
        .insert_header((LOCATION, location))
        .json(accepted))
}

fn refused(error: ScheduleError) -> Refused {
    let detail = error.to_string();
    match error {
        ScheduleError::Gone => Refused::new(
            ProblemCode::NoSuchSchedule,
            "see /api/schedules for those that there are",
        ),
        ScheduleError::Declared => Refused::new(
            ProblemCode::ScheduleDeclared,
            "the program that runs here declares it: change the declaration, or pause the schedule",
        ),
        ScheduleError::Invalid(error) => invalid(error.message).at(error.pointer),
        ScheduleError::UnknownType(_) => invalid(format!(
            "{detail}: see /api/task-types for those that there are"
        ))
        .at("type"),
        ScheduleError::Busy(_) => Refused::new(
            ProblemCode::ScheduleBusy,
            format!("{detail}: wait for it or cancel it, or set `overlap` to allow"),
        ),
        ScheduleError::Submit(error) => error.into(),
        ScheduleError::Moved => Refused::new(ProblemCode::Unavailable, detail).retry_after(1),
        ScheduleError::Store(error) => error.into(),
    }
}
