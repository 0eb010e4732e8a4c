//! The form of a token: header, claims and signature in Base64 with dots between them (RFC 7515, 3.1). Must
//! not trust any of it.

use super::TokenFault;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

/// Maximum bytes of a token. Those of some issuers list hundreds of groups.
const LONGEST: usize = 16 << 10;

/// A token that was taken apart.
#[derive(Debug)]
pub(super) struct Compact<'a> {
    /// What the signature is of.
    pub(super) signed: &'a [u8],
    pub(super) header: Header,
    pub(super) signature: Vec<u8>,
    claims: &'a str,
}

/// What is read of the header. A key that it brings along (`jwk`, `jku`, `x5c`) is not.
#[derive(Debug, Deserialize)]
pub(super) struct Header {
    pub(super) alg: String,
    #[serde(default)]
    pub(super) kid: Option<String>,
    #[serde(default)]
    typ: Option<String>,
    #[serde(default, deserialize_with = "is_there")]
    crit: bool,
}

/// Also where it is null.
fn is_there<'de, D: serde::Deserializer<'de>>(given: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(given).map(|_| true)
}

impl<'a> Compact<'a> {
    pub(super) fn parse(token: &'a str) -> Result<Self, TokenFault> {
        if token.len() > LONGEST {
            return Err(TokenFault::TooLong);
        }
        let parts: Vec<_> = token.split('.').collect();
        let &[head, claims, signature] = parts.as_slice() else {
            return Err(TokenFault::Malformed);
        };
        let header: Header = json(head)?;
        if header.crit {
            return Err(TokenFault::Critical);
        }
        if !header.typ.as_deref().is_none_or(is_access_token) {
            return Err(TokenFault::WrongType);
        }
        Ok(Self {
            signed: &token.as_bytes()[..head.len() + 1 + claims.len()],
            header,
            signature: bytes(signature)?,
            claims,
        })
    }

    /// What it claims: an object.
    pub(super) fn claims(&self) -> Result<Value, TokenFault> {
        let claims: Value = json(self.claims)?;
        claims
            .is_object()
            .then_some(claims)
            .ok_or(TokenFault::Malformed)
    }
}

/// An issuer signs tokens for other purposes with the same keys, and names them so (RFC 8725, 3.11).
fn is_access_token(typ: &str) -> bool {
    let typ = typ.to_ascii_lowercase();
    let typ = typ.strip_prefix("application/").unwrap_or(&typ);
    typ == "jwt" || typ == "at+jwt"
}

fn bytes(part: &str) -> Result<Vec<u8>, TokenFault> {
    URL_SAFE_NO_PAD
        .decode(part)
        .map_err(|_| TokenFault::Malformed)
}

fn json<T: serde::de::DeserializeOwned>(part: &str) -> Result<T, TokenFault> {
    serde_json::from_slice(&bytes(part)?).map_err(|_| TokenFault::Malformed)
}
