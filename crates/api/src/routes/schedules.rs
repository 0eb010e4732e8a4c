//! `PUT /api/schedules/{name}`: setting a schedule, which is made where there is none.

use super::address::segment;
use super::answer::Answer;
use super::operation::body;
use crate::app_state::Api;
use crate::caller::Authenticated;
use crate::query::Params;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::ScheduleSpec;
use counterstep_kernel::schedule;
use counterstep_operations::{Refused, schedule_view};

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
