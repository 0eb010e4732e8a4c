//! `GET /api/caller`: who sends the request, as this process has found out.

use super::answer::Answer;
use crate::caller::Authenticated;
use crate::query::Params;
use actix_web::http::header::CACHE_CONTROL;
use actix_web::{HttpRequest, HttpResponse};
use counterstep_contracts::access::CallerView;

pub(super) async fn get(Authenticated(caller): Authenticated, request: HttpRequest) -> Answer {
    Params::of(&request, &[])?;
    let view = CallerView {
        is_of_installation: caller.is_of_installation(),
        tenant: caller.tenant.0,
        subject: caller.subject,
        role: caller.role,
        key: caller.key,
    };
    Ok(HttpResponse::Ok()
        .insert_header((CACHE_CONTROL, "no-store"))
        .json(view))
}
