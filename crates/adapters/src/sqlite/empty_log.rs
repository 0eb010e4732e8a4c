//! Empties the log of the file of what was deleted, and says where that is not possible. Must not know what it was.

use super::pool::Database;
use counterstep_kernel::engine::log_lines::LogLines;
use counterstep_kernel::ports::StoreError;
use std::sync::LazyLock;
use std::sync::atomic::Ordering;
use std::time::Instant;

impl Database {
    /// What was deleted may still be read in the log.
    pub(super) fn has_deleted(&self) {
        self.log_has_deleted.store(true, Ordering::Release);
    }

    /// Empties the log, where it may have what was deleted. While others read from it that is not possible, and the next call tries
    /// again.
    pub(super) async fn empty_log(&self) {
        if !self.log_has_deleted.swap(false, Ordering::AcqRel) {
            return;
        }
        match self.writer.empty_log().await {
            Ok((true, _)) => return,
            // A process that ended between the two may have left it: it is tried again, and nothing is known to be in it.
            Ok((false, false)) => {}
            Ok((false, true)) => {
                if let Some(left_out) = log_line("is read") {
                    tracing::info!(
                        left_out,
                        "what was deleted is still in the log of the database file, since another connection reads from it: \
                         end what reads for long, as a shell or a copy; `doctor` shows since when"
                    );
                }
            }
            Err(fault) => {
                if let Some(left_out) = log_line("fails") {
                    tracing::warn!(left_out, error = %StoreError::from(fault), "the log of the database could not be emptied");
                }
            }
        }
        self.has_deleted();
    }
}

/// Whether to write a line of this kind about the log of the file; with how many that were left out.
fn log_line(kind: &'static str) -> Option<u64> {
    static LINES: LogLines = LogLines::new();
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    LINES.next(kind, START.elapsed())
}

#[cfg(test)]
mod tests {
    use crate::sqlite::deleted::LogSince;
    use crate::sqlite::{SqliteOptions, SqliteStore};
    use diesel::connection::SimpleConnection;
    use diesel::prelude::*;
    use diesel::sqlite::SqliteConnection;

    #[tokio::test]
    async fn a_log_that_others_read_has_nothing_that_was_deleted_where_nothing_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tasks.db");
        let store = SqliteStore::open(&path, SqliteOptions::default()).await;
        let store = store.expect("it opens");
        let mut other = SqliteConnection::establish(path.to_str().expect("UTF-8")).expect("a file");
        other
            .batch_execute("BEGIN; SELECT count(*) FROM tasks")
            .expect("a reader");
        let nothing = store.database.writer.empty_log().await;
        let (_, has_deleted) = nothing.expect("it answers");
        assert!(!has_deleted);
        let mut writer =
            SqliteConnection::establish(path.to_str().expect("UTF-8")).expect("a file");
        LogSince::begin(&mut writer, 60_000_000).expect("a deletion");
        let deleted = store.database.writer.empty_log().await;
        assert_eq!(
            deleted.expect("it answers"),
            (false, true),
            "the reader still reads it"
        );
    }
}
