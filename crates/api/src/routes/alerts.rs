//! `/api/alerts` and `/api/alert-secrets`: what operators were told of, one more to see whether they arrive, and
//! what their receiver checks them with.

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
use counterstep_kernel::webhooks::alerts;
use counterstep_operations::Refused;

pub(super) async fn list(api: web::Data<Api>, request: HttpRequest) -> Answer {
    Params::of(&request, &[])?;
    let items = alerts::list(&api.engine.ports.store).await?;
    let next_cursor = None;
    Ok(HttpResponse::Ok().json(Page { items, next_cursor }))
}

pub(super) async fn test(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
) -> Answer {
    Params::of(&request, &[])?;
    let webhooks = api.settings.webhooks.as_ref();
    if webhooks.is_none_or(|webhooks| webhooks.alerts.is_none()) {
        let detail = "the operator has set no `alert_webhook`: alerts go nowhere";
        return Err(Refused::new(ProblemCode::AlertsOff, detail).into());
    }
    let engine = api.engine.clone();
    let sending = async move {
        let actor = caller.actor("operator");
        alerts::test(&engine, &actor).await.map_err(Refused::from)
    };
    let view = api.finish("sending an alert", sending).await?;
    Ok(HttpResponse::Accepted().json(view))
}

pub(super) async fn secrets(api: web::Data<Api>, request: HttpRequest) -> Answer {
    Params::of(&request, &[])?;
    let webhooks = api.settings.webhooks.as_ref().ok_or_else(webhooks_off)?;
    Ok(HttpResponse::Ok()
        .insert_header((CACHE_CONTROL, "no-store"))
        .json(WebhookSecretsView {
            secrets: webhooks.secrets.expose(&alerts::installation()),
        }))
}
