//! Two thousand rows of journals, and every kind of damage done to them by statements beside the
//! store, one after the other: each is found, and named by the row that it was done to; and nothing
//! else is.

use crate::suite::chain::{chained, check, entries};
use crate::suite::changes::{after, commit, free, load};
use crate::{embedded, sqlite};
use counterstep_kernel::ports::{ChainRow, JournalPage, Lane, Store};
use counterstep_reconciler::audit::{Damage, Part, Scope};
use diesel::connection::SimpleConnection;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all, ready};
use serde_json::{Value, json};
use std::sync::Mutex;

/// How one database writes what the other writes otherwise.
struct Dialect<'a> {
    run: &'a (dyn Fn(String) -> BoxFuture<'a, ()> + Sync),
    /// A literal of bytes from hexadecimal digits: what stands before and after them.
    bytes: (&'static str, &'static str),
    /// The time, a microsecond later.
    later: &'static str,
}

impl Dialect<'_> {
    fn bytes(&self, bytes: &[u8]) -> String {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}{digits}{}", self.bytes.0, self.bytes.1)
    }

    async fn run(&self, sql: impl Into<String>) {
        (self.run)(sql.into()).await;
    }
}

/// 20 tasks of 100 changes, of five entries each.
const TASKS: usize = 20;
const ROWS: usize = 100;
const ENTRIES: i64 = 5;

type Expected = (usize, Option<i64>, Damage);

struct Case {
    name: &'static str,
    sql: Vec<String>,
    expected: Vec<Expected>,
}

fn flipped(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 1;
    bytes
}

