//! Keys in a folder: `{tenant}.keys`, a key a line in base64, the newest first. Must not show what stands in
//! a file.

use super::{PayloadKey, PayloadKeys};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use counterstep_contracts::Tenant;
use counterstep_kernel::ports::PayloadError;
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A file that was read counts for so long: so late a key that was added or deleted is noticed.
const REMEMBERED: Duration = Duration::from_secs(5);

/// Tenants whose keys are remembered, at most.
const MOST: usize = 10_000;

const SUFFIX: &str = ".keys";

/// A file of keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A tenant's name is none.
    #[error("`{0}` is no tenant: expected 1 to 64 of A-Z a-z 0-9 . _ -")]
    Tenant(String),
    /// The folder or a file cannot be read or written.
    #[error("`{}`: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A line is no key.
    #[error("`{}`, line {line}: expected a key of 32 bytes in base64", path.display())]
    Line {
        /// Which file.
        path: PathBuf,
        /// From 1.
        line: usize,
    },
}

type Remembered = HashMap<Tenant, (Instant, Arc<[PayloadKey]>)>;

/// The keys in a folder.
#[derive(Debug)]
pub struct FileKeys {
    folder: PathBuf,
    remembered: Mutex<Remembered>,
    remember: Duration,
}

impl FileKeys {
    /// The keys in this folder.
    ///
    /// # Errors
    /// [`FileError`] where it is no folder that can be read.
    pub fn open(folder: &Path) -> Result<Self, FileError> {
        std::fs::read_dir(folder).map_err(|error| failed(folder, error))?;
        Ok(Self::remembering(folder, REMEMBERED))
    }

    fn remembering(folder: &Path, remember: Duration) -> Self {
        Self {
            folder: folder.to_owned(),
            remembered: Mutex::default(),
            remember,
        }
    }

    fn file(&self, tenant: &Tenant) -> Result<PathBuf, FileError> {
        if tenant.is_valid() {
            Ok(self.folder.join(format!("{tenant}{SUFFIX}")))
        } else {
            Err(FileError::Tenant(tenant.0.clone()))
        }
    }

    fn read(&self, tenant: &Tenant) -> Result<Vec<PayloadKey>, FileError> {
        let path = self.file(tenant)?;
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            read => read.map_err(|error| failed(&path, error))?,
        };
        let lines = text.lines().enumerate();
        let lines = lines.filter(|(_, line)| !line.trim().is_empty());
        let key = |(at, line): (usize, &str)| {
            let bytes = BASE64.decode(line.trim()).ok();
            let bytes = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
            bytes.map(PayloadKey::new).ok_or_else(|| FileError::Line {
                path: path.clone(),
                line: at + 1,
            })
        };
        lines.map(key).collect()
    }

    /// Tenants that have keys, with the ids of these, the newest first; by name.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn list(&self) -> Result<Vec<(Tenant, Vec<String>)>, FileError> {
        let entries =
            std::fs::read_dir(&self.folder).map_err(|error| failed(&self.folder, error))?;
        let mut tenants = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| failed(&self.folder, error))?;
            let name = entry.file_name();
            let Some(tenant) = name.to_str().and_then(|name| name.strip_suffix(SUFFIX)) else {
                continue;
            };
            let tenant = Tenant(tenant.to_owned());
            if tenant.is_valid() {
                let ids = self.read(&tenant)?.into_iter().map(|key| key.id);
                tenants.push((tenant, ids.collect()));
            }
        }
        tenants.sort_unstable();
        Ok(tenants)
    }

    /// Makes a key for a tenant, which encrypts from then on; those that it has open what they have encrypted.
    /// Returns its id.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn add(&self, tenant: &Tenant) -> Result<String, FileError> {
        let path = self.file(tenant)?;
        let mut keys = self.read(tenant)?;
        keys.insert(0, PayloadKey::random());
        let lines: String = keys
            .iter()
            .map(|key| BASE64.encode(key.bytes) + "\n")
            .collect();
        // Whole under a name of its own first: a process may be reading it.
        let whole = self.folder.join(format!(".{}.new", keys[0].id));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let written = options.open(&whole).and_then(|mut file| {
            file.write_all(lines.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&whole, &path)?;
            std::fs::File::open(&self.folder)?.sync_all()
        });
        written.map_err(|error| {
            let _ = std::fs::remove_file(&whole);
            failed(&path, error)
        })?;
        Ok(keys.swap_remove(0).id)
    }

    /// Deletes all keys of a tenant: what they have encrypted is lost for good. `false`: it has none.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn delete(&self, tenant: &Tenant) -> Result<bool, FileError> {
        let path = self.file(tenant)?;
        match std::fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed(&path, error)),
        }
    }
}

