//! The spool on an SQLite file, and what only a file can be asked.

use crate::suite::spool::{self, MOST, Open, entry, holds};
use counterstep_adapters::spool::{FileSpool, OpenError, Sealing};
use counterstep_kernel::SealSecrets;
use counterstep_kernel::ports::{Spool, SpoolEntry};
use diesel::connection::SimpleConnection;
use diesel::{Connection, SqliteConnection};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

const OPEN: Open = |folder, most_bytes| -> Arc<dyn Spool> {
    Arc::new(FileSpool::open(folder, most_bytes, sealing(), ALL).expect("a spool"))
};

pub(crate) fn sealing() -> Sealing {
    Sealing {
        secrets: SealSecrets::parse(&SealSecrets::line([1, 2])).expect("a secret"),
        accepts_unsealed: false,
    }
}

pub(crate) const ALL: &dyn Fn(&str) -> bool = &|_| true;

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
    let _spool = FileSpool::open(&folder, 1, sealing(), ALL).expect("a spool");
    let mode = folder.metadata().expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

fn refused(folder: &Path) -> String {
    match FileSpool::open(folder, 1, sealing(), ALL) {
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

    drop(FileSpool::open(folder.path(), 1, sealing(), ALL).expect("a spool"));
    let mut bytes = std::fs::read(&file).expect("it is there");
    // The user version of SQLite's header.
    bytes[60..64].copy_from_slice(&2_u32.to_be_bytes());
    std::fs::write(&file, &bytes).expect("a file");
    assert!(refused(folder.path()).contains("form 2"));
    assert_eq!(std::fs::read(&file).expect("it is there"), bytes);
}

fn of_type(task_type: &str, task: u128, kept_at: u64) -> SpoolEntry {
    SpoolEntry {
        task_type: task_type.to_owned(),
        ..entry(task, kept_at, "")
    }
}

#[tokio::test]
async fn a_process_leaves_results_of_types_that_it_does_not_take_to_those_that_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = |types: &[&str]| {
        let takes = |task_type: &str| types.contains(&task_type);
        FileSpool::open(folder.path(), MOST, sealing(), &takes).expect("a spool")
    };
    let (of_x, of_y) = (of_type("X/1/a", 1, 10), of_type("Y/1/b", 2, 20));
    let (also_x, of_any) = (of_type("X/1/a", 3, 30), of_type("", 4, 40));
    let both = ["X/1/a", "Y/1/b"];
    {
        let (one, other) = (open(&both), open(&both));
        one.put(&of_x).await.expect("it is kept");
        one.put(&of_y).await.expect("it is kept");
        other.put(&also_x).await.expect("it is kept");
        other.put(&of_any).await.expect("it is kept");
    }
    // Another version of a type is another type.
    let none = open(&["X/2/c"]);
    holds(&none, &[&of_any]).await;
    let y = open(&["Y/1/b"]);
    holds(&y, &[&of_y]).await;
    let x = open(&["X/1/a"]);
    holds(&x, &[&of_x, &also_x]).await;
    drop((none, y));
    // After a restart of the machine, in another order.
    drop(x);
    let y = open(&["Y/1/b"]);
    holds(&y, &[&of_y, &of_any]).await;
    holds(&open(&["X/1/a"]), &[&of_x, &also_x]).await;
}

#[tokio::test]
async fn a_file_of_an_older_program_gets_the_types_of_its_results() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("0.db");
    let mut older = SqliteConnection::establish(file.to_str().expect("UTF-8")).expect("it opens");
    let kept = of_type("", 1, 10);
    older
        .batch_execute(&format!(
            "CREATE TABLE results (task TEXT NOT NULL, step INTEGER NOT NULL, direction TEXT NOT NULL,
               attempt INTEGER NOT NULL, epoch INTEGER NOT NULL, worker TEXT NOT NULL, kept_at INTEGER NOT NULL,
               body TEXT NOT NULL, PRIMARY KEY (task, step, direction, attempt));
             PRAGMA user_version = 1;
             INSERT INTO results VALUES ('{}', 2, 'forward', 3, 4, 'worker:0a', 10, '')",
            kept.key.task
        ))
        .expect("a file");
    drop(older);
    let accepting = Sealing {
        accepts_unsealed: true,
        ..sealing()
    };
    let spool = FileSpool::open(folder.path(), MOST, accepting, ALL).expect("a spool");
    let newer = of_type("X/1/a", 2, 20);
    spool.put(&newer).await.expect("it is kept");
    holds(&spool, &[&kept, &newer]).await;
    drop(spool);
    holds(&*OPEN(folder.path(), MOST), &[&kept, &newer]).await;
}

/// Its results are these, beside what it does not use.
async fn uses(spool: &FileSpool, entries: &[&SpoolEntry]) {
    let keys: Vec<_> = entries.iter().map(|entry| entry.key).collect();
    assert_eq!(spool.keys().await.expect("keys"), keys);
    for &entry in entries {
        let found = spool.get(&entry.key).await.expect("an answer");
        assert_eq!(found.as_ref(), Some(entry));
    }
}

#[tokio::test]
async fn a_result_whose_seal_is_not_valid_stays_and_is_not_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let entries = [1, 2, 3, 4].map(|task| entry(task, 10, "kept"));
    let open = |sealing| FileSpool::open(folder.path(), MOST, sealing, ALL).expect("a spool");
    {
        let spool = open(sealing());
        for entry in &entries {
            spool.put(entry).await.expect("it is kept");
        }
    }
    let task = |n: usize| entries[n].key.task;
    let path = folder.path().join("0.db");
    let mut rows = SqliteConnection::establish(path.to_str().expect("a path")).expect("the file");
    // Another text; another attempt's; none at all, as an older program or one of others writes it.
    rows.batch_execute(&format!(
        "UPDATE results SET body = 'planted' WHERE task = '{}';
         UPDATE results SET attempt = attempt + 1 WHERE task = '{}';
         UPDATE results SET seal = NULL WHERE task = '{}';
         CREATE TEMP TABLE planted AS SELECT * FROM results LIMIT 1;
         UPDATE planted SET task = 'no-id';
         INSERT INTO results SELECT * FROM planted",
        task(1),
        task(2),
        task(3),
    ))
    .expect("they are changed");
    drop(rows);
    let spool = open(sealing());
    uses(&spool, &[&entries[0]]).await;
    for refused in [&entries[1], &entries[3]] {
        spool
            .get(&refused.key)
            .await
            .expect_err("its seal is not valid");
    }
    assert_eq!(spool.stats().entries, 5, "they stay");
    drop(spool);
    // Those without a seal alone, and permanently.
    let accepting = Sealing {
        accepts_unsealed: true,
        ..sealing()
    };
    drop(open(accepting));
    uses(&open(sealing()), &[&entries[0], &entries[3]]).await;
    // A secret that is replaced: the older one, below it, is accepted.
    let older = SealSecrets::line([1, 2]);
    let both = format!("{}{older}", SealSecrets::line([3, 4]));
    let replaced = |text: &str| Sealing {
        secrets: SealSecrets::parse(text).expect("secrets"),
        accepts_unsealed: true,
    };
    uses(&open(replaced(&both)), &[&entries[0], &entries[3]]).await;
    uses(&open(replaced(&SealSecrets::line([3, 4]))), &[]).await;
}
