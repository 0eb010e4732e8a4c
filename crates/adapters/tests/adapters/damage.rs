//! Ten thousand audit entries, and every kind of damage done to them by statements beside the store, one after the other:
//! each is found, and named by the entry that it was done to; and nothing else is.

use crate::suite::chain::{chained, check};
use crate::{embedded, sqlite};
use counterstep_kernel::audit::{Damage, Scope};
use counterstep_kernel::ports::{SealedEntry, SealedPage, Store};
use diesel::connection::SimpleConnection;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all, ready};
use serde_json::json;
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

/// 20 tasks of 500 entries, in changes of one and of many.
const TASKS: usize = 20;
const ENTRIES: i64 = 500;
const CHANGES: [i64; 4] = [1, 2, 10, 37];

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

#[expect(clippy::too_many_lines, reason = "a table of damages")]
fn cases(dialect: &Dialect<'_>, number: usize, task: &str, rows: &[SealedEntry]) -> Vec<Case> {
    use Damage::{
        Changed, CutOff, HeadChanged, Inserted, LinkChanged, Missing, Moved, NoTask, SealChanged, StatusDiffers,
        TimeChanged, Unsealed,
    };
    let row = |seq: i64| &rows[usize::try_from(seq).unwrap() - 1];
    let set = |what: &str, seq: i64| format!("UPDATE audit SET {what} WHERE task = '{task}' AND seq = {seq}");
    let link = |seq: i64| dialect.bytes(&flipped(row(seq).link.as_ref().unwrap(), 20));
    let seal = |seq: i64| dialect.bytes(&flipped(row(seq).seal.as_ref().unwrap(), 31));
    let one = |name, sql: String, seq, damage| Case { name, sql: vec![sql], expected: vec![(number, seq, damage)] };
    let copy = |from: i64, to: i64| {
        format!(
            "INSERT INTO audit (task, seq, at, event, from_status, to_status, step, step_from, step_to, attempt, epoch,
                actor, details, change_id, link, seal)
             SELECT task, {to}, at, event, from_status, to_status, step, step_from, step_to, attempt, epoch, actor,
                details, change_id, link, seal FROM audit WHERE task = '{task}' AND seq = {from}"
        )
    };
    let renumber = |condition: &str, by: i64| {
        [
            format!("UPDATE audit SET seq = -(seq + {by}) WHERE task = '{task}' AND {condition}"),
            format!("UPDATE audit SET seq = -seq WHERE task = '{task}' AND seq < 0"),
        ]
    };
    let swap = |a: i64, b: i64| vec![set("seq = -1", a), set(&format!("seq = {a}"), b), set(&format!("seq = {b}"), -1)];
    let delete = |condition: &str| format!("DELETE FROM audit WHERE task = '{task}' AND {condition}");
    // 40 is in the middle of a change of many, 50 the last of one, 51 a change of its own, 1 the first, 500 the last.
    let mut cases = Vec::new();
    for seq in [1, 40, 50, 51, 500] {
        let details = row(seq).details.replace("because", "becausE");
        let at = |damage| vec![(number, Some(seq), damage)];
        let mut add = |name, what: String, damage| {
            cases.push(Case { name, sql: vec![set(&what, seq)], expected: at(damage) });
        };
        add("a byte of the details", format!("details = '{details}'"), Changed);
        add("spaces in the details", format!("details = '{} '", row(seq).details), Changed);
        add("the actor", "actor = 'Test'".into(), Changed);
        add("the event", "event = 'step_starteD'".into(), Changed);
        add("the state before", "from_status = 'running'".into(), Changed);
        add("the state after", "to_status = 'running'".into(), Changed);
        add("the state after is none", "to_status = 'levitating'".into(), Changed);
        add("the step", "step = 3".into(), Changed);
        add("the step's state", "step_to = 'failed'".into(), Changed);
        add("the attempt", "attempt = 3".into(), Changed);
        add("the epoch", "epoch = epoch + 1".into(), Changed);
        add("the change", "change_id = '00000000-0000-7000-8000-000000000000'".into(), Changed);
        add("the time", format!("at = {}", dialect.later), TimeChanged);
        add("the link", format!("link = {}", link(seq)), LinkChanged);
        add("the seal", format!("seal = {}", seal(seq)), SealChanged);
        add("no seal", "seal = NULL".into(), Unsealed);
        if seq > 1 {
            add("no link", "link = NULL".into(), Unsealed);
            add("neither link nor seal", "link = NULL, seal = NULL".into(), Unsealed);
        }
        let (lost, gone) = if seq == 500 { (CutOff, seq) } else { (Missing, seq) };
        cases.push(one("deleted", delete(&format!("seq = {seq}")), Some(gone), lost));
    }
    let task_row = |what: &str| format!("UPDATE tasks SET {what} WHERE id = '{task}'");
    let head = dialect.bytes(&flipped(row(500).seal.as_ref().unwrap(), 0));
    let everything = format!("UPDATE audit SET link = NULL, seal = NULL WHERE task = '{task}'");
    let mut put_in = renumber("seq >= 250", 1).to_vec();
    put_in.push(copy(100, 250));
    let mut taken_out = vec![delete("seq = 250")];
    taken_out.extend(renumber("seq > 250", -1));
    cases.extend([
        one("the first link is gone", set("link = NULL", 1), Some(1), Unsealed),
        one("the first link and seal are gone", set("link = NULL, seal = NULL", 1), Some(1), Unsealed),
        one("all links are gone", everything, Some(500), Unsealed),
        one("three deleted in the middle", delete("seq BETWEEN 44 AND 46"), Some(44), Missing),
        one("the first three deleted", delete("seq < 4"), Some(1), Missing),
        one("the last three deleted", delete("seq > 497"), Some(498), CutOff),
        one("all deleted", delete("seq > 0"), Some(1), CutOff),
        one("one put behind the end", copy(500, 501), Some(501), Inserted),
        one("one put far behind the end", copy(100, 900), Some(900), Inserted),
        one("one put before the start", copy(1, 0), Some(0), Inserted),
        one("the end of the chain", task_row(&format!("audit_seal = {head}")), None, HeadChanged),
        one("no end of the chain", task_row("audit_seal = NULL"), None, HeadChanged),
        one("the number of the end", task_row("audit_seq = 499"), None, HeadChanged),
        one("a number beyond the end", task_row("audit_seq = 501"), None, HeadChanged),
        one("the state of the task", task_row("status = 'running'"), None, StatusDiffers),
        one("no task", format!("DELETE FROM tasks WHERE id = '{task}'"), Some(1), NoTask),
        Case { name: "one put between", sql: put_in, expected: vec![(number, Some(250), Inserted)] },
        Case { name: "one taken out, and closed up", sql: taken_out, expected: vec![(number, Some(250), Missing)] },
        Case {
            name: "two neighbours swapped",
            sql: swap(250, 251),
            expected: vec![(number, Some(250), Moved), (number, Some(251), Moved)],
        },
        Case {
            name: "two neighbours of one change swapped",
            sql: swap(40, 41),
            expected: vec![(number, Some(40), Moved), (number, Some(41), Moved)],
        },
        Case {
            name: "the last two swapped",
            sql: swap(499, 500),
            expected: vec![(number, Some(499), Moved), (number, Some(500), Moved)],
        },
        Case {
            name: "two far apart swapped",
            sql: swap(20, 480),
            expected: vec![(number, Some(20), Moved), (number, Some(480), Moved)],
        },
        Case {
            name: "another one in its place",
            sql: vec![delete("seq = 250"), copy(100, 250)],
            expected: vec![(number, Some(250), Changed)],
        },
    ]);
    cases
}

