//! How callers are authenticated. Owns the way from a request's headers to a [`Caller`]; must not know
//! what a route allows.

mod bearer;
mod keys;
mod proxy;
mod rate;

pub use proxy::{InvalidPeer, TrustedPeers};
pub(crate) use rate::Rates;

use crate::caller::Caller;
use crate::problem::Refused;
use actix_web::HttpRequest;
use actix_web::http::header::AUTHORIZATION;
use counterstep_contracts::ProblemCode;
use counterstep_kernel::Engine;
use keys::KeyCache;

/// How the callers of an interface are authenticated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AuthSettings {
    /// Not at all: each has all roles in the default tenant. For loopback, and for a program that
    /// mounts the interface behind checks of its own.
    #[default]
    None,
    /// By API keys.
    Keys,
    /// By a proxy at one of these addresses, which sends the caller in headers.
    Proxy(TrustedPeers),
}

/// Finds out who sends a request.
#[derive(Debug)]
pub(crate) enum Authenticator {
    None,
    Keys(KeyCache),
    Proxy(TrustedPeers),
}

impl Authenticator {
    pub(crate) fn new(settings: &AuthSettings) -> Self {
        match settings {
            AuthSettings::None => Self::None,
            AuthSettings::Keys => Self::Keys(KeyCache::default()),
            AuthSettings::Proxy(peers) => Self::Proxy(peers.clone()),
        }
    }

    /// Who sends this request.
    pub(crate) async fn caller(
        &self,
        engine: &Engine,
        request: &HttpRequest,
    ) -> Result<Caller, Refused> {
        match self {
            Self::None => Ok(Caller::anyone()),
            Self::Keys(known) => known.caller(engine, bearer::token(request)?).await,
            Self::Proxy(peers) => peers.caller(request),
        }
    }

    /// Whether a caller that was let in would still be: a stream outlives its request's look at the key.
    pub(crate) async fn is_valid(&self, engine: &Engine, caller: &Caller) -> bool {
        match (self, &caller.key) {
            (Self::Keys(cache), Some(key)) => cache.is_valid(engine, key).await,
            _ => true,
        }
    }

    /// A key has changed in this process.
    pub(crate) fn forget(&self, key: &str) {
        if let Self::Keys(known) = self {
            known.forget(key);
        }
    }
}

/// The one answer to a missing, an unknown and a revoked credential: they are not told apart.
fn unauthenticated() -> Refused {
    let detail = "send `Authorization: Bearer` with an API key that is neither expired nor revoked";
    Refused::new(ProblemCode::Unauthenticated, detail).at(AUTHORIZATION.as_str())
}
