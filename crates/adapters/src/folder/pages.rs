//! Pages of a folder of objects, in the order of their keys and from any key on. Blocking: for
//! `spawn_blocking` only. Must not keep the names of a whole folder in memory: a tenant's has one
//! for each task.

use super::walk::is_gone;
use crate::key_checks;
use counterstep_kernel::ports::{Listed, ObjectError, ObjectPage};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Entries of a page at most.
pub(super) const MOST: usize = 1000;

/// Refuses a cursor that is none of ours: that of a listing which was begun on other objects would
/// skip some.
pub(super) fn check(cursor: &str) -> Result<(), ObjectError> {
    match cursor.split_once('/') {
        Some((bucket, name)) if key_checks::bucket(bucket).is_ok() && name.starts_with("t/") => {
            Ok(())
        }
        _ => Err(ObjectError::Refused(format!(
            "`{}` is no place in a listing",
            cursor.escape_debug()
        ))),
    }
}

/// The page behind a cursor, `{bucket}/{name}`, of all buckets.
pub(super) fn read(
    root: &Path,
    buckets: &[String],
    folder: &str,
    after: Option<&str>,
    limit: usize,
) -> io::Result<ObjectPage> {
    let folder = if folder.is_empty() { "t" } else { folder };
    let mut reading = Reading {
        page: ObjectPage::default(),
        seen: 0,
        limit,
        last: None,
    };
    let (from, after) = after
        .and_then(|after| after.split_once('/'))
        .unwrap_or(("", ""));
    for bucket in buckets.iter().filter(|bucket| bucket.as_str() >= from) {
        let after = if bucket == from { after } else { "" };
        reading.descend(&root.join(bucket), bucket, &format!("{folder}/"), after)?;
        if reading.is_full() {
            break;
        }
    }
    let mut page = reading.page;
    page.now = micros(SystemTime::now());
    page.next = reading.last.filter(|_| reading.seen >= limit);
    Ok(page)
}

struct Reading {
    page: ObjectPage,
    /// Files counted toward the page's length, unmanaged ones included.
    seen: usize,
    limit: usize,
    last: Option<String>,
}

impl Reading {
    fn is_full(&self) -> bool {
        self.seen >= self.limit
    }

    /// Reads `bucket/{folder}` behind the name `after`, a path in the bucket, folder by folder.
    /// `folder` ends in `/`.
    fn descend(&mut self, bucket: &Path, name: &str, folder: &str, after: &str) -> io::Result<()> {
        let mut after = after.to_owned();
        loop {
            let wanted = self.limit - self.seen;
            let names = smallest(bucket, folder, &after, wanted)?;
            let all = names.len() < wanted;
            for entry in names {
                if let Some(inner) = entry.strip_suffix('/') {
                    self.descend(bucket, name, &format!("{inner}/"), &after)?;
                } else {
                    self.file(bucket, name, &entry)?;
                }
                if self.is_full() {
                    return Ok(());
                }
                // Behind all that a folder holds: `0` is what follows `/`.
                after = entry
                    .strip_suffix('/')
                    .map_or(entry.clone(), |inner| format!("{inner}/\u{10ffff}"));
            }
            if all {
                return Ok(());
            }
        }
    }

    fn file(&mut self, bucket: &Path, name: &str, path: &str) -> io::Result<()> {
        let found = match std::fs::metadata(bucket.join(path)) {
            Ok(found) => found,
            Err(error) if is_gone(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        self.seen += 1;
        self.last = Some(format!("{name}/{path}"));
        // A half-done upload is `{key}#{number}` until it is renamed.
        let (key, upload) = match path.rsplit_once('#') {
            Some((key, number))
                if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                (key, Some(number.to_owned()))
            }
            _ => (path, None),
        };
        if key_checks::key(key).is_err() {
            self.page.unmanaged += 1;
            return Ok(());
        }
        self.page.objects.push(Listed {
            bucket: name.to_owned(),
            key: key.to_owned(),
            size_bytes: if upload.is_some() { 0 } else { found.len() },
            stored_at: micros(found.modified()?),
            upload,
        });
        Ok(())
    }
}

/// The first `wanted` entries of a folder behind `after`, as paths in the bucket. Folders end in `/`, so that
/// they sort as their content does. A folder with content behind `after` is one of them.
fn smallest(
    bucket: &Path,
    folder: &str,
    after: &str,
    wanted: usize,
) -> io::Result<BTreeSet<String>> {
    let mut smallest = BTreeSet::new();
    let entries = match std::fs::read_dir(bucket.join(folder)) {
        Ok(entries) => entries,
        // Removed meanwhile, or never there.
        Err(error) if is_gone(&error) => return Ok(smallest),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        // A name that is not UTF-8 is none of ours.
        let Some(name) = name.to_str() else { continue };
        let kind = match entry.file_type() {
            Ok(kind) => kind,
            Err(error) if is_gone(&error) => continue,
            Err(error) => return Err(error),
        };
        let slash = if kind.is_dir() { "/" } else { "" };
        // Neither folder nor file: a link, which nothing here makes.
        if !kind.is_dir() && !kind.is_file() {
            continue;
        }
        let path = format!("{folder}{name}{slash}");
        let behind = path.as_str() > after
            || (kind.is_dir() && after.starts_with(&path) && !ends(&path, after));
        if !behind || (smallest.len() >= wanted && smallest.last().is_some_and(|last| &path > last))
        {
            continue;
        }
        smallest.insert(path);
        if smallest.len() > wanted {
            smallest.pop_last();
        }
    }
    Ok(smallest)
}

/// Whether `after` stands behind everything in this folder.
fn ends(folder: &str, after: &str) -> bool {
    after[folder.len()..].starts_with('\u{10ffff}')
}

/// Microseconds since 1970-01-01 UTC.
fn micros(time: SystemTime) -> i64 {
    let since =
        |duration: std::time::Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => since(after),
        Err(before) => -since(before.duration()),
    }
}
