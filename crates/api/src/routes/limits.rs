//! `/api/limits`: limits of steps, what is in use of them, and what a person sets in place of what is
//! declared.

use super::address::segment;
use super::answer::Answer;
use super::operator::{body, note};
use crate::app_state::Api;
use crate::caller::Authenticated;
use crate::query::Params;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::http::Page;
use counterstep_contracts::limit::{
    LimitSetView, LimitUseView, LimitView, ResetLimitRequest, SetLimitRequest,
};
use counterstep_kernel::admission::limits::{self, LimitError, LimitRow, NewLimit};
use counterstep_operations::{Refused, invalid};
use counterstep_steps::times::rfc3339;

pub(super) async fn list(api: web::Data<Api>, request: HttpRequest) -> Answer {
    Params::of(&request, &[])?;
    let rows = limits::limits(&api.engine).await?;
    Ok(HttpResponse::Ok().json(Page {
        items: rows.into_iter().map(view).collect::<Vec<_>>(),
        next_cursor: None,
    }))
}

pub(super) async fn put(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
    payload: web::Payload,
) -> Answer {
    Params::of(&request, &[])?;
    let name = segment(&request, "name").to_owned();
    let asked: SetLimitRequest = body(&api, &request, payload).await?;
    let (actor, note, engine) = (
        caller.actor("operator"),
        note(&asked.note, asked.actor.as_deref())?,
        api.engine.clone(),
    );
    let setting = async move {
        let new = NewLimit {
            at_once: asked.at_once,
            rate: asked.rate,
            actor: &actor,
            note: &note,
        };
        limits::set_limit(&engine, &name, new)
            .await
            .map_err(refused)?;
        named(&engine, &name).await
    };
    Ok(HttpResponse::Ok().json(api.finish("setting a limit", setting).await?))
}

pub(super) async fn reset(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
    payload: web::Payload,
) -> Answer {
    Params::of(&request, &[])?;
    let name = segment(&request, "name").to_owned();
    let asked: ResetLimitRequest = body(&api, &request, payload).await?;
    let (actor, note, engine) = (
        caller.actor("operator"),
        note(&asked.note, asked.actor.as_deref())?,
        api.engine.clone(),
    );
    let resetting = async move {
        limits::reset_limit(&engine, &name, &actor, &note)
            .await
            .map_err(refused)?;
        named(&engine, &name).await
    };
    Ok(HttpResponse::Ok().json(api.finish("resetting a limit", resetting).await?))
}

async fn named(engine: &counterstep_kernel::Engine, name: &str) -> Result<LimitView, Refused> {
    let rows = limits::limits(engine).await?;
    let row = rows.into_iter().find(|row| row.name == name);
    Ok(view(row.unwrap_or_else(|| LimitRow::unused(name))))
}

fn view(row: LimitRow) -> LimitView {
    let used = |used: limits::LimitUse| LimitUseView {
        of: used.of,
        held: used.held,
        waiting: used.waiting,
        holders: used.holders,
    };
    LimitView {
        name: row.name,
        declared: row.declared,
        set: row.set.map(|set| LimitSetView {
            at_once: set.at_once,
            rate: set.rate,
            by: set.by,
            note: set.note,
            since: rfc3339(set.since),
        }),
        uses: row.uses.into_iter().map(used).collect(),
    }
}

fn refused(error: LimitError) -> Refused {
    match error {
        LimitError::Impossible(_) | LimitError::NotOfTasks => invalid(error.to_string()),
        LimitError::Setting(error) => error.into(),
    }
}
