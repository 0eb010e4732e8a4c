//! Texts of clients and steps that look as if they were encrypted, kept apart from those that are.

use crate::ports::{PayloadCodec, PayloadError};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use counterstep_contracts::Tenant;

/// What an escaped text begins with.
pub(super) const ESCAPED: &str = "encrypted:0:";

/// Encrypts nothing, but gives a text a form of its own.
#[derive(Debug)]
pub(super) struct Escape;

impl PayloadCodec for Escape {
    fn encrypt(&self, _: &Tenant, _: &str, text: &str) -> Result<String, PayloadError> {
        Ok(format!("{ESCAPED}{}", BASE64.encode(text)))
    }

    fn key(&self, _: &Tenant) -> Result<String, PayloadError> {
        Err(PayloadError::Missing("nothing is encrypted".to_owned()))
    }

    fn decrypt(&self, _: &str, escaped: &str) -> Result<String, PayloadError> {
        let text = escaped.strip_prefix(ESCAPED).unwrap_or_default();
        let bytes = BASE64.decode(text).ok();
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        text.ok_or_else(|| PayloadError::Damaged("it is no escaped text".to_owned()))
    }
}
