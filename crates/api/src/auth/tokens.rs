//! Callers by access token (JWT). Why a token is refused goes to the log, without any part of the token; the
//! answer is the same for each. Must not check a token itself.

use super::bearer::unauthenticated;
use counterstep_contracts::ProblemCode;
use counterstep_kernel::access::access_tokens::{TokenError, TokenVerifier};
use counterstep_operations::{Caller, Refused};

/// `Retry-After` in seconds: the keys are not read more often.
const COME_AGAIN: u32 = 10;

pub(super) async fn caller(tokens: &TokenVerifier, token: &str) -> Result<Caller, Refused> {
    let holder = tokens.holder(token).await.map_err(|error| match error {
        TokenError::Invalid(reason) => {
            tracing::debug!(%reason, "an access token was refused");
            unauthenticated()
        }
        TokenError::NoKeys => {
            let detail = "the keys that access tokens are checked with are not known: try again";
            Refused::new(ProblemCode::Unavailable, detail).retry_after(COME_AGAIN)
        }
    })?;
    let role = holder.role.ok_or_else(|| {
        let detail = "the access token names no role of this server: have its issuer add one";
        Refused::new(ProblemCode::Forbidden, detail)
    })?;
    Ok(Caller {
        tenant: holder.tenant,
        subject: Some(holder.subject),
        role,
        key: None,
        expires_at: Some(holder.expires_at),
        address: None,
    })
}
