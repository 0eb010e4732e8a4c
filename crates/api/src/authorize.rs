//! Finds out who sends a request, and refuses it where the caller's role does not allow the route. Runs
//! before a handler sees anything of the request.

use crate::app_state::Api;
use crate::problem::Refused;
use crate::routes::{Access, Endpoint, allow, of_named, segment};
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::Next;
use actix_web::{Error, HttpMessage, web};
use counterstep_contracts::{ProblemCode, Tenant};
use std::time::Instant;

/// Wraps an address with these endpoints. One that does not take the method answers by itself.
pub(crate) async fn authorize<B: MessageBody + 'static>(
    endpoints: &'static [Endpoint],
    api: web::Data<Api>,
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, Error> {
    let takes = |it: &&Endpoint| it.verb.methods().contains(request.method());
    let access = endpoints.iter().find(takes).map(|it| it.access);
    if let Some(needed) = access.and_then(Access::role) {
        let caller = api.auth.caller(&api.engine, request.request()).await?;
        api.rates.count(&caller, Instant::now())?;
        if caller.role < needed {
            let detail = format!(
                "this needs the role {needed}, and the caller has {}",
                caller.role
            );
            return Err(Refused::new(ProblemCode::Forbidden, detail).into());
        }
        if access == Some(Access::Installation) && !caller.is_of_installation() {
            let detail = format!(
                "this is about all tenants: it needs the role {needed} in the tenant `{}`",
                Tenant::default()
            );
            return Err(Refused::new(ProblemCode::Forbidden, detail).into());
        }
        request.extensions_mut().insert(caller);
    }
    let fitting = || {
        of_named(
            endpoints,
            &api.engine.registry,
            segment(request.request(), "id"),
        )
    };
    if endpoints.iter().any(|it| takes(&it)) && !fitting().any(|it| takes(&it)) {
        return Err(Refused::method(allow(fitting())).into());
    }
    next.call(request).await
}
