//! Access tokens (JWT) that another program issues: which are accepted, and whom they name. The keys of the
//! issuer come through a port and are remembered. Must not know how a request carries a token, nor how a
//! signature is computed.

mod algorithm;
mod claims;
mod compact;
mod keys;

pub use algorithm::Algorithm;
pub use claims::TokenRules;
pub use keys::KeysState;

use crate::cancel::CancelToken;
use crate::ports::Clock;
use async_trait::async_trait;
use compact::Compact;
use counterstep_contracts::Tenant;
use counterstep_contracts::access::Role;
use keys::KeyCache;
use std::fmt::Debug;
use std::sync::Arc;

/// Where the public keys of the issuer are. It answers within a time limit of its own, and with a bounded
/// number of keys.
#[async_trait]
pub trait KeySource: Debug + Send + Sync {
    /// All keys that may sign tokens now, or why they are not known, as text for the log.
    async fn keys(&self) -> Result<Vec<PublicKey>, String>;
}

/// Checks signatures by one key.
pub trait SignatureCheck: Debug + Send + Sync {
    /// Whether the holder of the key has signed this message. False for an algorithm that the key is not for.
    fn is_valid(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool;
}

/// A public key of the issuer.
#[derive(Debug, Clone)]
pub struct PublicKey {
    /// Its `kid`.
    pub id: Option<String>,
    /// What it may be used with.
    pub algorithms: Vec<Algorithm>,
    /// The key itself.
    pub check: Arc<dyn SignatureCheck>,
}

/// Which tokens are accepted, and where the keys for them come from.
#[derive(Debug, Clone)]
pub struct AccessTokens {
    /// What is checked besides the signature.
    pub rules: TokenRules,
    /// Where the keys are.
    pub source: Arc<dyn KeySource>,
}

/// Whom a token names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenHolder {
    /// Tenant whose tasks it may reach.
    pub tenant: Tenant,
    /// Its name in audits.
    pub subject: String,
    /// What it may do; `None`: the token names no role of this program.
    pub role: Option<Role>,
    /// From then on the token is not accepted: seconds since 1970.
    pub expires_at: u64,
}

/// A token is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It is no valid token; why is for the log alone.
    #[error(transparent)]
    Invalid(#[from] TokenFault),
    /// The keys of the issuer are not known: whether it is valid cannot be found out.
    #[error("the keys of the issuer are not known")]
    NoKeys,
}

/// What is wrong with a token. Holds no part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenFault {
    /// Too many bytes.
    #[error("it is too long")]
    TooLong,
    /// Not three parts of Base64, or no JSON in them.
    #[error("it is not of the form of a JWT")]
    Malformed,
    /// `typ` names another kind of token.
    #[error("its `typ` is neither `JWT` nor `at+jwt`")]
    WrongType,
    /// `crit` is there.
    #[error("its header has `crit`, and no extension is known")]
    Critical,
    /// `alg` is none of those that are pinned.
    #[error("its `alg` is not among those that are allowed")]
    AlgorithmNotAllowed,
    /// No key, or several without a `kid`, for this `alg`.
    #[error("no key of the issuer fits its `kid` and `alg`")]
    UnknownKey,
    /// Another key has signed it, or it was changed.
    #[error("its signature does not fit")]
    BadSignature,
    /// `iss`.
    #[error("its `iss` is another issuer")]
    WrongIssuer,
    /// `aud`.
    #[error("its `aud` does not name this audience")]
    WrongAudience,
    /// `exp`, `nbf` or `iat` is no number, or `exp` is missing.
    #[error("its `exp` is missing, or one of its times is no number")]
    MalformedTime,
    /// `exp` has passed.
    #[error("it has expired")]
    Expired,
    /// `nbf` or `iat` is to come.
    #[error("it is not valid yet")]
    NotYetValid,
    /// The claim is missing, or cannot be written to the audit.
    #[error("its subject is missing, or not 1 to 100 visible ASCII characters")]
    BadSubject,
    /// The claim is missing, or is no name of a tenant.
    #[error("its tenant is missing, or not 1 to 64 of A-Z a-z 0-9 . _ -")]
    BadTenant,
}

/// Finds out whom tokens name.
#[derive(Debug)]
pub struct TokenVerifier {
    rules: TokenRules,
    keys: KeyCache,
    clock: Arc<dyn Clock>,
}

impl TokenVerifier {
    /// Reads no key yet: [`keep_keys`](Self::keep_keys) does, and else the first token.
    #[must_use]
    pub fn new(settings: AccessTokens, clock: Arc<dyn Clock>) -> Self {
        Self {
            rules: settings.rules,
            keys: KeyCache::new(settings.source, clock.clone()),
            clock,
        }
    }

    /// Whom a token names.
    ///
    /// # Errors
    /// [`TokenError`].
    pub async fn holder(&self, token: &str) -> Result<TokenHolder, TokenError> {
        let token = Compact::parse(token)?;
        let algorithm = self.rules.allowed(&token.header.alg)?;
        let kid = token.header.kid.as_deref();
        let key = self.keys.find(kid, algorithm).await?.check;
        if !key.is_valid(algorithm, token.signed, &token.signature) {
            return Err(TokenFault::BadSignature.into());
        }
        // What it claims is looked at once it is known who claims it.
        Ok(self.rules.holder(&token.claims()?, self.now())?)
    }

    /// Whether a token that expires then would still be accepted.
    #[must_use]
    pub fn is_before(&self, expires_at: u64) -> bool {
        self.now() < expires_at
    }

    /// Reads the keys again and again until `shutdown`.
    pub async fn keep_keys(&self, shutdown: &CancelToken) {
        self.keys.keep(shutdown).await;
    }

    /// Whether there are keys.
    #[must_use]
    pub fn keys_state(&self) -> KeysState {
        self.keys.state()
    }

    fn now(&self) -> u64 {
        self.clock.unix_millis() / 1000
    }
}
