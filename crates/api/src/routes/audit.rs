//! `GET /api/tasks/{id}/audit`: everything that ever happened to a task; `/audit/chain`: whether that is as it
//! was written.

use super::address::{load, task_id};
use super::answer::Answer;
use crate::app_state::Api;
use crate::caller::Authenticated;
use crate::query::Params;
use crate::task_view;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::http::ChainView;
use counterstep_kernel::audit::Walk;
use counterstep_kernel::journal::JournalWalk;
use counterstep_steps::digest::hex;

pub(super) async fn get(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
) -> Answer {
    let id = task_id(&request)?;
    Params::of(&request, &[])?;
    let record = load(&api, &caller, id).await?;
    let history = api.engine.ports.store.history(id).await?;
    Ok(HttpResponse::Ok().json(task_view::trail(&record, history)))
}

pub(super) async fn chain(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
) -> Answer {
    let id = task_id(&request)?;
    Params::of(&request, &[])?;
    load(&api, &caller, id).await?;
    let mut rows = JournalWalk::of(&api.engine.ports.store, Some(id.to_string()));
    let (mut walk, mut head) = (Walk::default(), None);
    while let Some(row) = rows.next().await? {
        walk.step(&row);
        head = Some(hex(&row.seal));
    }
    Ok(HttpResponse::Ok().json(ChainView {
        task_id: id,
        whole: walk.is_whole(),
        changes: walk.rows(),
        erased: walk.erased(),
        head: head.unwrap_or_default(),
    }))
}
