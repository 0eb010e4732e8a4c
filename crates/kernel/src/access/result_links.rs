//! Signed links to files of responses: the holder of one needs no other credential until it expires. Each
//! tenant's links are signed with keys of its own, derived from the secrets of the installation. Must not know
//! what a link looks like.

use crate::access::secrets::{Secrets, mac};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use counterstep_contracts::{TaskId, Tenant};
use subtle::{Choice, ConstantTimeEq};

/// The version of what is signed. Another one has another name here and before the signature.
const VERSION: &str = "v1";

/// The secrets of an installation, the newest first: that one signs, each of them is accepted. A link ends with
/// the secret that has signed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkSecrets(Secrets);

/// A text that holds no secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "line {0}: expected the Base64 of 24 to 64 random bytes, as `openssl rand -base64 32` prints"
)]
pub struct InvalidLinkSecret(usize);

/// What a link leads to. All of it is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkTarget<'a> {
    /// Tenant of the task.
    pub tenant: &'a Tenant,
    /// The task.
    pub task: TaskId,
    /// The file's name in its response, as `zip` or `files/0`.
    pub name: &'a str,
    /// From then on the link is not accepted: seconds since 1970.
    pub expires_at: u64,
}

impl LinkTarget<'_> {
    /// The name comes last: it may hold any character, and the others hold no line end.
    fn text(&self) -> String {
        format!("{}\n{}\n{}", self.task, self.expires_at, self.name)
    }
}

impl LinkSecrets {
    /// Of a text with one on each line, the newest first.
    ///
    /// # Errors
    /// [`InvalidLinkSecret`], also where there is none.
    pub fn parse(text: &str) -> Result<Self, InvalidLinkSecret> {
        let secrets = Secrets::parse(text, "").map_err(InvalidLinkSecret)?;
        Ok(Self(secrets))
    }

    /// A new one of these random bits, as a line.
    #[must_use]
    pub fn line(bits: [u128; 2]) -> String {
        Secrets::line(bits, "")
    }

    fn signatures(&self, target: &LinkTarget<'_>) -> impl Iterator<Item = Vec<u8>> {
        let purpose = format!("counterstep result links {VERSION} of {}", target.tenant);
        let text = target.text();
        let sign = move |key: Vec<u8>| mac(&key, &[text.as_bytes()]);
        self.0.derived(purpose).map(sign)
    }

    /// The signature of a link: `v1.` and text that may stand in a URL as it is.
    #[must_use]
    pub fn sign(&self, target: &LinkTarget<'_>) -> String {
        // There is one at least.
        let newest = self.signatures(target).next().unwrap_or_default();
        format!("{VERSION}.{}", URL_SAFE_NO_PAD.encode(newest))
    }

    /// Whether one of the secrets has signed this. Takes as long for a signature that is nearly right as for any
    /// other of its length.
    #[must_use]
    pub fn is_signed(&self, target: &LinkTarget<'_>, signature: &str) -> bool {
        let given = signature
            .split_once('.')
            .filter(|(version, _)| *version == VERSION)
            .and_then(|(_, text)| URL_SAFE_NO_PAD.decode(text).ok());
        let Some(given) = given else {
            return false;
        };
        let same = |found, own: Vec<u8>| found | own.ct_eq(&given);
        let found = self.signatures(target).fold(Choice::from(0), same);
        bool::from(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(bits: &[u128]) -> LinkSecrets {
        let lines = bits.iter().map(|it| LinkSecrets::line([*it, *it]));
        LinkSecrets::parse(&lines.collect::<String>()).unwrap()
    }

    #[test]
    fn a_signature_is_for_one_tenant_task_name_and_end() {
        let (acme, umbra) = (Tenant("acme".to_owned()), Tenant("umbra".to_owned()));
        let target = LinkTarget {
            tenant: &acme,
            task: TaskId(uuid::Uuid::from_u128(7)),
            name: "files/0",
            expires_at: 1000,
        };
        let (own, signature) = (secrets(&[1]), secrets(&[1]).sign(&target));
        assert!(own.is_signed(&target, &signature));
        for other in [
            LinkTarget {
                tenant: &umbra,
                ..target
            },
            LinkTarget {
                task: TaskId(uuid::Uuid::from_u128(8)),
                ..target
            },
            LinkTarget {
                name: "files/00",
                ..target
            },
            LinkTarget {
                name: "zip",
                ..target
            },
            LinkTarget {
                expires_at: 1001,
                ..target
            },
            LinkTarget {
                name: "0\nfiles/0",
                expires_at: 100,
                ..target
            },
        ] {
            assert!(!own.is_signed(&other, &signature), "{other:?}");
        }
        let text = signature.strip_prefix("v1.").unwrap();
        for bad in [
            String::new(),
            text.to_owned(),
            format!("v2.{text}"),
            "v1.".to_owned(),
            signature[..signature.len() - 1].to_owned(),
            format!("{signature}="),
            format!("v1.{}", text.to_lowercase()),
        ] {
            assert!(!own.is_signed(&target, &bad), "{bad}");
        }
    }

    #[test]
    fn the_newest_secret_signs_and_a_link_ends_with_its_own() {
        let tenant = Tenant::default();
        let target = LinkTarget {
            tenant: &tenant,
            task: TaskId(uuid::Uuid::from_u128(7)),
            name: "zip",
            expires_at: 1000,
        };
        let old = secrets(&[1]).sign(&target);
        let both = secrets(&[2, 1]);
        assert!(both.is_signed(&target, &old));
        let new = both.sign(&target);
        assert_eq!(new, secrets(&[2]).sign(&target));
        assert!(!secrets(&[2]).is_signed(&target, &old));
    }

    #[test]
    fn what_is_no_secret_is_named_by_its_line() {
        for (text, line) in [
            ("", 1),
            ("hunter2", 1),
            ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", 1),
        ] {
            assert_eq!(LinkSecrets::parse(text), Err(InvalidLinkSecret(line)));
        }
        let second = format!("{}AAAA\n", LinkSecrets::line([1, 2]));
        let refused = LinkSecrets::parse(&second).unwrap_err();
        assert_eq!(refused, InvalidLinkSecret(2));
        assert_eq!(format!("{:?}", secrets(&[1])), "LinkSecrets(Secrets(1))");
    }
}
