//! API keys: how they are made, recognized and revoked. A key is `cs_{id}_{secret}`; its row holds the
//! SHA-256 of the secret, which is 256 random bits: there is nothing to guess, and so no slow hash is
//! needed. Must not know how a request carries a key.

use crate::audit::admin_audit::{self, AdminChange};
use crate::digest::hex;
use crate::documents::{Edit, api_key_write, edit, read_api_key};
use crate::ports::{ApiKeyRow, DocumentKind, Random, Store, StoreError};
use crate::record::DbTime;
use crate::times::rfc3339;
use counterstep_contracts::access::Role;
use counterstep_contracts::{Rev, Tenant};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::fmt;
use std::time::Duration;
use subtle::ConstantTimeEq;

/// Digits of an id.
const ID: usize = 16;
/// Digits of a secret.
const SECRET: usize = 64;
/// Maximum characters of a subject.
const LONGEST_SUBJECT: usize = 100;

fn is_hex(text: &str, digits: usize) -> bool {
    let is_digit = |it: u8| matches!(it, b'0'..=b'9' | b'a'..=b'f');
    text.len() == digits && text.bytes().all(is_digit)
}

/// What a key is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySpec {
    /// Tenant whose tasks its holder may reach.
    pub tenant: Tenant,
    /// Subject that holds the key.
    pub subject: String,
    /// What its holder may do.
    pub role: Role,
    /// For how long it is valid; `None`: until it is revoked.
    pub expires_in: Option<Duration>,
}

/// A key as its holder sends it.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey {
    id: String,
    secret: String,
}

/// Without the secret.
impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ApiKey").field(&self.id).finish()
    }
}

impl ApiKey {
    /// Reads `cs_{id}_{secret}`; `None`: it has another form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.strip_prefix("cs_")?.split_once('_')?;
        (is_hex(id, ID) && is_hex(secret, SECRET)).then(|| Self {
            id: id.to_owned(),
            secret: secret.to_owned(),
        })
    }

    /// The part that is no secret.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// `cs_{id}_{secret}`: for its holder, and for no log.
    #[must_use]
    pub fn expose(&self) -> String {
        format!("cs_{}_{}", self.id, self.secret)
    }

    fn hash(&self) -> String {
        hex(&Sha256::digest(self.secret.as_bytes()))
    }

    /// Whether it is the key of this row, and valid at this time. Takes as long for a secret that is
    /// nearly right as for any other.
    #[must_use]
    pub fn is_valid(&self, row: &ApiKeyRow, now: DbTime) -> bool {
        let is_this = self.hash().as_bytes().ct_eq(row.secret_hash.as_bytes());
        bool::from(is_this) && self.id == row.id && row.is_valid_at(now)
    }
}

/// A key was not made.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A part of it breaks a rule.
    #[error("invalid {0}")]
    Invalid(String),
    /// There is none of this id.
    #[error("no API key has the id `{0}`")]
    Gone(String),
    /// Another change came first.
    #[error("the key was changed meanwhile: try again")]
    Moved,
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Makes a key. What is returned holds the only copy of its secret.
///
/// # Errors
/// [`KeyError`].
pub async fn make(
    store: &Store,
    random: &dyn Random,
    spec: KeySpec,
    by: &str,
) -> Result<(ApiKey, ApiKeyRow), KeyError> {
    check(&spec)?;
    let digits = |bits: u128| format!("{bits:032x}");
    let key = ApiKey {
        id: digits(random.bits())[..ID].to_owned(),
        secret: digits(random.bits()) + &digits(random.bits()),
    };
    let now = store.api_key(key.id()).await?.now;
    let row = ApiKeyRow {
        id: key.id.clone(),
        secret_hash: key.hash(),
        tenant: spec.tenant,
        subject: spec.subject,
        role: spec.role,
        created_at: now,
        created_by: by.to_owned(),
        expires_at: spec.expires_in.map(|time| now.later(time)),
        revoked: None,
        rev: Rev(1),
    };
    if !admin_audit::put(store, api_key_write(&row)?, entry(&row, "key_made", by)).await? {
        return Err(KeyError::Moved);
    }
    tracing::warn!(key = row.id, tenant = %row.tenant, subject = row.subject, role = %row.role, by, "an API key was made");
    Ok((key, row))
}

/// Revokes a key: its holder is let in no longer. One that is revoked stays as it is.
///
/// # Errors
/// [`KeyError`].
pub async fn revoke(store: &Store, id: &str, by: &str) -> Result<ApiKeyRow, KeyError> {
    if !is_hex(id, ID) {
        return Err(KeyError::Gone(id.to_owned()));
    }
    let revoked = match revoke_with(store, id, by, true).await {
        Err(KeyError::Store(error)) => {
            // A chain that cannot be written must not keep a key alive.
            let revoked = revoke_with(store, id, by, false).await?;
            if revoked.is_written {
                tracing::error!(key = id, by, %error, "an API key is revoked without an entry in the audit of changes");
            }
            revoked
        }
        revoked => revoked?,
    };
    let Revoked { row, .. } = revoked;
    tracing::warn!(key = row.id, tenant = %row.tenant, subject = row.subject, by, "an API key was revoked");
    Ok(row)
}

