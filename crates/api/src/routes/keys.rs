//! `/api/keys`: API keys, for those who look after the whole installation. The answer that makes a key is
//! the only one that holds it.

use super::address::segment;
use super::answer::Answer;
use super::operator::body;
use crate::app_state::Api;
use crate::caller::Authenticated;
use crate::query::Params;
use crate::task_view;
use actix_web::http::header::CACHE_CONTROL;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::access::{NewKey, NewKeyRequest};
use counterstep_contracts::http::Page;
use counterstep_contracts::retry::parse_duration;
use counterstep_contracts::{ProblemCode, Tenant};
use counterstep_kernel::access::api_keys::{self, KeyError, KeySpec};
use counterstep_kernel::ports::ApiKeyRow;
use counterstep_operations::{Caller, Refused, invalid};

/// Whether a caller may see, make and revoke the keys of a tenant.
fn is_within_reach(caller: &Caller, tenant: &Tenant) -> bool {
    caller.is_of_installation() || caller.tenant == *tenant
}

pub(super) async fn get(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
) -> Answer {
    Params::of(&request, &[])?;
    let rows = api.engine.ports.store.api_keys().await?.rows;
    let own = rows
        .into_iter()
        .filter(|row| is_within_reach(&caller, &row.tenant));
    let items = own.map(task_view::api_key).collect();
    Ok(HttpResponse::Ok().json(Page {
        items,
        next_cursor: None,
    }))
}

pub(super) async fn post(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
    payload: web::Payload,
) -> Answer {
    Params::of(&request, &[])?;
    let asked: NewKeyRequest = body(&api, &request, payload).await?;
    let expires_in = asked.expires_in.map(|text| {
        let time = parse_duration(&text).filter(|time| !time.is_zero());
        let detail = "`expires_in` is a whole number with a unit, such as 12h or 90d";
        time.ok_or_else(|| invalid(detail).at("expires_in"))
    });
    let tenant = asked.tenant.map_or(caller.tenant.clone(), Tenant);
    if !is_within_reach(&caller, &tenant) {
        let detail = format!(
            "keys of other tenants are for administrators of the tenant `{}`",
            Tenant::default()
        );
        return Err(Refused::new(ProblemCode::Forbidden, detail)
            .at("tenant")
            .into());
    }
    let spec = KeySpec {
        tenant,
        subject: asked.subject,
        role: asked.role,
        expires_in: expires_in.transpose()?,
    };
    let (engine, by) = (api.engine.clone(), caller.actor("operator"));
    let making = async move {
        let ports = &engine.ports;
        let made = api_keys::make(&ports.store, ports.random.as_ref(), spec, &by).await;
        made.map_err(refused)
    };
    let (key, row) = api.finish("making an API key", making).await?;
    let answer = NewKey {
        key: key.expose(),
        view: task_view::api_key(row),
    };
    Ok(HttpResponse::Created()
        .insert_header((CACHE_CONTROL, "no-store"))
        .json(answer))
}

pub(super) async fn delete(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
) -> Answer {
    Params::of(&request, &[])?;
    let id = segment(&request, "id").to_owned();
    let (engine, by, key) = (api.engine.clone(), caller.actor("operator"), id.clone());
    let revoking = async move {
        let found = engine.ports.store.api_key(&key).await?.rows;
        // The tenant of a key never changes.
        let is_of_another = |row: &ApiKeyRow| !is_within_reach(&caller, &row.tenant);
        if found.iter().any(is_of_another) {
            return Err(no_such_key());
        }
        let revoked = api_keys::revoke(&engine.ports.store, &key, &by).await;
        revoked.map_err(refused)
    };
    let row = api.finish("revoking an API key", revoking).await?;
    api.auth.forget(&id);
    Ok(HttpResponse::Ok().json(task_view::api_key(row)))
}

fn refused(error: KeyError) -> Refused {
    let detail = error.to_string();
    match error {
        KeyError::Invalid(_) => invalid(detail),
        KeyError::Gone(_) => no_such_key(),
        KeyError::Moved => Refused::new(ProblemCode::Unavailable, detail).retry_after(1),
        KeyError::Store(error) => error.into(),
    }
}

fn no_such_key() -> Refused {
    Refused::new(
        ProblemCode::NoSuchKey,
        "see /api/keys for those that there are",
    )
}
