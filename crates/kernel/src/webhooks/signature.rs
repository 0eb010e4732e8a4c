//! The signatures of webhooks, as Standard Webhooks has them. Each tenant has secrets of its own, made from
//! those of the installation: with one of them a receiver cannot pass for the sender to another tenant's.

use crate::access::secrets::{Secrets, mac};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use counterstep_contracts::Tenant;

const PREFIX: &str = "whsec_";

/// The secrets of an installation, the newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookSecrets(Secrets);

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
        let secrets = Secrets::parse(text, PREFIX).map_err(InvalidSecret)?;
        Ok(Self(secrets))
    }

    /// A new one of these random bits, as a line.
    #[must_use]
    pub fn line(bits: [u128; 2]) -> String {
        Secrets::line(bits, PREFIX)
    }

    fn of(&self, tenant: &Tenant) -> impl Iterator<Item = Vec<u8>> {
        self.0.derived(format!("counterstep webhooks of {tenant}"))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The secret of the specification's example.
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
