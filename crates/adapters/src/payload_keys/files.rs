//! Keys in a folder: `{tenant}.keys`, a key a line in base64, the newest first; behind them the line `deleted`
//! where the tenant was erased, and `closing` while that is under way. Must not show what stands in a file.

use super::{PayloadKey, PayloadKeys, TenantKeys};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use counterstep_contracts::Tenant;
use counterstep_kernel::ports::PayloadError;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a file that was read is used before it is read again: a key that was added or deleted takes
/// effect within this time.
const REMEMBERED: Duration = Duration::from_secs(5);

/// Minimum time between two reads of a file, where a text names an unknown key or the last read failed.
const LEAST: Duration = Duration::from_millis(200);

/// How long keys stay in use while their file cannot be read again: a step that has run needs them to write
/// its result, and a file that is being copied is complete a moment later.
const KEPT: Duration = Duration::from_secs(15);

/// What stands in a file whose keys were deleted. Without it a file that is not mounted, or a copy that is late,
/// would make tasks look erased.
const DELETED: &str = "deleted";

/// What stands in a file whose keys are about to be deleted.
const CLOSING: &str = "closing";

/// Maximum number of tenants whose keys are remembered.
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
        /// Path of the file.
        path: PathBuf,
        /// The I/O error.
        error: io::Error,
    },
    /// There is nothing in it.
    #[error("`{}` is empty: expected a key of 32 bytes in base64 on each line", path.display())]
    Empty {
        /// Path of the file.
        path: PathBuf,
    },
    /// Another command writes to the folder.
    #[error("`{}` is there: another command is changing the keys; if none is, delete it", path.display())]
    Locked {
        /// The lock.
        path: PathBuf,
    },
    /// A line is no key.
    #[error("`{}`, line {line}: expected a key of 32 bytes in base64", path.display())]
    Line {
        /// Path of the file.
        path: PathBuf,
        /// From 1.
        line: usize,
    },
}

/// What is known of a file.
#[derive(Debug, Clone)]
struct Remembered {
    /// When it was last read, and whether that failed.
    looked: Instant,
    failed: Option<PayloadError>,
    /// What was read last, and when.
    read: Option<(Instant, Arc<TenantKeys>)>,
}

/// The keys in a folder.
#[derive(Debug)]
pub struct FileKeys {
    folder: PathBuf,
    remembered: Mutex<HashMap<Tenant, Remembered>>,
    remember: Duration,
    keep: Duration,
}

impl FileKeys {
    /// How long after the change of a file no process uses the keys before it, and all that was begun with
    /// them is written or refused.
    pub const NOTICED: Duration = Duration::from_secs(30);

    /// The keys in this folder.
    ///
    /// # Errors
    /// [`FileError`] where it is no folder that can be read.
    pub fn open(folder: &Path) -> Result<Self, FileError> {
        std::fs::read_dir(folder).map_err(|error| failed(folder, error))?;
        Ok(Self::remembering(folder, REMEMBERED, KEPT))
    }

    fn remembering(folder: &Path, remember: Duration, keep: Duration) -> Self {
        Self {
            folder: folder.to_owned(),
            remembered: Mutex::default(),
            remember,
            keep,
        }
    }

    fn file(&self, tenant: &Tenant) -> Result<PathBuf, FileError> {
        if tenant.is_valid() {
            Ok(self.folder.join(format!("{tenant}{SUFFIX}")))
        } else {
            Err(FileError::Tenant(tenant.0.clone()))
        }
    }

