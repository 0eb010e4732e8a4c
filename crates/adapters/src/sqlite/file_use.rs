//! Which processes may use a database file at a time, and in which order the connections of one
//! process write to it. Owns the lock file beside the database. Must not know a table.
//!
//! SQLite before 3.51.3 has the WAL-reset bug: a checkpoint that begins while another connection
//! starts the log anew counts pages as copied that are not, and a later one skips them. The file is
//! damaged then. It takes two connections, one that checkpoints and another that writes; readers
//! have no part in it. A checkpoint of one connection and a write of another never overlap where one
//! process alone has the file, and its writes, each with the checkpoint that its COMMIT brings, take
//! turns.
// Not on the database file itself: closing any descriptor of that would let go SQLite's own locks.

use diesel::prelude::*;
use diesel::sql_types::Text;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// The version of the SQLite that this program is linked with, where it has the WAL-reset bug.
#[must_use]
pub fn wal_reset_bug() -> Option<&'static str> {
    static VERSION: OnceLock<String> = OnceLock::new();
    let version =
        VERSION.get_or_init(|| linked_version().unwrap_or_else(|error| error.to_string()));
    (!has_fix(version)).then_some(version)
}

fn linked_version() -> Result<String, Box<dyn std::error::Error>> {
    let mut connection = SqliteConnection::establish(":memory:")?;
    let version = diesel::dsl::sql::<Text>("SELECT sqlite_version()");
    Ok(version.get_result(&mut connection)?)
}

/// 3.51.3, and the two older lines to which SQLite's authors have taken the fix back: 3.50.7 and
/// 3.44.6 (<https://sqlite.org/wal.html#walresetbug>). What is no version has not.
fn has_fix(version: &str) -> bool {
    let numbers: Option<Vec<u32>> = version.split('.').map(|part| part.parse().ok()).collect();
    match numbers.as_deref() {
        Some([3, 44, patch, ..]) => *patch >= 6,
        Some([3, 50, patch, ..]) => *patch >= 7,
        Some(other) => *other >= [3, 51, 3][..],
        None => false,
    }
}

/// This process may not use a database file.
#[derive(Debug, thiserror::Error)]
pub enum UseError {
    /// The file that says which processes have it open.
    #[error("the lock file `{}` cannot be used", .0.display())]
    Lock(PathBuf, #[source] io::Error),
    /// Another process has it open, and the SQLite of one of the two has the WAL-reset bug.
    #[error("{}", refusal(*.bug))]
    OneProcess {
        /// The version of this program's SQLite, where it is that one.
        bug: Option<&'static str>,
    },
}

/// The use of one database file by this process: all that have it open share one lock.
#[derive(Debug)]
pub(super) struct FileUse {
    lock: LockId,
    turn: Option<Arc<Mutex<()>>>,
}

/// Device and inode of a lock file.
type LockId = (u64, u64);

#[derive(Debug)]
struct OpenLock {
    /// Shared, or exclusive where the linked SQLite has the bug. The kernel lets it go with the
    /// process, however that ends.
    _file: File,
    users: usize,
    /// Only where the linked SQLite has the bug.
    turn: Option<Arc<Mutex<()>>>,
}

/// Those of this process, which a second lock of its own would refuse too.
static OPEN: Mutex<BTreeMap<LockId, OpenLock>> = Mutex::new(BTreeMap::new());

fn open_locks() -> MutexGuard<'static, BTreeMap<LockId, OpenLock>> {
    OPEN.lock()
}

impl FileUse {
    /// Takes the file with this path for the process. `bug`: the version of its SQLite, where that
    /// has the bug.
    ///
    /// # Errors
    /// [`UseError::OneProcess`], where another process has it and one of the two may not share it.
    pub(super) fn of(database: &str, bug: Option<&'static str>) -> Result<Self, UseError> {
        let path = PathBuf::from(format!("{database}-lock"));
        let failed = |error| UseError::Lock(path.clone(), error);
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let lock = (metadata.dev(), metadata.ino());
        let mut open = open_locks();
        if let Some(known) = open.get_mut(&lock) {
            known.users += 1;
            let turn = known.turn.clone();
            return Ok(Self { lock, turn });
        }
        let locked = match bug {
            Some(_) => file.try_lock(),
            None => file.try_lock_shared(),
        };
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(UseError::OneProcess { bug }),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let turn = bug.map(|_| Arc::default());
        let known = OpenLock {
            _file: file,
            users: 1,
            turn: turn.clone(),
        };
        open.insert(lock, known);
        Ok(Self { lock, turn })
    }

    /// What to hold over a write and the checkpoint that its COMMIT may bring; `None`: SQLite does
    /// that itself.
    pub(super) fn turn(&self) -> Option<Arc<Mutex<()>>> {
        self.turn.clone()
    }
}

