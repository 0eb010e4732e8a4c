//! The caller of a request, as its check has noted it. Must not read a credential.

use crate::problem::HttpRefused;
use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpMessage, HttpRequest};
use counterstep_operations::{Caller, Refused};
use std::future::{Ready, ready};

/// Who sends a request. Handlers of routes that need a role take it as an argument.
pub(crate) struct Authenticated(pub(crate) Caller);

/// Who sends this request.
///
/// # Errors
/// Where the address needs no role, and so none was looked for.
pub(crate) fn caller_of(request: &HttpRequest) -> Result<Caller, Refused> {
    let found = request.extensions().get::<Caller>().cloned();
    found.ok_or_else(|| {
        let path = request.match_pattern().unwrap_or_default();
        Refused::internal("finding the caller of a request", &path)
    })
}

impl FromRequest for Authenticated {
    type Error = HttpRefused;
    type Future = Ready<Result<Self, HttpRefused>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(caller_of(request).map(Self).map_err(HttpRefused::from))
    }
}