fn cases(dialect: &Dialect<'_>, number: usize, task: &str, rows: &[ChainRow]) -> Vec<Case> {
    use Damage::{Changed, Inserted, Missing, NoTask, RowDiffers};
    let row = |rev: i64| &rows[usize::try_from(rev).unwrap() - 1];
    let set = |what: &str, rev: i64| {
        format!("UPDATE journal SET {what} WHERE task = '{task}' AND rev = {rev}")
    };
    let link = |rev: i64| dialect.bytes(&flipped(&row(rev).link, 20));
    let seal = |rev: i64| dialect.bytes(&flipped(&row(rev).seal, 31));
    let none = dialect.bytes(&[]);
    let one = |name, sql: String, rev, damage| Case {
        name,
        sql: vec![sql],
        expected: vec![(number, rev, damage)],
    };
    let copy = |from: i64, to: i64| {
        format!(
            "INSERT INTO journal (task, rev, epoch, at, change_id, actor, form, entries, data, link, seal)
             SELECT task, {to}, epoch, at, change_id, actor, form, entries, data, link, seal
             FROM journal WHERE task = '{task}' AND rev = {from}"
        )
    };
    let renumber = |condition: &str, by: i64| {
        [
            format!("UPDATE journal SET rev = -(rev + {by}) WHERE task = '{task}' AND {condition}"),
            format!("UPDATE journal SET rev = -rev WHERE task = '{task}' AND rev < 0"),
        ]
    };
    let swap = |a: i64, b: i64| {
        vec![
            set("rev = -1", a),
            set(&format!("rev = {a}"), b),
            set(&format!("rev = {b}"), -1),
        ]
    };
    let delete =
        |condition: &str| format!("DELETE FROM journal WHERE task = '{task}' AND {condition}");
    // 1 is the first, 100 the last.
    let mut cases = Vec::new();
    for rev in [1, 8, 50, 51, 100] {
        let entries = &row(rev).entries;
        let changed = |from: &str, to: &str| {
            let changed = entries.replacen(from, to, 1);
            assert_ne!(changed, *entries, "{from} is not there");
            format!("entries = '{changed}'")
        };
        let at = |damage| vec![(number, Some(rev), damage)];
        let mut add = |name, what: String, damage| {
            cases.push(Case {
                name,
                sql: vec![set(&what, rev)],
                expected: at(damage),
            });
        };
        add(
            "a byte of the details",
            changed("because", "becausE"),
            Changed(Part::Text),
        );
        add(
            "spaces in the entries",
            format!("entries = '{entries} '"),
            Changed(Part::Text),
        );
        add("the actor", "actor = 'Test'".into(), Changed(Part::Text));
        add(
            "the event",
            changed("step_started", "step_starteD"),
            Changed(Part::Text),
        );
        add(
            "the attempt",
            changed("\"attempt\":2", "\"attempt\":3"),
            Changed(Part::Text),
        );
        add(
            "entries that are none",
            "entries = 'levitating'".into(),
            Changed(Part::Text),
        );
        add("the epoch", "epoch = epoch + 1".into(), Changed(Part::Text));
        add("the form", "form = 0".into(), Changed(Part::Text));
        add(
            "the change",
            "change_id = '00000000-0000-7000-8000-000000000000'".into(),
            Changed(Part::Text),
        );
        add(
            "the time",
            format!("at = {}", dialect.later),
            Changed(Part::Time),
        );
        add(
            "the link",
            format!("link = {}", link(rev)),
            Changed(Part::Link),
        );
        add(
            "the seal",
            format!("seal = {}", seal(rev)),
            Changed(Part::Seal),
        );
        add("no seal", format!("seal = {none}"), Changed(Part::Seal));
        add("no link", format!("link = {none}"), Changed(Part::Link));
        add(
            "neither link nor seal",
            format!("link = {none}, seal = {none}"),
            Changed(Part::Link),
        );
        add(
            "the data",
            "data = '{\"outputs\":{\"1\":0}}'".into(),
            Changed(Part::Data),
        );
        cases.push(one(
            "deleted",
            delete(&format!("rev = {rev}")),
            Some(rev),
            Missing,
        ));
    }
    let task_row = |what: &str| format!("UPDATE tasks SET {what} WHERE id = '{task}'");
    let head = dialect.bytes(&flipped(&row(100).seal, 0));
    let mut put_in = renumber("rev >= 60", 1).to_vec();
    put_in.push(copy(20, 60));
    let mut taken_out = vec![delete("rev = 60")];
    taken_out.extend(renumber("rev > 60", -1));
    let moved = |a, b| vec![(number, Some(a), Inserted), (number, Some(b), Inserted)];
    cases.extend([
        one(
            "three deleted in the middle",
            delete("rev BETWEEN 44 AND 46"),
            Some(44),
            Missing,
        ),
        one(
            "the first three deleted",
            delete("rev < 4"),
            Some(1),
            Missing,
        ),
        one(
            "the last three deleted",
            delete("rev > 97"),
            Some(98),
            Missing,
        ),
        one("all deleted", delete("rev > 0"), Some(1), Missing),
        one(
            "one put behind the end",
            copy(100, 101),
            Some(101),
            Inserted,
        ),
        one(
            "one put far behind the end",
            copy(20, 900),
            Some(900),
            Inserted,
        ),
        one("one put before the start", copy(1, 0), Some(0), Inserted),
        one(
            "the end of the chain",
            task_row(&format!("audit_seal = {head}")),
            None,
            RowDiffers(Part::Head),
        ),
        one(
            "no end of the chain",
            task_row("audit_seal = NULL"),
            None,
            RowDiffers(Part::Head),
        ),
        one(
            "the number of the end",
            task_row("rev = 99"),
            None,
            RowDiffers(Part::Head),
        ),
        one(
            "a number beyond the end",
            task_row("rev = 101"),
            None,
            RowDiffers(Part::Head),
        ),
        one(
            "the state of the task",
            task_row("status = 'running'"),
            None,
            RowDiffers(Part::State),
        ),
        one(
            "all deleted, and the number of the end",
            format!("{}; {}", delete("rev > 0"), task_row("rev = 0")),
            Some(1),
            Missing,
        ),
        one(
            "no task",
            format!("DELETE FROM tasks WHERE id = '{task}'"),
            Some(1),
            NoTask,
        ),
        Case {
            name: "one put between",
            sql: put_in,
            expected: vec![(number, Some(60), Inserted)],
        },
        Case {
            name: "one taken out, and closed up",
            sql: taken_out,
            expected: vec![(number, Some(60), Missing)],
        },
        Case {
            name: "two neighbours swapped",
            sql: swap(60, 61),
            expected: moved(60, 61),
        },
        Case {
            name: "the last two swapped",
            sql: swap(99, 100),
            expected: moved(99, 100),
        },
        Case {
            name: "two far apart swapped",
            sql: swap(20, 80),
            expected: moved(20, 80),
        },
        Case {
            name: "another one in its place",
            sql: vec![delete("rev = 60"), copy(20, 60)],
            expected: vec![(number, Some(60), Changed(Part::Text))],
        },
    ]);
    cases
}