fn failed(path: &Path, error: io::Error) -> FileError {
    FileError::File {
        path: path.to_owned(),
        error,
    }
}

impl PayloadKeys for FileKeys {
    fn of(&self, tenant: &Tenant) -> Result<Arc<[PayloadKey]>, PayloadError> {
        let remembered = || {
            let map = self.remembered.lock();
            map.unwrap_or_else(PoisonError::into_inner)
        };
        let now = Instant::now();
        if let Some((read, keys)) = remembered().get(tenant)
            && now.duration_since(*read) < self.remember
        {
            return Ok(keys.clone());
        }
        let keys = self.read(tenant);
        let keys: Arc<[PayloadKey]> = keys
            .map_err(|error| PayloadError::Unavailable(error.to_string()))?
            .into();
        let mut map = remembered();
        if map.len() >= MOST {
            map.clear();
        }
        map.insert(tenant.clone(), (now, keys.clone()));
        Ok(keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn tenant(name: &str) -> Tenant {
        Tenant(name.to_owned())
    }

    fn keys(folder: &tempfile::TempDir) -> FileKeys {
        FileKeys::remembering(folder.path(), Duration::ZERO)
    }

    #[test]
    fn keys_are_added_in_front_and_deleted_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let (keys, acme) = (keys(&folder), tenant("acme"));
        assert!(keys.of(&acme).unwrap().is_empty());
        let first = keys.add(&acme).unwrap();
        let second = keys.add(&acme).unwrap();
        keys.add(&tenant("other")).unwrap();
        let ids: Vec<_> = keys
            .of(&acme)
            .unwrap()
            .iter()
            .map(|key| key.id.clone())
            .collect();
        assert_eq!(ids, [second.clone(), first.clone()]);
        let listed = keys.list().unwrap();
        assert_eq!(listed[0], (acme.clone(), vec![second, first]));
        assert_eq!(listed.len(), 2);
        let mode = std::fs::metadata(folder.path().join("acme.keys")).unwrap();
        assert_eq!(mode.permissions().mode() & 0o777, 0o600);
        assert!(keys.delete(&acme).unwrap() && !keys.delete(&acme).unwrap());
        assert!(keys.of(&acme).unwrap().is_empty());
    }

    #[test]
    fn what_was_read_counts_for_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let (keys, acme) = (FileKeys::open(folder.path()).unwrap(), tenant("acme"));
        keys.add(&acme).unwrap();
        assert_eq!(keys.of(&acme).unwrap().len(), 1);
        keys.delete(&acme).unwrap();
        assert_eq!(keys.of(&acme).unwrap().len(), 1);
    }

    #[test]
    fn a_broken_file_is_named_without_what_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        let keys = keys(&folder);
        let good = BASE64.encode([7; 32]);
        std::fs::write(
            folder.path().join("acme.keys"),
            format!("{good}\n\nhunter2\n"),
        )
        .unwrap();
        let refused = keys.of(&tenant("acme")).unwrap_err();
        assert!(
            matches!(refused, PayloadError::Unavailable(_)),
            "{refused:?}"
        );
        let said = refused.to_string();
        assert!(
            said.contains("line 3") && !said.contains("hunter2"),
            "{said}"
        );
    }

    #[test]
    fn a_tenant_never_leads_out_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["../acme", "a/b", "..", ""] {
            let refused = keys(&folder).add(&tenant(name));
            assert!(matches!(refused, Err(FileError::Tenant(_))), "{name}");
        }
    }
}
