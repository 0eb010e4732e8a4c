//! The credential of a request: `Authorization: Bearer`, and nowhere else. One in the address would stand
//! in the logs of every proxy. Must not know what a credential means.

use actix_web::HttpRequest;
use actix_web::http::header::AUTHORIZATION;
use counterstep_contracts::ProblemCode;
use counterstep_operations::Refused;

/// The token of a request.
pub(crate) fn token(request: &HttpRequest) -> Result<&str, Refused> {
    let mut given = request.headers().get_all(AUTHORIZATION);
    let header = given.next().ok_or_else(unauthenticated)?;
    if given.next().is_some() {
        let detail = "the request has several: send one";
        let refused = Refused::new(ProblemCode::MalformedAuthorization, detail);
        return Err(refused.at(AUTHORIZATION.as_str()));
    }
    let header = header.to_str().map_err(|_| unauthenticated())?;
    let (scheme, token) = header.split_once(' ').ok_or_else(unauthenticated)?;
    let token = token.trim();
    if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() {
        return Err(unauthenticated());
    }
    Ok(token)
}

/// The one answer to a missing, an unknown and a revoked credential: they are not told apart.
pub(super) fn unauthenticated() -> Refused {
    let detail = "send `Authorization: Bearer` with a credential that this server accepts (an API key, or an access \
                  token of its issuer) and that is neither expired nor revoked";
    Refused::new(ProblemCode::Unauthenticated, detail).at(AUTHORIZATION.as_str())
}