impl Drop for FileUse {
    fn drop(&mut self) {
        let mut open = open_locks();
        if let Some(known) = open.get_mut(&self.lock) {
            known.users -= 1;
            if known.users == 0 {
                open.remove(&self.lock);
            }
        }
    }
}

/// Waits for the turn, where there is one.
pub(super) fn wait_for(turn: Option<&Mutex<()>>) -> Option<MutexGuard<'_, ()>> {
    turn.map(|turn| turn.lock())
}

/// Why the file is refused, and what to do.
fn refusal(bug: Option<&str>) -> String {
    const BUILD: &str = "build it with libsqlite3-sys 0.37 or newer (`cargo tree -i libsqlite3-sys` shows what holds it back)";
    match bug {
        Some(version) => format!(
            "another process has it open, and this program is linked with SQLite {version}, which can damage a file that \
             two processes write to (its WAL-reset bug): stop the other process, or {BUILD}"
        ),
        None => format!(
            "another process has it open for itself alone, since its SQLite can damage a file that two processes write to \
             (the WAL-reset bug): stop that process, or {BUILD}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::{FileUse, UseError, has_fix};
    use crate::sqlite::fault::Fault;
    use crate::sqlite::pool::Durability;
    use crate::sqlite::{SqliteOptions, SqliteStore};
    use futures::future::select;
    use std::fs::File;
    use std::path::Path;
    use std::pin::pin;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn the_fix_is_in_new_versions_and_in_two_older_lines() {
        for fixed in [
            "3.44.6", "3.50.7", "3.51.3", "3.52.0", "3.53.2", "3.60.0", "4.0.0",
        ] {
            assert!(has_fix(fixed), "{fixed}");
        }
        for broken in [
            "3.7.0", "3.44.5", "3.45.6", "3.46.0", "3.49.9", "3.50.6", "3.51.2", "3.51", "", "new",
        ] {
            assert!(!has_fix(broken), "{broken}");
        }
    }

    #[test]
    fn a_file_is_shared_unless_an_sqlite_with_the_bug_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("tasks.db");
        let database = database.to_str().unwrap();
        // As another process would: a descriptor of its own.
        let other = File::create(format!("{database}-lock")).unwrap();

        other.lock_shared().unwrap();
        let shared = FileUse::of(database, None).unwrap();
        assert!(shared.turn().is_none());
        drop(shared);
        let refused = FileUse::of(database, Some("3.46.0")).unwrap_err();
        assert!(
            matches!(
                &refused,
                UseError::OneProcess {
                    bug: Some("3.46.0")
                }
            ),
            "{refused:?}"
        );
        let text = refused.to_string();
        assert!(
            text.contains("SQLite 3.46.0") && text.contains("stop the other process"),
            "{text}"
        );

        other.unlock().unwrap();
        let alone = FileUse::of(database, Some("3.46.0")).unwrap();
        assert!(other.try_lock_shared().is_err());
        let beside = FileUse::of(database, Some("3.46.0")).unwrap();
        let turn = alone.turn().unwrap();
        let held = turn.lock();
        assert!(beside.turn().unwrap().try_lock().is_none());
        drop((held, alone));
        assert!(other.try_lock_shared().is_err());
        drop(beside);
        other.lock().unwrap();
        let refused = FileUse::of(database, None).unwrap_err();
        assert!(
            matches!(&refused, UseError::OneProcess { bug: None }),
            "{refused:?}"
        );
    }

    #[tokio::test]
    async fn a_write_waits_while_another_store_of_the_process_writes_or_checkpoints() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("tasks.db");
        let other = FileUse::of(database.to_str().unwrap(), Some("3.46.0")).unwrap();
        let options = SqliteOptions {
            wait: Duration::from_millis(50),
            ..SqliteOptions::default()
        };
        let store = SqliteStore::open(Path::new(&database), options)
            .await
            .unwrap();

        let (turn, (held, is_held), (end, ended)) =
            (other.turn().unwrap(), mpsc::channel(), mpsc::channel());
        let writer = std::thread::spawn(move || {
            let _turn = turn.lock();
            held.send(()).unwrap();
            ended.recv()
        });
        is_held.recv().unwrap();
        let database = store.database();
        let write = || database.write(Durability::Full, |_, _| Ok(()));
        // One has the connection and waits for its turn; the other one waits for the connection, and
        // that wait has a limit.
        let one = pin!(write());
        let another = pin!(write());
        let (early, late) = select(one, another).await.factor_first();
        assert!(matches!(early, Err(Fault::Unavailable(_))), "{early:?}");
        end.send(()).unwrap();
        writer.join().unwrap().unwrap();
        late.await.unwrap();
    }
}
