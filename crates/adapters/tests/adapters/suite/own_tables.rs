//! Statements of steps for tables of the user's own: with the change that they belong to, or not at
//! all.

use super::changes::*;
use counterstep_contracts::Epoch;
use counterstep_kernel::change::transition::{Guard, Transition};
use counterstep_kernel::ports::{CommitError, Ports, Store};
use counterstep_kernel::record::TaskRecord;
use counterstep_steps::{DbTime, Sql, SqlRefused};
use futures::future::join_all;
use std::time::SystemTime;
use uuid::Uuid;

const TABLE: Sql = Sql::new(
    "CREATE TABLE IF NOT EXISTS own_ledger (id TEXT PRIMARY KEY, cents BIGINT NOT NULL CHECK (cents >= 0), \
     small INTEGER, share DOUBLE PRECISION, open BOOLEAN, note TEXT, \
     uid UUID, at TIMESTAMPTZ)",
);

/// A change of a claimed task that also does this.
fn with(record: &TaskRecord, statements: impl IntoIterator<Item = Sql>) -> Transition {
    Transition {
        sql: statements.into_iter().collect(),
        ..after(record)
    }
}

async fn write(
    store: &Store,
    statements: impl IntoIterator<Item = Sql>,
) -> Result<(), CommitError> {
    let record = claimed(store, MINUTE).await;
    commit(store, leased(&record), &with(&record, statements))
        .await
        .map(|_| ())
}

async fn begin(store: &Store) {
    write(store, [TABLE]).await.expect("a table of one's own");
}

fn insert(id: &str, cents: i64) -> Sql {
    Sql::new("INSERT INTO own_ledger (id, cents) VALUES ($1, $2)")
        .bind(id)
        .bind(cents)
        .rows(1)
}

/// Whether there is such a row: a statement that changes nothing says so.
async fn has(store: &Store, id: &str, cents: i64) -> bool {
    let same = "UPDATE own_ledger SET cents = $2 WHERE id = $1 AND cents = $2";
    write(store, [Sql::new(same).bind(id).bind(cents).rows(1)])
        .await
        .is_ok()
}

fn refusal(result: Result<(), CommitError>) -> SqlRefused {
    match result {
        Err(CommitError::Sql(refused)) => refused,
        other => panic!("expected a refusal of a statement: {other:?}"),
    }
}

/// Writes a change of a new task with this statement.
pub(crate) async fn written(store: &Store, statement: Sql) {
    write(store, [statement]).await.expect("it is written");
}

/// How the database refuses a statement of a step.
pub(crate) async fn refused(store: &Store, statement: Sql) -> SqlRefused {
    refusal(write(store, [statement]).await)
}

pub(crate) async fn statements_are_written_with_their_change(ports: &Ports) {
    let store = &ports.store;
    begin(store).await;
    let record = claimed(store, MINUTE).await;
    let takes = Sql::new("UPDATE own_ledger SET cents = cents - $1 WHERE id = $2 AND cents >= $1");
    let change = with(
        &record,
        [insert("a", 100), takes.bind(30).bind("a").rows(1)],
    );
    commit(store, leased(&record), &change).await.unwrap();
    assert_eq!(
        load(store, record.task.id).await.task.rev,
        record.task.rev.next()
    );
    assert!(has(store, "a", 70).await);
}

pub(crate) async fn whoever_is_fenced_or_stale_writes_to_no_table(ports: &Ports) {
    let store = &ports.store;
    begin(store).await;
    let record = claimed(store, MINUTE).await;
    let change = with(&record, [insert("fenced", 1)]);
    let fenced = commit(
        store,
        Guard::Lease {
            epoch: Epoch(0),
            rev: record.task.rev,
        },
        &change,
    )
    .await;
    assert!(
        matches!(fenced, Err(CommitError::Fenced { .. })),
        "{fenced:?}"
    );
    commit(store, leased(&record), &after(&record))
        .await
        .unwrap();
    let stale = commit(store, leased(&record), &change).await;
    assert!(matches!(stale, Err(CommitError::Stale)), "{stale:?}");
    assert!(!has(store, "fenced", 1).await);
}