async fn every_damage_is_named(store: &Store, dialect: &Dialect<'_>) {
    let changes = [ENTRIES; ROWS];
    let details = json!({"why": "because", "numbers": [1, 2.5]});
    let made = join_all((0..TASKS).map(|_| chained(store, &changes, &details))).await;
    let mut tasks: Vec<String> = made
        .iter()
        .map(|record| record.task.id.to_string())
        .collect();
    tasks.sort();
    let (verified, found) = check(store, &Scope::default()).await;
    assert_eq!(
        (verified.tasks, verified.rows, verified.erased),
        (20, 2_000, 0)
    );
    assert_eq!(found, []);
    let mut each = Vec::new();
    for (number, task) in tasks.iter().enumerate() {
        let page = JournalPage {
            task: Some(task.clone()),
            after: None,
            limit: 500,
            lane: Lane::People,
        };
        each.push(cases(
            dialect,
            number,
            task,
            &store.journal(&page).await.unwrap(),
        ));
    }
    dialect
        .run("CREATE TABLE kept_journal AS SELECT * FROM journal")
        .await;
    dialect
        .run("CREATE TABLE kept_tasks AS SELECT * FROM tasks")
        .await;

    // One byte of one row.
    try_out(store, dialect, &tasks, &[&each[7][1]]).await;
    // Then every damage, each to another task, as many at a time as there are tasks.
    let count = each[0].len();
    assert!(count > 100, "{count}");
    for round in 0..count.div_ceil(TASKS) {
        let these: Vec<_> = each
            .iter()
            .enumerate()
            .filter_map(|(number, cases)| cases.get(round * TASKS + number))
            .collect();
        try_out(store, dialect, &tasks, &these).await;
    }
    // And several to one, and from one to another.
    let on = |task: usize, set: &str, rev: i64| {
        format!(
            "UPDATE journal SET {set} WHERE task = '{}' AND rev = {rev}",
            tasks[task]
        )
    };
    let several = Case {
        name: "several at once",
        sql: vec![
            on(7, "actor = 'a'", 10),
            on(7, &format!("at = {}", dialect.later), 30),
            format!(
                "DELETE FROM journal WHERE task = '{}' AND rev = 40",
                tasks[7]
            ),
        ],
        expected: vec![
            (7, Some(10), Damage::Changed(Part::Text)),
            (7, Some(30), Damage::Changed(Part::Time)),
            (7, Some(40), Damage::Missing),
        ],
    };
    let given = Case {
        name: "given to another task",
        sql: vec![on(9, &format!("task = '{}', rev = 101", tasks[3]), 50)],
        expected: vec![
            (3, Some(101), Damage::Inserted),
            (9, Some(50), Damage::Missing),
        ],
    };
    try_out(store, dialect, &tasks, &[&several, &given]).await;
    // What was handed in may be erased: the chain holds without it.
    dialect
        .run(format!(
            "UPDATE journal SET data = NULL WHERE task = '{}'",
            tasks[5]
        ))
        .await;
    let (verified, found) = check(store, &Scope::default()).await;
    assert_eq!((verified.erased, found), (ROWS as u64, vec![]));

    // A task that was changed by hand, and went on from there.
    dialect
        .run(format!(
            "UPDATE tasks SET status = 'dead_lettered' WHERE id = '{}'",
            tasks[11]
        ))
        .await;
    let record = load(store, tasks[11].parse().unwrap()).await;
    let mut change = after(&record);
    entries(&mut change, 1, &Value::Null);
    change.audit[0].from = Some(record.task.status);
    commit(store, free(&record), &change).await.unwrap();
    let found = check(store, &Scope::default()).await.1;
    let named: Vec<_> = found
        .iter()
        .map(|one| (one.task.as_str(), one.rev, one.damage))
        .collect();
    assert_eq!(
        named,
        [(tasks[11].as_str(), Some(101), Damage::Illegal(Part::Order))],
        "{found:#?}"
    );
}

