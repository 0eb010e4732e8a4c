//! `/api/tasks/{id}/webhooks` and `/api/webhook-secrets`: how a task's webhooks stand, one of them once
//! more, and what their receivers check them with.

use super::address::{load, segment, task_id};
use super::answer::Answer;
use crate::app_state::Api;
use crate::caller::Authenticated;
use crate::problem::webhooks_off;
use crate::query::Params;
use actix_web::http::header::CACHE_CONTROL;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::ProblemCode;
use counterstep_contracts::http::Page;
use counterstep_contracts::webhook::WebhookSecretsView;
use counterstep_kernel::webhooks::{self, NoSuchWebhook};
use counterstep_operations::Refused;

pub(super) async fn get(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
) -> Answer {
    let id = task_id(&request)?;
    Params::of(&request, &[])?;
    load(&api, &caller, id).await?;
    let items = webhooks::list(&api.engine.ports.store, &caller.tenant, id).await?;
    Ok(HttpResponse::Ok().json(Page {
        items,
        next_cursor: None,
    }))
}

pub(super) async fn send(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
) -> Answer {
    let id = task_id(&request)?;
    Params::of(&request, &[])?;
    load(&api, &caller, id).await?;
    if api.settings.webhooks.is_none() {
        return Err(webhooks_off().into());
    }
    let (engine, webhook) = (api.engine.clone(), segment(&request, "webhook").to_owned());
    let sending = async move {
        let store = &engine.ports.store;
        let sent = webhooks::send_again(store, &caller.tenant, id, &webhook).await;
        sent.map_err(refused)
    };
    let view = api.finish("sending a webhook again", sending).await?;
    Ok(HttpResponse::Accepted().json(view))
}

pub(super) async fn secrets(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
) -> Answer {
    Params::of(&request, &[])?;
    let webhooks = api.settings.webhooks.as_ref().ok_or_else(webhooks_off)?;
    Ok(HttpResponse::Ok()
        .insert_header((CACHE_CONTROL, "no-store"))
        .json(WebhookSecretsView {
            secrets: webhooks.secrets.expose(&caller.tenant),
        }))
}

fn refused(error: NoSuchWebhook) -> Refused {
    match error {
        NoSuchWebhook::Gone => Refused::new(
            ProblemCode::NoSuchWebhook,
            "see the task's /webhooks for those that there are",
        ),
        NoSuchWebhook::Store(error) => error.into(),
    }
}
