//! `/api/queues`: queues, what waits on them, and which are paused.

use super::address::segment;
use super::answer::Answer;
use super::operator::{body, note};
use crate::app_state::Api;
use crate::caller::caller_of;
use crate::query::Params;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::QueueName;
use counterstep_contracts::http::Page;
use counterstep_contracts::queue::{PauseView, QueueRequest, QueueView};
use counterstep_kernel::Engine;
use counterstep_kernel::admission::paused_queues::{self, QueueRow};
use counterstep_operations::Refused;
use counterstep_steps::times::rfc3339;
use std::collections::BTreeMap;

pub(super) async fn list(api: web::Data<Api>, request: HttpRequest) -> Answer {
    Params::of(&request, &[])?;
    let rows = paused_queues::queues(&api.engine).await?;
    Ok(HttpResponse::Ok().json(Page {
        items: rows.into_iter().map(view).collect::<Vec<_>>(),
        next_cursor: None,
    }))
}

pub(super) async fn pause(
    api: web::Data<Api>,
    request: HttpRequest,
    payload: web::Payload,
) -> Answer {
    change(&api, &request, payload, true).await
}

pub(super) async fn resume(
    api: web::Data<Api>,
    request: HttpRequest,
    payload: web::Payload,
) -> Answer {
    change(&api, &request, payload, false).await
}

async fn change(api: &Api, request: &HttpRequest, payload: web::Payload, pause: bool) -> Answer {
    Params::of(request, &[])?;
    let name = QueueName(segment(request, "name").to_owned());
    let asked: QueueRequest = body(api, request, payload).await?;
    let (actor, note, engine) = (
        caller_of(request)?.actor("operator"),
        note(&asked.note, asked.actor.as_deref())?,
        api.engine.clone(),
    );
    let changing = async move {
        let by = (actor.as_str(), note.as_str());
        if pause {
            paused_queues::pause_queue(&engine, &name, by).await?;
        } else {
            paused_queues::resume_queue(&engine, &name, by).await?;
        }
        named(&engine, name).await
    };
    Ok(HttpResponse::Ok().json(api.finish("pausing or resuming a queue", changing).await?))
}

async fn named(engine: &Engine, name: QueueName) -> Result<QueueView, Refused> {
    let rows = paused_queues::queues(engine).await?;
    let row = rows.into_iter().find(|row| row.name == name);
    Ok(view(row.unwrap_or(QueueRow {
        name,
        paused: None,
        tasks: Vec::new(),
    })))
}

fn view(row: QueueRow) -> QueueView {
    let mut tasks = BTreeMap::new();
    // Its lanes are counted one by one.
    for it in row.tasks {
        *tasks.entry(it.status).or_default() += it.count;
    }
    QueueView {
        name: row.name.0,
        paused: row.paused.map(|pause| PauseView {
            since: rfc3339(pause.since),
            by: pause.by,
            note: pause.note,
        }),
        tasks,
    }
}
