//! Finds out who sends a request, and refuses it where the caller's role does not allow the route. Runs
//! before a handler sees anything of the request.

use crate::app_state::Api;
use crate::problem::HttpRefused;
use crate::routes::{Endpoint, allow, methods, of_named, segment};
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::Next;
use actix_web::{Error, HttpMessage, web};
use counterstep_contracts::operation::Access;
use counterstep_contracts::{ProblemCode, Tenant};
use counterstep_operations::Refused;
use std::sync::Arc;
use std::time::Instant;

/// Wraps an address with these endpoints. One that does not take the method answers by itself.
pub(crate) async fn authorize<B: MessageBody + 'static>(
    endpoints: Arc<[Endpoint]>,
    api: web::Data<Api>,
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, Error> {
    let takes = |it: &&Endpoint| methods(it.verb).contains(request.method());
    if let Some(endpoint) = endpoints.iter().find(takes) {
        admit(endpoint.access, &api, &request).await?;
        let id = segment(request.request(), "id");
        let fitting = || of_named(&endpoints, &api.engine.registry, id);
        if !fitting().any(|it| takes(&it)) {
            return Err(HttpRefused::method(allow(fitting())).into());
        }
    }
    next.call(request).await
}

/// Notes who sends the request, where that is needed.
async fn admit(access: Access, api: &Api, request: &ServiceRequest) -> Result<(), HttpRefused> {
    let Some(needed) = access.role() else {
        return Ok(());
    };
    let caller = api.auth.caller(&api.engine, request.request()).await?;
    api.rates.count(&caller, Instant::now())?;
    if caller.role < needed {
        let detail = format!(
            "this needs the role {needed}, and the caller has {}",
            caller.role
        );
        return Err(Refused::new(ProblemCode::Forbidden, detail).into());
    }
    if access == Access::Installation && !caller.is_of_installation() {
        let detail = format!(
            "this is about all tenants: it needs the role {needed} in the tenant `{}`",
            Tenant::default()
        );
        return Err(Refused::new(ProblemCode::Forbidden, detail).into());
    }
    request.extensions_mut().insert(caller);
    Ok(())
}
