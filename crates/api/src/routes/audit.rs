//! `GET /api/tasks/{id}/audit`: everything that ever happened to a task; `/audit/chain`: whether that is as it
//! was written.

use super::address::{load, task_id};
use super::answer::Answer;
use crate::app_state::Api;
use crate::caller::Caller;
use crate::query::Params;
use crate::task_view;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::http::ChainView;
use counterstep_kernel::audit::Walk;
use counterstep_kernel::ports::AuditPage;
use counterstep_steps::digest::hex;

/// Rows of a journal that are read at a time: each has the data that was handed in.
const PAGE: u32 = 100;

pub(super) async fn get(api: web::Data<Api>, caller: Caller, request: HttpRequest) -> Answer {
    let id = task_id(&request)?;
    Params::of(&request, &[])?;
    let record = load(&api, &caller, id).await?;
    let history = api.engine.ports.store.history(id).await?;
    Ok(HttpResponse::Ok().json(task_view::trail(&record, history)))
}

pub(super) async fn chain(api: web::Data<Api>, caller: Caller, request: HttpRequest) -> Answer {
    let id = task_id(&request)?;
    Params::of(&request, &[])?;
    load(&api, &caller, id).await?;
    let (mut walk, mut head) = (Walk::default(), None);
    let mut page = AuditPage {
        task: Some(id.to_string()),
        after: None,
        limit: PAGE,
    };
    loop {
        let rows = api.engine.ports.store.audit_page(&page).await?;
        for row in &rows {
            walk.step(row);
        }
        let Some(last) = rows.last() else { break };
        page.after = Some((last.task.clone(), last.rev));
        head = Some(hex(&last.seal));
        if rows.len() < PAGE as usize {
            break;
        }
    }
    Ok(HttpResponse::Ok().json(ChainView {
        task_id: id,
        whole: walk.is_whole(),
        changes: walk.rows(),
        erased: walk.erased(),
        head: head.unwrap_or_default(),
    }))
}