async fn every_damage_is_named(store: &dyn Store, dialect: &Dialect<'_>) {
    let per_round: i64 = CHANGES.iter().sum();
    let changes: Vec<i64> =
        CHANGES.into_iter().cycle().take(4 * usize::try_from(ENTRIES / per_round).unwrap()).collect();
    let details = json!({"why": "because", "numbers": [1, 2.5]});
    let made = join_all((0..TASKS).map(|_| chained(store, &changes, &details))).await;
    let mut tasks: Vec<String> = made.iter().map(|record| record.task.id.to_string()).collect();
    tasks.sort();
    let (verified, found) = check(store, &Scope::default()).await;
    assert_eq!((verified.tasks, verified.entries, verified.unsealed), (20, 10_000, 0));
    assert_eq!(found, []);
    let mut each = Vec::new();
    for (number, task) in tasks.iter().enumerate() {
        let page = SealedPage { task: Some(task.clone()), after: None, limit: 500 };
        each.push(cases(dialect, number, task, &store.sealed(&page).await.unwrap()));
    }
    dialect.run("CREATE TABLE kept_audit AS SELECT * FROM audit").await;
    dialect.run("CREATE TABLE kept_tasks AS SELECT * FROM tasks").await;

    // One byte of one entry.
    try_out(store, dialect, &tasks, &[&each[7][1]]).await;
    // Then every damage, each to another task, as many at a time as there are tasks.
    let count = each[0].len();
    assert!(count > 100, "{count}");
    for round in 0..count.div_ceil(TASKS) {
        let these: Vec<_> =
            each.iter().enumerate().filter_map(|(number, cases)| cases.get(round * TASKS + number)).collect();
        try_out(store, dialect, &tasks, &these).await;
    }
    // And several to one, and from one to another.
    let on = |task: usize, set: &str, seq: i64| {
        format!("UPDATE audit SET {set} WHERE task = '{}' AND seq = {seq}", tasks[task])
    };
    let several = Case {
        name: "several at once",
        sql: vec![
            on(7, "actor = 'a'", 10),
            on(7, &format!("at = {}", dialect.later), 300),
            format!("DELETE FROM audit WHERE task = '{}' AND seq = 400", tasks[7]),
        ],
        expected: vec![
            (7, Some(10), Damage::Changed),
            (7, Some(300), Damage::TimeChanged),
            (7, Some(400), Damage::Missing),
        ],
    };
    let given = Case {
        name: "given to another task",
        sql: vec![on(9, &format!("task = '{}', seq = 501", tasks[3]), 250)],
        expected: vec![(3, Some(501), Damage::Inserted), (9, Some(250), Damage::Missing)],
    };
    try_out(store, dialect, &tasks, &[&several, &given]).await;
    assert_eq!(check(store, &Scope::default()).await.1, []);
}

