//! The seal of a kept result: who can write to the folder of the spool cannot make a result of a step with it, nor a
//! statement that runs with the rights of the worker. Must not know where results are kept.

use crate::access::secrets::{Secrets, mac};
use crate::ports::SpoolEntry;
use subtle::ConstantTimeEq;

const PREFIX: &str = "seal_";

/// The secrets of an installation, the newest first: that one seals, and each is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealSecrets(Secrets);

/// A text that holds no secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {0}: expected `seal_` and the Base64 of 24 to 64 bytes")]
pub struct InvalidSealSecret(usize);

impl SealSecrets {
    /// Of a text with one on each line, the newest first.
    ///
    /// # Errors
    /// [`InvalidSealSecret`], also where there is none.
    pub fn parse(text: &str) -> Result<Self, InvalidSealSecret> {
        let secrets = Secrets::parse(text, PREFIX).map_err(InvalidSealSecret)?;
        Ok(Self(secrets))
    }

    /// A new one of these random bits, as a line.
    #[must_use]
    pub fn line(bits: [u128; 2]) -> String {
        Secrets::line(bits, PREFIX)
    }

    /// The seal of an entry, all of it: 32 bytes.
    #[must_use]
    pub fn seal(&self, entry: &SpoolEntry) -> Vec<u8> {
        self.seals(entry).next().unwrap_or_default()
    }

    /// Whether this is the seal of the entry.
    #[must_use]
    pub fn fits(&self, entry: &SpoolEntry, seal: &[u8]) -> bool {
        self.seals(entry)
            .fold(false, |fits, own| fits | bool::from(own.ct_eq(seal)))
    }

    fn seals(&self, entry: &SpoolEntry) -> impl Iterator<Item = Vec<u8>> {
        let SpoolEntry {
            key,
            epoch,
            worker,
            task_type,
            kept_at,
            body,
        } = entry;
        // Each part with its length before it: no two entries have the same bytes.
        let parts = [
            &*key.task.to_string(),
            &*key.step.0.to_string(),
            key.direction.as_str(),
            &*key.attempt.0.to_string(),
            &*epoch.0.to_string(),
            worker,
            task_type,
            &*kept_at.to_string(),
            body,
        ]
        .map(|part| format!("{}:{part}", part.len()));
        let keys = self.0.derived("counterstep results in spools".to_owned());
        let keys: Vec<_> = keys.collect();
        keys.into_iter()
            .map(move |key| mac(&key, &parts.each_ref().map(|part| part.as_bytes())))
    }
}