/// Does all of this damage, looks at what is found, and makes it good.
async fn try_out(store: &Store, dialect: &Dialect<'_>, tasks: &[String], cases: &[&Case]) {
    for case in cases {
        for sql in &case.sql {
            dialect.run(sql.clone()).await;
        }
    }
    let found = check(store, &Scope::default()).await.1;
    for (number, task) in tasks.iter().enumerate() {
        let of = |expected: &&Expected| expected.0 == number;
        let expected: Vec<_> = cases
            .iter()
            .flat_map(|case| case.expected.iter().filter(of))
            .copied()
            .collect();
        let named: Vec<_> = found
            .iter()
            .filter(|finding| finding.task == *task)
            .collect();
        let short: Vec<_> = named
            .iter()
            .map(|finding| (number, finding.rev, finding.damage))
            .collect();
        let names: Vec<_> = cases
            .iter()
            .filter(|case| case.expected.iter().any(|one| one.0 == number))
            .collect();
        let names: Vec<_> = names.iter().map(|case| case.name).collect();
        assert_eq!(short, expected, "{names:?}: {named:#?}");
    }
    let expected: usize = cases.iter().map(|case| case.expected.len()).sum();
    assert_eq!(found.len(), expected, "in no task: {found:#?}");
    for repair in [
        "DELETE FROM journal",
        "INSERT INTO journal SELECT * FROM kept_journal",
        "DELETE FROM tasks",
        "INSERT INTO tasks SELECT * FROM kept_tasks",
    ] {
        dialect.run(repair).await;
    }
}

#[tokio::test]
async fn every_damage_to_two_thousand_rows_is_named_in_sqlite() {
    let fixture = embedded::fixture().await;
    let connection = Mutex::new(sqlite::raw(&sqlite::file(&fixture)));
    let run = |sql: String| {
        let mut connection = connection.lock().unwrap();
        connection
            .batch_execute(&sql)
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
        ready(()).boxed()
    };
    run("PRAGMA foreign_keys = OFF".to_owned()).await;
    let dialect = Dialect {
        run: &run,
        bytes: ("x'", "'"),
        later: "at + 1",
    };
    every_damage_is_named(&fixture.ports.store, &dialect).await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn every_damage_to_two_thousand_rows_is_named_in_postgres() {
    let fixture = crate::postgres::fixture().await;
    let client = crate::postgres::raw(&fixture.url).await;
    let client = &client;
    let run = |sql: String| {
        async move {
            client
                .batch_execute(&sql)
                .await
                .unwrap_or_else(|error| panic!("{sql}: {error:?}"))
        }
        .boxed()
    };
    let dialect = Dialect {
        run: &run,
        bytes: ("'\\x", "'"),
        later: "at + interval '1 microsecond'",
    };
    every_damage_is_named(&fixture.ports.store, &dialect).await;
}
