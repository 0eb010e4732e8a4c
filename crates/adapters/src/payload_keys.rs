//! Payloads encrypted with XChaCha20-Poly1305 and the keys of their tenants, and keys in a folder: one file a
//! tenant. Must not log or show a key.

mod files;

pub use files::{FileError, FileKeys};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use chacha20poly1305::aead::{Aead, Generate, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use counterstep_contracts::Tenant;
use counterstep_kernel::ports::{ENCRYPTED, PayloadCodec, PayloadError};
use sha2::{Digest, Sha256};
use std::fmt::{self, Debug};
use std::sync::Arc;

/// Bytes of a nonce: enough to draw each at random for one key without a repetition.
const NONCE: usize = 24;

/// A key of a tenant: 32 bytes, and the id by which encrypted texts name it.
#[derive(Clone, PartialEq, Eq)]
pub struct PayloadKey {
    id: String,
    bytes: [u8; 32],
}

impl PayloadKey {
    /// Its id follows from its bytes, so that a key that is made later is never taken for it.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        let digest = Sha256::new_with_prefix("counterstep payload key 1")
            .chain_update(bytes)
            .finalize();
        let id = digest[..6].iter().map(|byte| format!("{byte:02x}"));
        Self {
            id: id.collect(),
            bytes,
        }
    }

    /// A key of random bytes.
    #[must_use]
    pub fn random() -> Self {
        Self::new(Key::generate().into())
    }

    /// By which encrypted texts name it: 12 hexadecimal digits.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&self.bytes.into())
    }
}

impl Debug for PayloadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PayloadKey({})", self.id)
    }
}

/// The keys of a tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TenantKeys {
    /// The newest first.
    pub keys: Vec<PayloadKey>,
    /// Those that it had before were deleted: what they have encrypted is lost permanently.
    pub erased: bool,
    /// These are about to be deleted: nothing more is encrypted with them.
    pub closing: bool,
}

impl TenantKeys {
    /// The key that encrypts.
    fn newest(&self, tenant: &Tenant) -> Result<&PayloadKey, PayloadError> {
        if self.closing {
            return Err(PayloadError::Missing(format!(
                "the payload keys of the tenant `{tenant}` are being deleted"
            )));
        }
        self.keys.first().ok_or_else(|| none(tenant, self))
    }
}

/// Where the keys of tenants are. Asked for each text that is encrypted or decrypted: one that asks a service
/// keeps what it was told.
pub trait PayloadKeys: Send + Sync + Debug {
    /// The keys of a tenant.
    ///
    /// # Errors
    /// [`PayloadError::Missing`] where they cannot be read here, without what a key holds.
    fn of(&self, tenant: &Tenant) -> Result<Arc<TenantKeys>, PayloadError>;

    /// The same, not from memory: a text names a key that [`of`](Self::of) has not.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    fn again(&self, tenant: &Tenant) -> Result<Arc<TenantKeys>, PayloadError> {
        self.of(tenant)
    }
}

/// Encrypts with the newest key of a tenant, and decrypts with the one that a text names.
#[derive(Debug)]
pub struct EncryptedPayloads<K> {
    keys: K,
}

impl<K: PayloadKeys> EncryptedPayloads<K> {
    /// With these keys.
    pub const fn new(keys: K) -> Self {
        Self { keys }
    }
}

/// What a text is bound to besides its key.
fn bound_to(tenant: &str, place: &str) -> Vec<u8> {
    [ENCRYPTED, tenant, place].join("\0").into_bytes()
}

/// Without a key of a tenant.
fn none(tenant: &Tenant, keys: &TenantKeys) -> PayloadError {
    if keys.erased {
        return PayloadError::Erased(format!(
            "the payload keys of the tenant `{tenant}` were deleted, and there is no newer one"
        ));
    }
    PayloadError::Missing(format!(
        "the tenant `{tenant}` has no payload key: make one with `counterstep payload-keys add {tenant}`"
    ))
}

impl<K: PayloadKeys> PayloadCodec for EncryptedPayloads<K> {
    fn key(&self, tenant: &Tenant) -> Result<String, PayloadError> {
        let keys = self.keys.of(tenant)?;
        Ok(keys.newest(tenant)?.id.clone())
    }

    fn encrypt(&self, tenant: &Tenant, place: &str, text: &str) -> Result<String, PayloadError> {
        let keys = self.keys.of(tenant)?;
        let key = keys.newest(tenant)?;
        let nonce = XNonce::generate();
        let payload = Payload {
            msg: text.as_bytes(),
            aad: &bound_to(&tenant.0, place),
        };
        let encrypted = key.cipher().encrypt(&nonce, payload);
        let encrypted = encrypted.map_err(|_| {
            PayloadError::Damaged("a payload is too large to be encrypted".to_owned())
        })?;
        let mut bytes = nonce.to_vec();
        bytes.extend(encrypted);
        Ok(format!(
            "{ENCRYPTED}{tenant}:{}:{}",
            key.id,
            BASE64.encode(bytes)
        ))
    }