/// Does all of this damage, looks at what is found, and makes it good.
async fn try_out(store: &dyn Store, dialect: &Dialect<'_>, tasks: &[String], cases: &[&Case]) {
    for case in cases {
        for sql in &case.sql {
            dialect.run(sql.clone()).await;
        }
    }
    let found = check(store, &Scope::default()).await.1;
    for (number, task) in tasks.iter().enumerate() {
        let of = |expected: &&Expected| expected.0 == number;
        let expected: Vec<_> = cases.iter().flat_map(|case| case.expected.iter().filter(of)).copied().collect();
        let named: Vec<_> = found.iter().filter(|finding| finding.task == *task).collect();
        let short: Vec<_> = named.iter().map(|finding| (number, finding.seq, finding.damage)).collect();
        let names: Vec<_> = cases.iter().filter(|case| case.expected.iter().any(|one| one.0 == number)).collect();
        let names: Vec<_> = names.iter().map(|case| case.name).collect();
        assert_eq!(short, expected, "{names:?}: {named:#?}");
    }
    let expected: usize = cases.iter().map(|case| case.expected.len()).sum();
    assert_eq!(found.len(), expected, "in no task: {found:#?}");
    for repair in [
        "DELETE FROM audit",
        "INSERT INTO audit SELECT * FROM kept_audit",
        "DELETE FROM tasks",
        "INSERT INTO tasks SELECT * FROM kept_tasks",
    ] {
        dialect.run(repair).await;
    }
}

#[tokio::test]
async fn every_damage_to_ten_thousand_entries_is_named_in_sqlite() {
    let fixture = embedded::fixture().await;
    let connection = Mutex::new(sqlite::raw(&sqlite::file(&fixture)));
    let run = |sql: String| {
        let mut connection = connection.lock().unwrap();
        connection.batch_execute(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        ready(()).boxed()
    };
    // Whoever does damage does not mind them.
    run("PRAGMA foreign_keys = OFF".to_owned()).await;
    let dialect = Dialect { run: &run, bytes: ("x'", "'"), later: "at + 1" };
    every_damage_is_named(&*fixture.ports.store, &dialect).await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn every_damage_to_ten_thousand_entries_is_named_in_postgres() {
    let fixture = crate::postgres::fixture().await;
    let client = crate::postgres::raw(&fixture.url).await;
    let client = &client;
    let run = |sql: String| {
        async move { client.batch_execute(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}")) }.boxed()
    };
    let dialect = Dialect { run: &run, bytes: ("'\\x", "'"), later: "at + interval '1 microsecond'" };
    every_damage_is_named(&*fixture.ports.store, &dialect).await;
}
