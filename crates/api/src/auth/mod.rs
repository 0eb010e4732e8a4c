//! How callers are authenticated. Owns the way from a request's headers to a [`Caller`]; must not know
//! what a route allows.

pub(crate) mod bearer;
mod key_cache;
mod proxy;
mod rate;
mod tokens;

pub use proxy::{InvalidPeer, TrustedPeers};
pub(crate) use rate::Rates;

use actix_web::HttpRequest;
use counterstep_kernel::Engine;
use counterstep_kernel::access::access_tokens::{AccessTokens, KeysState, TokenVerifier};
use counterstep_operations::{Caller, Refused};
use key_cache::KeyCache;
use std::sync::Arc;

/// How the callers of an interface are authenticated.
#[derive(Debug, Clone, Default)]
pub enum AuthSettings {
    /// Not at all: each has all roles in the default tenant. For loopback, and for a program that
    /// mounts the interface behind checks of its own.
    #[default]
    None,
    /// By API keys.
    Keys,
    /// By a proxy at one of these addresses, which sends the caller in headers.
    Proxy(TrustedPeers),
    /// By access tokens (JWT) of an issuer.
    Jwt(AccessTokens),
}

/// Finds out who sends a request.
#[derive(Debug)]
pub(crate) enum Authenticator {
    None,
    Keys(KeyCache),
    Proxy(TrustedPeers),
    Jwt(Arc<TokenVerifier>),
}

impl Authenticator {
    pub(crate) fn new(settings: &AuthSettings, engine: &Engine) -> Self {
        match settings {
            AuthSettings::None => Self::None,
            AuthSettings::Keys => Self::Keys(KeyCache::default()),
            AuthSettings::Proxy(peers) => Self::Proxy(peers.clone()),
            AuthSettings::Jwt(tokens) => {
                let clock = engine.ports.clock.clone();
                Self::Jwt(Arc::new(TokenVerifier::new(tokens.clone(), clock)))
            }
        }
    }

    /// Who sends this request.
    pub(crate) async fn caller(
        &self,
        engine: &Engine,
        request: &HttpRequest,
    ) -> Result<Caller, Refused> {
        match self {
            Self::None => Ok(Caller {
                address: request.peer_addr().map(|peer| peer.ip()),
                ..Caller::anyone()
            }),
            Self::Keys(known) => known.caller(engine, bearer::token(request)?).await,
            Self::Proxy(peers) => peers.caller(request),
            Self::Jwt(verifier) => tokens::caller(verifier, bearer::token(request)?).await,
        }
    }

    /// What checks access tokens, where callers have some.
    pub(crate) fn tokens(&self) -> Option<&Arc<TokenVerifier>> {
        match self {
            Self::Jwt(verifier) => Some(verifier),
            Self::None | Self::Keys(_) | Self::Proxy(_) => None,
        }
    }

    /// Whether the keys of the issuer are known; `None`: none are needed.
    pub(crate) fn token_keys(&self) -> Option<KeysState> {
        self.tokens().map(|verifier| verifier.keys_state())
    }

    /// Whether a caller that was let in would still be: a stream outlives its request's look at the
    /// credential.
    pub(crate) async fn is_valid(&self, engine: &Engine, caller: &Caller) -> bool {
        match (self, caller) {
            (Self::Keys(cache), Caller { key: Some(key), .. }) => cache.is_valid(engine, key).await,
            (Self::Jwt(verifier), _) => caller.expires_at.is_none_or(|at| verifier.is_before(at)),
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