pub(crate) async fn a_statement_that_is_refused_takes_all_of_the_change_along(ports: &Ports) {
    let store = &ports.store;
    begin(store).await;
    let record = claimed(store, MINUTE).await;
    let guard = leased(&record);
    let tried = async |statements: Vec<Sql>| {
        refusal(
            commit(store, guard, &with(&record, statements))
                .await
                .map(|_| ()),
        )
    };

    let negative = tried(vec![insert("b", 5), insert("c", -5)]).await;
    assert!(
        !negative.may_pass && negative.text.contains("INSERT INTO own_ledger"),
        "{negative:?}"
    );
    let twice = tried(vec![insert("b", 5), insert("b", 5)]).await;
    assert!(!twice.may_pass, "{twice:?}");
    let missing = Sql::new("UPDATE own_ledger SET cents = 0 WHERE id = $1")
        .bind("no such")
        .rows(1);
    let missing = tried(vec![insert("b", 5), missing]).await;
    assert!(
        !missing.may_pass && missing.text.contains("changed 0 rows; it must change 1"),
        "{missing:?}"
    );
    let nonsense = tried(vec![
        insert("b", 5),
        Sql::new("UPDATE no_such_table SET x = 1"),
    ])
    .await;
    assert!(
        nonsense.text.contains("no_such_table") && nonsense.may_pass,
        "{nonsense:?}"
    );
    let two = tried(vec![
        insert("b", 5),
        Sql::new("DELETE FROM own_ledger; DELETE FROM own_ledger"),
    ])
    .await;
    assert!(
        !two.may_pass && two.text.contains("more than one statement"),
        "{two:?}"
    );

    assert_eq!(
        load(store, record.task.id).await.task,
        record.task,
        "the task is as it was"
    );
    // The connection is fit for the next one.
    commit(store, guard, &with(&record, [insert("b", 6)]))
        .await
        .unwrap();
    assert!(has(store, "b", 6).await);
}

pub(crate) async fn a_constraint_that_is_looked_at_last_is_a_refusal_too(ports: &Ports) {
    let store = &ports.store;
    begin(store).await;
    let child = "CREATE TABLE IF NOT EXISTS own_child (parent TEXT REFERENCES own_ledger (id) DEFERRABLE INITIALLY DEFERRED)";
    write(store, [Sql::new(child)]).await.unwrap();
    let record = claimed(store, MINUTE).await;
    let orphan = Sql::new("INSERT INTO own_child VALUES ($1)").bind("no parent");
    let late = refusal(
        commit(store, leased(&record), &with(&record, [orphan]))
            .await
            .map(|_| ()),
    );
    assert!(!late.may_pass, "{late:?}");
    assert_eq!(
        load(store, record.task.id).await.task,
        record.task,
        "the task is as it was"
    );
    let both = [
        Sql::new("INSERT INTO own_child VALUES ('later')"),
        insert("later", 1),
    ];
    commit(store, leased(&record), &with(&record, both))
        .await
        .unwrap();
    assert!(has(store, "later", 1).await);
}

pub(crate) async fn values_of_every_type_arrive(ports: &Ports) {
    let store = &ports.store;
    begin(store).await;
    let hostile = "x'); DROP TABLE own_ledger; --";
    let all = Sql::new(
        "INSERT INTO own_ledger (id, cents, small, share, open, note, uid, at) \
                        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(hostile)
    .bind(i64::MAX)
    .bind(7_i32)
    .bind(0.5)
    .bind(true)
    .bind(None::<String>)
    .bind(Uuid::from_u128(7))
    .bind(DbTime(1_500_000));
    let found = Sql::new(
        "UPDATE own_ledger SET cents = 1 WHERE id = $1 AND cents = $2 AND small = $3 AND share = $4 AND open = $5 \
         AND note IS NULL AND uid = $6 AND at = $7 AND at > $8",
    )
    .bind(hostile)
    .bind(i64::MAX)
    .bind(7_i32)
    .bind(0.5)
    .bind(true)
    .bind(Uuid::from_u128(7))
    .bind(DbTime(1_500_000))
    .bind(SystemTime::UNIX_EPOCH)
    .rows(1);
    write(store, [all, found]).await.unwrap();
}

pub(crate) async fn of_many_takers_only_as_many_succeed_as_there_is(ports: &Ports) {
    let store = &ports.store;
    begin(store).await;
    write(store, [insert("stock", 7)]).await.unwrap();
    let take = || {
        let text = "UPDATE own_ledger SET cents = cents - 1 WHERE id = 'stock' AND cents >= 1";
        write(store, [Sql::new(text).rows(1)])
    };
    let taken = join_all((0..20).map(|_| take())).await;
    let (got, refused): (Vec<_>, Vec<_>) = taken.into_iter().partition(Result::is_ok);
    assert_eq!(got.len(), 7);
    assert!(
        refused
            .into_iter()
            .all(|refused| !refusal(refused).may_pass)
    );
    assert!(has(store, "stock", 0).await);
}

pub(crate) async fn a_statement_that_reads_has_changed_no_rows(ports: &Ports) {
    let store = &ports.store;
    begin(store).await;
    for text in [
        "SELECT id FROM own_ledger WHERE id = 'nothing'",
        "WITH found AS (SELECT id FROM own_ledger WHERE id = 'nothing') SELECT id FROM found",
    ] {
        // The statement before it has changed a row.
        let reads = [insert("read", 1), Sql::new(text).rows(1)];
        let refused = refusal(write(store, reads).await);
        assert!(!refused.may_pass, "{refused:?}");
    }
}
