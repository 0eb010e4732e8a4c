//! The signatures of webhooks, as Standard Webhooks has them. Each tenant has secrets of its own, made from
//! those of the installation: with one of them a receiver cannot pass for the sender to another tenant's.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use counterstep_contracts::Tenant;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

const PREFIX: &str = "whsec_";

/// Bytes of a secret.
const LENGTHS: std::ops::RangeInclusive<usize> = 24..=64;

/// The secrets of an installation, the newest first.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecrets(Vec<Vec<u8>>);

/// Without the secrets.
impl fmt::Debug for WebhookSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WebhookSecrets({})", self.0.len())
    }
}

/// A text that holds no secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {0}: expected `whsec_` and the Base64 of 24 to 64 bytes")]
pub struct InvalidSecret(usize);

impl WebhookSecrets {
    /// Of a text with one on each line, the newest first.
    ///
    /// # Errors
    /// [`InvalidSecret`], also where there is none.
    pub fn parse(text: &str) -> Result<Self, InvalidSecret> {
        let lines = text.lines().map(str::trim).enumerate();
        let lines = lines.filter(|(_, line)| !line.is_empty());
        let one = |(at, line): (usize, &str)| {
            let bytes = line.strip_prefix(PREFIX).map(|text| STANDARD.decode(text));
            let bytes = bytes.and_then(Result::ok);
            let bytes = bytes.filter(|bytes| LENGTHS.contains(&bytes.len()));
            bytes.ok_or(InvalidSecret(at + 1))
        };
        let secrets = lines.map(one).collect::<Result<Vec<_>, _>>()?;
        if secrets.is_empty() {
            return Err(InvalidSecret(1));
        }
        Ok(Self(secrets))
    }

    /// A new one of these random bits, as a line.
    #[must_use]
    pub fn line(bits: [u128; 2]) -> String {
        let bytes = [bits[0].to_be_bytes(), bits[1].to_be_bytes()].concat();
        format!("{PREFIX}{}\n", STANDARD.encode(bytes))
    }

    fn of(&self, tenant: &Tenant) -> impl Iterator<Item = Vec<u8>> {
        let name = format!("counterstep webhooks of {tenant}");
        let own = move |secret: &Vec<u8>| mac(secret, &[name.as_bytes()]);
        self.0.iter().map(own)
    }

    /// Those of a tenant, for its receivers.
    #[must_use]
    pub fn expose(&self, tenant: &Tenant) -> Vec<String> {
        let text = |bytes: Vec<u8>| format!("{PREFIX}{}", STANDARD.encode(bytes));
        self.of(tenant).map(text).collect()
    }

    /// The header `webhook-signature`; `sent_at`: in seconds.
    #[must_use]
    pub fn sign(&self, tenant: &Tenant, id: &str, sent_at: i64, body: &[u8]) -> String {
        let head = format!("{id}.{sent_at}.");
        let one = |secret: Vec<u8>| {
            let signature = mac(&secret, &[head.as_bytes(), body]);
            format!("v1,{}", STANDARD.encode(signature))
        };
        let all: Vec<_> = self.of(tenant).map(one).collect();
        all.join(" ")
    }
}

fn mac(secret: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    // It takes a key of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else {
        unreachable!("an HMAC takes a key of any length");
    };
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// That of the specification.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn the_signature_is_that_of_the_specification() {
        let secret = STANDARD.decode(&SECRET[PREFIX.len()..]).unwrap();
        let signed = b"msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{\"test\": 2432232314}";
        assert_eq!(
            STANDARD.encode(mac(&secret, &[signed])),
            "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
    }

    #[test]
    fn each_tenant_has_its_own_and_each_secret_signs() {
        let one = WebhookSecrets::parse(SECRET).unwrap();
        let two = WebhookSecrets::parse(&format!(
            "{}\n{SECRET}\n",
            WebhookSecrets::line([1, 2]).trim()
        ))
        .unwrap();
        let (acme, umbra) = (Tenant("acme".to_owned()), Tenant("umbra".to_owned()));
        let sign = |secrets: &WebhookSecrets, tenant| secrets.sign(tenant, "a", 7, b"{}");
        assert_ne!(sign(&one, &acme), sign(&one, &umbra));
        assert_ne!(one.expose(&acme), one.expose(&umbra));
        let both = sign(&two, &acme);
        assert_eq!(both.split(' ').count(), 2);
        assert!(both.ends_with(&sign(&one, &acme)));
        // What a receiver does with the secret that it was given.
        let given = STANDARD
            .decode(&one.expose(&acme)[0][PREFIX.len()..])
            .unwrap();
        let checked = STANDARD.encode(mac(&given, &[b"a.7.{}"]));
        assert_eq!(sign(&one, &acme), format!("v1,{checked}"));
        assert!(!format!("{two:?}").contains("whsec"));
    }

    #[test]
    fn what_is_no_secret_is_named_by_its_line() {
        for (text, line) in [
            ("", 1),
            ("hunter2", 1),
            ("whsec_AAAA", 1),
            (&format!("{SECRET}\nwhsec_!"), 2),
        ] {
            assert_eq!(
                WebhookSecrets::parse(text),
                Err(InvalidSecret(line)),
                "{text}"
            );
        }
    }
}
