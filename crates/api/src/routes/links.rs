//! `POST /api/tasks/{id}/result/{name}/link` makes a link to a stored file of a response, and
//! `GET /api/links/{id}/{name}` follows it, of a list with `/{index}` behind the name: the address itself is the credential. Nothing is looked up before
//! its signature has been checked, and whatever is wrong with it has one answer.

use super::address::task_id;
use super::answer::Answer;
use super::operation::body;
use super::result::{Place, handed_over, stored_file};
use crate::app_state::Api;
use crate::body::Arriving;
use crate::caller::Authenticated;
use crate::headers::content_length;
use crate::mount_path::address;
use crate::query::Params;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, REFERRER_POLICY};
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::link::{NewLinkRequest, ResultLink};
use counterstep_contracts::retry::parse_duration;
use counterstep_contracts::{ProblemCode, TaskId, Tenant};
use counterstep_kernel::access::result_links::LinkTarget;
use counterstep_operations::{Refused, invalid};
use counterstep_steps::times::{DbTime, rfc3339};
use std::time::Duration;

const USUAL: Duration = Duration::from_secs(3600);
const LONGEST: Duration = Duration::from_secs(7 * 86_400);

pub(super) async fn post(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
    payload: web::Payload,
) -> Answer {
    let id = task_id(&request)?;
    Params::of(&request, &[])?;
    let asked = asked(&api, &request, payload).await?;
    let valid_for = asked.valid_for.map_or(Ok(USUAL), |text| valid_for(&text))?;
    let place = Place::of(&request);
    stored_file(&api, &caller.tenant, id, place).await?;
    let secrets = api.settings.links.as_ref().ok_or_else(links_off)?;
    let expires_at = now(&api).saturating_add(valid_for.as_secs());
    let target = LinkTarget {
        tenant: &caller.tenant,
        task: id,
        name: &place.name(),
        expires_at,
    };
    let (tenant, signature) = (&caller.tenant, secrets.sign(&target));
    let path = format!("/api/links/{id}/{}", place.encoded());
    let query = format!("tenant={tenant}&expires={expires_at}&signature={signature}");
    tracing::info!(task = %id, %tenant, subject = caller.subject, expires_at, "a link to a result was made");
    Ok(HttpResponse::Ok()
        .insert_header((CACHE_CONTROL, "no-store"))
        .json(ResultLink {
            url: format!("{}?{query}", address(&request, &path)),
            expires_at: rfc3339(time(expires_at)),
        }))
}

pub(super) async fn get(api: web::Data<Api>, request: HttpRequest) -> Answer {
    let (id, tenant) = checked(&api, &request).ok_or_else(no_such_link)?;
    let file = stored_file(&api, &tenant, id, Place::of(&request)).await;
    // It was there when the link was made.
    let file = file.map_err(|refused| match refused.problem().status {
        400..500 => no_such_link(),
        _ => refused,
    })?;
    let mut answer = handed_over(&api, &request, id, file).await?;
    let headers = answer.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    Ok(answer)
}

/// The task and the tenant of a link that is valid.
fn checked(api: &Api, request: &HttpRequest) -> Option<(TaskId, Tenant)> {
    let secrets = api.settings.links.as_ref()?;
    let params = Params::of(request, &["tenant", "expires", "signature"]).ok()?;
    let tenant = Tenant(params.get("tenant")?.to_owned());
    let target = LinkTarget {
        tenant: &tenant,
        task: task_id(request).ok()?,
        name: &Place::of(request).name(),
        expires_at: params.get("expires")?.parse().ok()?,
    };
    let is_signed = tenant.is_valid() && secrets.is_signed(&target, params.get("signature")?);
    (is_signed && now(api) < target.expires_at).then_some((target.task, tenant))
}

/// The body, which may be left out.
async fn asked(
    api: &Api,
    request: &HttpRequest,
    payload: web::Payload,
) -> Result<NewLinkRequest, Refused> {
    if request.headers().contains_key(CONTENT_TYPE) {
        return body(api, request, payload).await;
    }
    let bytes = Arriving::new(api, payload)
        .whole(content_length(request), api.settings.max_json_bytes)
        .await?;
    if bytes.is_empty() {
        return Ok(NewLinkRequest::default());
    }
    let detail = "send the body with `Content-Type: application/json`";
    Err(Refused::new(ProblemCode::UnsupportedMediaType, detail).at("Content-Type"))
}

fn valid_for(text: &str) -> Result<Duration, Refused> {
    let bounds = Duration::from_secs(1)..=LONGEST;
    let time = parse_duration(text).filter(|time| bounds.contains(time));
    let detail = "`valid_for` is a whole number with a unit, such as 30m or 1h, from 1s to 7d";
    time.ok_or_else(|| invalid(detail).at("valid_for"))
}

/// In seconds since 1970, by the clock of this process: an end is compared without asking the database.
fn now(api: &Api) -> u64 {
    api.engine.ports.clock.unix_millis() / 1000
}

fn time(seconds: u64) -> DbTime {
    DbTime(
        i64::try_from(seconds)
            .unwrap_or(i64::MAX)
            .saturating_mul(1_000_000),
    )
}

fn no_such_link() -> Refused {
    let detail = "ask the person or program that gave it to you for a new one";
    Refused::new(ProblemCode::NoSuchLink, detail)
}

fn links_off() -> Refused {
    let detail = "the operator has set no secret for links: get the file from the task's /result";
    Refused::new(ProblemCode::LinksOff, detail)
}
