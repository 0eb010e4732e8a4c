//! Processes that open one file: which may, and what one of them does beside the other.

use crate::suite::changes::*;
use counterstep_adapters::sqlite::{SqliteOptions, SqliteStore, wal_reset_bug};
use std::path::Path;
use std::process::Command;

/// The file that the second process opens.
const FILE: &str = "COUNTERSTEP_TEST_FILE";
const SECOND: &str = "sqlite::processes::the_second_process";
const WRITTEN: &str = "the second process has written";

/// Whether a second process opens the file and writes to it before it is killed, and what it prints.
fn open_in_second_process(path: &Path) -> (bool, String) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([SECOND, "--exact", "--ignored", "--nocapture"])
        .env(FILE, path)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    let text = text.concat();
    assert!(text.contains("running 1 test"), "{text}");
    (text.contains(WRITTEN), text)
}

#[tokio::test]
#[ignore = "a process that the tests beside it start"]
async fn the_second_process() {
    let path = std::env::var_os(FILE).expect("a file");
    let store = SqliteStore::open(Path::new(&path), SqliteOptions::default()).await;
    let store = store.unwrap_or_else(|error| panic!("{error}")).into();
    submitted(&store, row(new_task())).await;
    println!("{WRITTEN}");
    std::process::abort();
}

#[tokio::test]
async fn a_second_process_is_refused_where_sqlite_can_damage_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shared.db");
    let store = SqliteStore::open(&path, SqliteOptions::default())
        .await
        .unwrap()
        .into();
    submitted(&store, row(new_task())).await;
    let (is_open, text) = open_in_second_process(&path);
    match wal_reset_bug() {
        None => assert!(is_open, "{text}"),
        Some(version) => {
            assert!(!is_open, "{text}");
            assert!(text.contains(&format!("SQLite {version}")), "{text}");
            assert!(text.contains("stop the other process"), "{text}");
        }
    }
    // What only looks is never refused.
    let looking = SqliteStore::look(&path, &SqliteOptions::default()).unwrap();
    drop((looking, store));
}

#[tokio::test]
async fn a_file_is_free_once_its_process_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("left.db");
    let (is_open, text) = open_in_second_process(&path);
    assert!(is_open, "{text}");
    SqliteStore::open(&path, SqliteOptions::default())
        .await
        .unwrap();
}