struct Revoked {
    row: ApiKeyRow,
    /// Not by another call, or by an earlier try whose answer was lost.
    is_written: bool,
}

async fn revoke_with(
    store: &Store,
    id: &str,
    by: &str,
    is_audited: bool,
) -> Result<Revoked, KeyError> {
    let (tenant, names) = (Tenant::default(), [id]);
    let revoked = edit(store, DocumentKind::ApiKey, &tenant, &names, |found| {
        let document = found.rows.into_iter().next();
        let document = document.ok_or_else(|| KeyError::Gone(id.to_owned()))?;
        let row = read_api_key(document)?;
        if row.revoked.is_some() {
            return Ok(Edit::keep(Revoked {
                row,
                is_written: false,
            }));
        }
        let row = ApiKeyRow {
            revoked: Some((found.now, by.to_owned())),
            rev: row.rev.next(),
            ..row
        };
        let entry = is_audited.then(|| entry(&row, "key_revoked", by));
        let write = api_key_write(&row)?;
        let edit = Edit::write(
            write,
            Revoked {
                row,
                is_written: true,
            },
        );
        Ok::<_, KeyError>(match entry {
            Some(entry) => edit.audited(entry),
            None => edit,
        })
    });
    revoked.await?.ok_or(KeyError::Moved)
}

fn entry(row: &ApiKeyRow, event: &'static str, by: &str) -> AdminChange {
    let expires_at = row.expires_at.map(rfc3339);
    AdminChange {
        event,
        actor: by.to_owned(),
        tenant: row.tenant.clone(),
        name: row.id.clone(),
        details: json!({"subject": row.subject, "role": row.role, "expires_at": expires_at}),
    }
}

fn check(spec: &KeySpec) -> Result<(), KeyError> {
    if !spec.tenant.is_valid() {
        let tenant = spec.tenant.0.escape_debug();
        return Err(KeyError::Invalid(format!(
            "tenant `{tenant}`: use 1 to 64 of A-Z a-z 0-9 . _ -"
        )));
    }
    if !is_subject(&spec.subject) {
        let subject = spec.subject.escape_debug();
        return Err(KeyError::Invalid(format!(
            "subject `{subject}`: use 1 to {LONGEST_SUBJECT} of A-Z a-z 0-9 . _ @ -"
        )));
    }
    Ok(())
}

/// Whether a text may stand in audits as who called: 1 to 100 of `A-Z a-z 0-9 . _ @ -`.
#[must_use]
pub fn is_subject(text: &str) -> bool {
    let fits = |sign: u8| sign.is_ascii_alphanumeric() || b"._@-".contains(&sign);
    (1..=LONGEST_SUBJECT).contains(&text.len()) && text.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &ApiKey) -> ApiKeyRow {
        ApiKeyRow {
            id: key.id.clone(),
            secret_hash: key.hash(),
            tenant: Tenant::default(),
            subject: "shop".to_owned(),
            role: Role::Submit,
            created_at: DbTime(0),
            created_by: "kim".to_owned(),
            expires_at: Some(DbTime(100)),
            revoked: None,
            rev: Rev(1),
        }
    }

    fn key(secret: &str) -> ApiKey {
        ApiKey::parse(&format!("cs_0123456789abcdef_{}", secret.repeat(32))).unwrap()
    }

    #[test]
    fn a_key_is_valid_with_its_own_secret_until_it_expires_or_is_revoked() {
        let (own, other) = (key("a7"), key("a8"));
        let row = row(&own);
        assert!(own.is_valid(&row, DbTime(99)));
        assert!(!other.is_valid(&row, DbTime(99)));
        assert!(!own.is_valid(&row, DbTime(100)));
        let revoked = ApiKeyRow {
            revoked: Some((DbTime(1), "kim".to_owned())),
            ..row.clone()
        };
        assert!(!own.is_valid(&revoked, DbTime(99)));
        let of_another = ApiKeyRow {
            id: "fedcba9876543210".to_owned(),
            ..row
        };
        assert!(!own.is_valid(&of_another, DbTime(99)));
    }

    #[test]
    fn a_key_has_one_form_and_shows_no_secret() {
        let text = key("a7").expose();
        assert_eq!(ApiKey::parse(&text), Some(key("a7")));
        for other in [
            "",
            "cs_",
            &text[1..],
            &text[..text.len() - 1],
            &text.to_uppercase(),
            &text.replace("cs_0", "cs_g"),
            &text.replace('_', "-"),
            &format!("{text}0"),
        ] {
            assert_eq!(ApiKey::parse(other), None, "{other}");
        }
        assert!(!format!("{:?}", key("a7")).contains("a7a7"));
    }
}