    fn decrypt(&self, place: &str, encrypted: &str) -> Result<String, PayloadError> {
        let damaged = |why: &str| PayloadError::Damaged(why.to_owned());
        let mut parts = encrypted
            .strip_prefix(ENCRYPTED)
            .ok_or_else(|| damaged("its form is unknown"))?
            .splitn(3, ':');
        let (Some(tenant), Some(id), Some(text)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(damaged("it names no tenant and no key"));
        };
        let tenant = Tenant(tenant.to_owned());
        if !tenant.is_valid() {
            return Err(damaged("it names no tenant"));
        }
        let bytes = BASE64
            .decode(text)
            .map_err(|_| damaged("it is no base64"))?;
        let Some((nonce, text)) = bytes.split_first_chunk::<NONCE>() else {
            return Err(damaged("it is too short"));
        };
        let is_it = |key: &&PayloadKey| key.id == id;
        let mut keys = self.keys.of(&tenant)?;
        if !keys.keys.iter().any(|key| is_it(&key)) {
            // Another process has it already.
            keys = self.keys.again(&tenant)?;
        }
        let Some(key) = keys.keys.iter().find(is_it) else {
            let why = format!("the payload key `{id}` of the tenant `{tenant}`");
            return Err(if keys.erased {
                PayloadError::Erased(format!("{why} was deleted"))
            } else {
                PayloadError::Missing(format!("{why} is missing here"))
            });
        };
        let payload = Payload {
            msg: text,
            aad: &bound_to(&tenant.0, place),
        };
        let decrypted = key.cipher().decrypt(&XNonce::from(*nonce), payload);
        let decrypted =
            decrypted.map_err(|_| damaged("it was changed, or stood at another place"))?;
        String::from_utf8(decrypted).map_err(|_| damaged("it is no text"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Keys(Vec<(&'static str, Arc<TenantKeys>)>);

    impl PayloadKeys for Keys {
        fn of(&self, tenant: &Tenant) -> Result<Arc<TenantKeys>, PayloadError> {
            let found = self.0.iter().find(|(name, _)| *name == tenant.0);
            Ok(found.map(|(_, keys)| keys.clone()).unwrap_or_default())
        }
    }

    fn key(byte: u8) -> PayloadKey {
        PayloadKey::new([byte; 32])
    }

    fn of(keys: &[PayloadKey], erased: bool) -> EncryptedPayloads<Keys> {
        let tenant = |keys: &[PayloadKey]| {
            Arc::new(TenantKeys {
                keys: keys.to_vec(),
                erased,
                ..TenantKeys::default()
            })
        };
        EncryptedPayloads::new(Keys(vec![
            ("acme", tenant(keys)),
            ("other", tenant(&[key(9)])),
        ]))
    }

    fn codec(keys: &[PayloadKey]) -> EncryptedPayloads<Keys> {
        of(keys, false)
    }

    fn acme() -> Tenant {
        Tenant("acme".to_owned())
    }

    #[test]
    fn what_was_encrypted_is_decrypted_at_its_place_alone() {
        let codec = codec(&[key(1)]);
        let encrypted = codec
            .encrypt(&acme(), "task 1: request", "my words")
            .unwrap();
        assert!(encrypted.starts_with(ENCRYPTED) && !encrypted.contains("my words"));
        assert_eq!(
            codec.decrypt("task 1: request", &encrypted).unwrap(),
            "my words"
        );
        for (what, place, text) in [
            ("another place", "task 1: response", encrypted.clone()),
            (
                "another tenant",
                "task 1: request",
                encrypted
                    .replace("acme", "other")
                    .replace(key(1).id(), key(9).id()),
            ),
            (
                "a cut",
                "task 1: request",
                encrypted[..encrypted.len() - 4].to_owned(),
            ),
            ("nothing", "task 1: request", ENCRYPTED.to_owned()),
            (
                "no base64",
                "task 1: request",
                format!("{ENCRYPTED}acme:{}:#", key(1).id()),
            ),
            (
                "a path",
                "task 1: request",
                format!("{ENCRYPTED}../x:{}:AAAA", key(1).id()),
            ),
        ] {
            let decrypted = codec.decrypt(place, &text);
            assert!(
                matches!(decrypted, Err(PayloadError::Damaged(_))),
                "{what}: {decrypted:?}"
            );
        }
    }

    #[test]
    fn a_text_is_never_encrypted_twice_to_the_same() {
        let codec = codec(&[key(1)]);
        let encrypt = || codec.encrypt(&acme(), "here", "x").unwrap();
        assert_ne!(encrypt(), encrypt());
    }

    #[test]
    fn a_rotation_encrypts_with_the_new_key_and_decrypts_with_both() {
        let old = codec(&[key(1)]).encrypt(&acme(), "here", "x").unwrap();
        let both = codec(&[key(2), key(1)]);
        let new = both.encrypt(&acme(), "here", "x").unwrap();
        assert!(new.contains(key(2).id()) && old.contains(key(1).id()));
        assert_eq!(both.decrypt("here", &old).unwrap(), "x");
        for keys in [&[key(2)][..], &[]] {
            let erased = of(keys, true).decrypt("here", &old);
            assert!(matches!(erased, Err(PayloadError::Erased(_))), "{erased:?}");
        }
        let decrypted = codec(&[key(2)]).decrypt("here", &old);
        assert!(matches!(&decrypted, Err(PayloadError::Missing(why)) if why.contains(key(1).id())));
    }

    #[test]
    fn a_tenant_without_a_key_encrypts_nothing() {
        let refused = codec(&[]).encrypt(&acme(), "here", "x").unwrap_err();
        assert!(
            refused.to_string().contains("payload-keys add acme"),
            "{refused}"
        );
    }

    #[test]
    fn a_key_is_never_shown() {
        assert_eq!(
            format!("{:?}", key(1)),
            format!("PayloadKey({})", key(1).id())
        );
    }
}
