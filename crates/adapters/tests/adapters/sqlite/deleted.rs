//! What is deleted can be read nowhere: not in the pages of the file, not in its log, not in the spool.

use super::{file, raw};
use crate::embedded::fixture;
use crate::spool::{ALL, sealing};
use crate::suite::changes::*;
use crate::suite::spool::entry;
use counterstep_adapters::spool::FileSpool;
use counterstep_adapters::sqlite::{SqliteOptions, SqliteStore};
use counterstep_contracts::TaskStatus;
use counterstep_kernel::ports::{EndedTask, PurgeOp, Spool};
use counterstep_kernel::record::TaskRow;
use diesel::connection::SimpleConnection;
use serde_json::json;
use std::path::Path;

const PLANTED: &str = "planted-7Qm3x-secret";

/// How often the text stands in the files of a folder.
fn planted(folder: &Path) -> usize {
    let files = std::fs::read_dir(folder).expect("a folder").flatten();
    let count = |bytes: Vec<u8>| {
        let windows = bytes.windows(PLANTED.len());
        windows
            .filter(|window| *window == PLANTED.as_bytes())
            .count()
    };
    let files = files.filter(|it| it.path().is_file());
    files
        .map(|it| count(std::fs::read(it.path()).expect("a file")))
        .sum()
}

/// What `doctor` shows of the file.
async fn shown(file: &Path) -> Vec<&'static str> {
    let store = SqliteStore::look(file, &SqliteOptions::default()).expect("it is there");
    let found = store.examine().await.expect("it can be read");
    found.into_iter().map(|finding| finding.code).collect()
}

#[tokio::test]
async fn what_is_purged_is_gone_from_the_file_and_its_log_once_no_reader_holds_it() {
    let fixture = fixture().await;
    let (store, file) = (&fixture.ports.store, file(&fixture));
    let folder = file.parent().expect("a folder");
    let mut ended = Vec::new();
    for _ in 0..64 {
        let row = TaskRow {
            request: json!({"text": PLANTED}),
            status: TaskStatus::Completed,
            ..row(new_task())
        };
        let task = submitted(store, row).await.task;
        ended.push(EndedTask {
            task: task.id,
            tenant: task.tenant,
            rev: task.rev,
        });
    }
    // Half of it in the file, and all in the log.
    let mut other = raw(&file);
    other
        .batch_execute("PRAGMA wal_checkpoint(PASSIVE)")
        .expect("a checkpoint");
    assert!(planted(folder) >= 128);
    other
        .batch_execute("BEGIN; SELECT count(*) FROM tasks")
        .expect("a reader");
    let purged = store.purge(&PurgeOp::Purge(ended.clone())).await;
    assert_eq!(purged.expect("it is purged").len(), 64);
    let tasks = ended.iter().map(|ended| ended.task).collect();
    store
        .purge(&PurgeOp::Forget(tasks))
        .await
        .expect("none is left");
    assert!(planted(folder) >= 64, "a reader sees what was before");
    assert_eq!(shown(&file).await, ["sqlite_log_has_deleted"]);
    other.batch_execute("COMMIT").expect("the reader ends");
    // The next pass.
    store
        .purge(&PurgeOp::Forget(Vec::new()))
        .await
        .expect("an end");
    assert_eq!(planted(folder), 0);
    assert_eq!(shown(&file).await, [""; 0]);
}

#[tokio::test]
async fn a_file_of_a_program_that_overwrote_nothing_is_written_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tasks.db");
    let store = SqliteStore::open(&path, SqliteOptions::default()).await;
    let store = store.expect("it opens");
    let insert = format!("CREATE TABLE old (text TEXT); INSERT INTO old VALUES ('{PLANTED}')");
    let mut old = raw(&path);
    old.batch_execute(&format!(
        "PRAGMA secure_delete = OFF; PRAGMA application_id = 0; {insert}; DELETE FROM old; PRAGMA wal_checkpoint(TRUNCATE)"
    ))
    .expect("an old file");
    drop(old);
    assert!(planted(folder.path()) > 0);
    assert_eq!(shown(&path).await, ["sqlite_vacuum"]);
    store.vacuum().await.expect("it is written anew");
    assert_eq!(planted(folder.path()), 0);
    assert_eq!(shown(&path).await, [""; 0]);
}

#[tokio::test]
async fn a_result_that_was_settled_is_gone_from_the_spool() {
    let folder = tempfile::tempdir().expect("a folder");
    let spool = FileSpool::open(folder.path(), 1 << 20, sealing(), ALL).expect("a spool");
    let kept = entry(1, 10, PLANTED);
    spool.put(&kept).await.expect("it is kept");
    assert!(planted(folder.path()) > 0);
    spool.remove(&kept.key).await.expect("it is removed");
    assert_eq!(planted(folder.path()), 0);
}