    fn read(&self, tenant: &Tenant) -> Result<TenantKeys, FileError> {
        let path = self.file(tenant)?;
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(TenantKeys::default()),
            read => read.map_err(|error| failed(&path, error))?,
        };
        let mut read = TenantKeys::default();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line == DELETED {
                read.erased = true;
            } else if line == CLOSING {
                read.closing = true;
            } else if !line.is_empty() {
                let bytes = BASE64.decode(line).ok();
                let bytes = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
                let key = bytes.map(PayloadKey::new).ok_or_else(|| FileError::Line {
                    path: path.clone(),
                    line: at + 1,
                })?;
                read.keys.push(key);
            }
        }
        if read == TenantKeys::default() {
            return Err(FileError::Empty { path });
        }
        Ok(read)
    }

    /// The file whole under a name of its own first, since a process may be reading it; with the owner and the
    /// mode of the one that it replaces.
    fn write(&self, path: &Path, keys: &TenantKeys) -> Result<(), FileError> {
        let key = |key: &PayloadKey| BASE64.encode(key.bytes) + "\n";
        let mut text: String = keys.keys.iter().map(key).collect();
        for (mark, stands) in [(DELETED, keys.erased), (CLOSING, keys.closing)] {
            if stands {
                text.push_str(mark);
                text.push('\n');
            }
        }
        let whole = path.with_extension("new");
        let before = std::fs::metadata(path).ok();
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let written = options.open(&whole).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            if let Some(before) = before {
                let (user, group) = (before.uid(), before.gid());
                std::os::unix::fs::chown(&whole, Some(user), Some(group))?;
                file.set_permissions(before.permissions())?;
            }
            file.sync_all()?;
            std::fs::rename(&whole, path)?;
            std::fs::File::open(&self.folder)?.sync_all()
        });
        written.map_err(|error| {
            let _ = std::fs::remove_file(&whole);
            failed(path, error)
        })
    }

    /// Changes what a tenant has, beside no other command.
    fn change<T>(
        &self,
        tenant: &Tenant,
        change: impl FnOnce(&mut TenantKeys) -> Option<T>,
    ) -> Result<Option<T>, FileError> {
        let path = self.file(tenant)?;
        let lock = self.folder.join(".lock");
        let held = OpenOptions::new().write(true).create_new(true).open(&lock);
        held.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => FileError::Locked { path: lock.clone() },
            _ => failed(&lock, error),
        })?;
        let changed = self.read(tenant).and_then(|mut keys| {
            let changed = change(&mut keys);
            if changed.is_some() {
                self.write(&path, &keys)?;
            }
            Ok(changed)
        });
        std::fs::remove_file(&lock).map_err(|error| failed(&lock, error))?;
        changed
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
                let ids = self.read(&tenant)?.keys.into_iter().map(|key| key.id);
                tenants.push((tenant, ids.collect()));
            }
        }
        tenants.sort_unstable();
        Ok(tenants)
    }

    /// Makes a key for a tenant, which encrypts from then on; those that it has open what they have encrypted.
    /// Where they were about to be deleted, they are not any more. Returns its id.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn add(&self, tenant: &Tenant) -> Result<String, FileError> {
        let key = PayloadKey::random();
        let id = key.id.clone();
        self.change(tenant, |keys| {
            keys.keys.insert(0, key);
            keys.closing = false;
            Some(())
        })?;
        Ok(id)
    }

    /// Nothing more is encrypted with the keys of a tenant, once [`NOTICED`](Self::NOTICED) has gone by: they are to be
    /// deleted. `false`: it has none.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn close(&self, tenant: &Tenant) -> Result<bool, FileError> {
        self.set_closing(tenant, true)
    }

    /// They are not to be deleted after all.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn reopen(&self, tenant: &Tenant) -> Result<(), FileError> {
        self.set_closing(tenant, false).map(drop)
    }

    fn set_closing(&self, tenant: &Tenant, closing: bool) -> Result<bool, FileError> {
        let closed = self.change(tenant, |keys| {
            keys.closing = closing;
            (!keys.keys.is_empty()).then_some(())
        })?;
        Ok(closed.is_some())
    }

    /// Deletes all keys of a tenant: what they have encrypted is lost permanently. `false`: it has none.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn delete(&self, tenant: &Tenant) -> Result<bool, FileError> {
        let deleted = self.change(tenant, |keys| {
            let has_some = !keys.keys.is_empty();
            *keys = TenantKeys {
                erased: true,
                ..TenantKeys::default()
            };
            has_some.then_some(())
        })?;
        Ok(deleted.is_some())
    }

    fn remembered(&self, tenant: &Tenant, for_: Duration) -> Result<Arc<TenantKeys>, PayloadError> {
        let remembered = || self.remembered.lock();
        let now = Instant::now();
        let known = remembered().get(tenant).cloned();
        let is_fresh = known.as_ref().is_some_and(|known| {
            let for_ = if known.failed.is_some() {
                for_.min(LEAST)
            } else {
                for_
            };
            now.duration_since(known.looked) < for_
        });
        let known = match known.filter(|_| is_fresh) {
            Some(known) => known,
            None => {
                let before = remembered()
                    .get(tenant)
                    .and_then(|known| known.read.clone());
                let looked = self.look(tenant, before, now);
                let mut map = remembered();
                if map.len() >= MOST {
                    map.clear();
                }
                map.insert(tenant.clone(), looked.clone());
                looked
            }
        };
        let counts = |(read, _): &(Instant, _)| now.saturating_duration_since(*read) < self.keep;
        match (known.failed, known.read) {
            (Some(error), None) => Err(error),
            (Some(error), Some(read)) if !counts(&read) => Err(error),
            (_, Some((_, keys))) => Ok(keys),
            (None, None) => Ok(Arc::default()),
        }
    }

    /// Reads a file of which `before` was read last. One that is not there any more cannot be read: keys are deleted
    /// by what stands in it.
    fn look(
        &self,
        tenant: &Tenant,
        before: Option<(Instant, Arc<TenantKeys>)>,
        now: Instant,
    ) -> Remembered {
        let had_keys = |(_, keys): &(Instant, Arc<TenantKeys>)| !keys.keys.is_empty();
        let failed = match self.read(tenant) {
            Ok(keys) if keys == TenantKeys::default() && before.as_ref().is_some_and(had_keys) => {
                "its file is gone".to_owned()
            }
            Ok(keys) => {
                return Remembered {
                    looked: now,
                    failed: None,
                    read: Some((now, Arc::new(keys))),
                };
            }
            Err(error) => error.to_string(),
        };
        tracing::error!(%tenant, error = failed, "payload keys cannot be read");
        let error = format!("the payload keys cannot be read: {failed}");
        Remembered {
            looked: now,
            failed: Some(PayloadError::Missing(error)),
            read: before,
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
    fn of(&self, tenant: &Tenant) -> Result<Arc<TenantKeys>, PayloadError> {
        self.remembered(tenant, self.remember)
    }

    fn again(&self, tenant: &Tenant) -> Result<Arc<TenantKeys>, PayloadError> {
        self.remembered(tenant, LEAST.min(self.remember))
    }
}

#[cfg(test)]
mod tests;
