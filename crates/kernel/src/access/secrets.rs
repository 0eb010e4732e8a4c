//! Secrets of an installation, one on each line of a file, the newest first; and what is derived from them for
//! one purpose and one tenant. Must not know what they are for.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// Bytes of a secret.
const LENGTHS: std::ops::RangeInclusive<usize> = 24..=64;

/// The secrets.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secrets(Vec<Vec<u8>>);

/// Without the secrets.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

impl Secrets {
    /// Of lines with this prefix before the Base64 of each. The error is the number of the line that is no
    /// secret; a text without any is wrong at its first.
    pub(crate) fn parse(text: &str, prefix: &str) -> Result<Self, usize> {
        let lines = text.lines().map(str::trim).enumerate();
        let lines = lines.filter(|(_, line)| !line.is_empty());
        let one = |(at, line): (usize, &str)| {
            let bytes = line.strip_prefix(prefix).map(|text| STANDARD.decode(text));
            let bytes = bytes.and_then(Result::ok);
            let bytes = bytes.filter(|bytes| LENGTHS.contains(&bytes.len()));
            bytes.ok_or(at + 1)
        };
        let secrets = lines.map(one).collect::<Result<Vec<_>, _>>()?;
        if secrets.is_empty() {
            return Err(1);
        }
        Ok(Self(secrets))
    }

    /// A new one of these random bits, as a line.
    pub(crate) fn line(bits: [u128; 2], prefix: &str) -> String {
        let bytes = [bits[0].to_be_bytes(), bits[1].to_be_bytes()].concat();
        format!("{prefix}{}\n", STANDARD.encode(bytes))
    }

    /// A key of each, for what `purpose` names.
    pub(crate) fn derived(&self, purpose: String) -> impl Iterator<Item = Vec<u8>> {
        let own = move |secret: &Vec<u8>| mac(secret, &[purpose.as_bytes()]);
        self.0.iter().map(own)
    }
}

/// HMAC-SHA-256.
pub(crate) fn mac(secret: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    // It takes a key of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else {
        unreachable!("an HMAC takes a key of any length");
    };
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().to_vec()
}
