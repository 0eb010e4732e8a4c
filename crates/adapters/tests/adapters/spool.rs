//! The spool on an SQLite file, and what only a file can be asked.

use crate::suite::spool::{self, Open};
use counterstep_adapters::spool::{FileSpool, OpenError};
use counterstep_kernel::ports::Spool;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

const OPEN: Open = |folder, most_bytes| -> Arc<dyn Spool> {
    Arc::new(FileSpool::open(folder, most_bytes).expect("a spool"))
};

macro_rules! spool_cases {
    ($($case:ident),+ $(,)?) => {
        $(#[tokio::test]
        async fn $case() {
            let folder = tempfile::tempdir().expect("a folder");
            spool::$case(OPEN, folder.path()).await;
        })+
    };
}

spool_cases!(
    an_entry_comes_back_as_it_was_put_until_it_is_removed,
    one_attempt_has_one_entry_and_others_have_their_own,
    entries_survive_the_process,
    an_entry_beyond_the_bound_is_refused_and_changes_nothing,
    of_two_processes_each_has_its_own_entries,
    a_process_takes_over_what_others_that_are_gone_have_left,
);

#[test]
fn other_users_of_the_machine_cannot_look_into_its_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("data").join("spool");
    let _spool = FileSpool::open(&folder, 1).expect("a spool");
    let mode = folder.metadata().expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

fn refused(folder: &Path) -> String {
    match FileSpool::open(folder, 1) {
        Err(OpenError::Rows { why, .. }) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_that_is_none_or_of_a_newer_program_is_refused_and_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("0.db");
    let text = "no database, but more than a hundred bytes of text, which is the length of SQLite's header, and some";
    std::fs::write(&file, text).expect("a file");
    assert!(refused(folder.path()).contains("not a database"));
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), text);
    std::fs::remove_file(&file).expect("it is there");

    drop(FileSpool::open(folder.path(), 1).expect("a spool"));
    let mut bytes = std::fs::read(&file).expect("it is there");
    // The user version of SQLite's header.
    bytes[60..64].copy_from_slice(&2_u32.to_be_bytes());
    std::fs::write(&file, &bytes).expect("a file");
    assert!(refused(folder.path()).contains("form 2"));
    assert_eq!(std::fs::read(&file).expect("it is there"), bytes);
}
