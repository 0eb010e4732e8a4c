//! Statements of steps, for tables that are the user's own: in the transaction of the change that
//! they belong to. Must not know what they are for.

use super::fault::Fault;
use super::prepared::Prepare;
use counterstep_kernel::ports::CommitError;
use counterstep_steps::times::rfc3339;
use counterstep_steps::{Sql, SqlRefused, SqlValue};
use diesel::dsl::sql;
use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel::sql_types::{BigInt, Binary, Bool, Double, Nullable, Text};
use diesel::sqlite::Sqlite;
use diesel::{RunQueryDsl, SqliteConnection};

/// Executes them in order, or says which one was refused.
pub(super) fn execute_all(
    connection: &mut SqliteConnection,
    statements: &[Sql],
) -> Result<(), Fault> {
    if statements.is_empty() {
        return Ok(());
    }
    let mut total = total_changes(connection)?;
    for sql in statements {
        sql.look().map_err(CommitError::Sql)?;
        let query = diesel::sql_query(placeholders(sql.text())).into_boxed::<Sqlite>();
        let query = sql
            .values()
            .iter()
            .cloned()
            .fold(query, |query, value| match value {
                SqlValue::Bool(value) => query.bind::<Nullable<Bool>, _>(value),
                SqlValue::Int(value) => query.bind::<Nullable<BigInt>, _>(value),
                SqlValue::Float(value) => query.bind::<Nullable<Double>, _>(value),
                SqlValue::Text(value) => query.bind::<Nullable<Text>, _>(value),
                SqlValue::Bytes(value) => query.bind::<Nullable<Binary>, _>(value),
                SqlValue::Uuid(value) => {
                    query.bind::<Nullable<Text>, _>(value.map(|it| it.to_string()))
                }
                SqlValue::Time(value) => query.bind::<Nullable<Text>, _>(value.map(rfc3339)),
                // `look` has refused it.
                SqlValue::OutOfRange(_) => query,
            });
        let changed = query.execute(connection).map_err(|error| {
            let may_pass = !is_a_constraint(&error);
            CommitError::Sql(SqlRefused {
                text: format!("`{}`: {error}", sql.text()),
                may_pass,
            })
        })?;
        // Behind a statement that only reads, SQLite gives the count of an older one.
        let before = std::mem::replace(&mut total, total_changes(connection)?);
        let changed = if total == before { 0 } else { changed as u64 };
        sql.check(changed).map_err(CommitError::Sql)?;
    }
    Ok(())
}

/// Rows that this connection has changed so far.
fn total_changes(connection: &mut SqliteConnection) -> Result<i64, Fault> {
    let total = diesel::select(sql::<BigInt>("total_changes()"));
    Ok(total.prepared().get_result(connection)?)
}

/// What is in the way then stays in the way. All else may pass: a full disk, a lock; a table that
/// is not there will not, and the retry policy bounds what comes of it.
fn is_a_constraint(error: &DieselError) -> bool {
    matches!(
        error,
        DieselError::DatabaseError(
            DatabaseErrorKind::UniqueViolation
                | DatabaseErrorKind::ForeignKeyViolation
                | DatabaseErrorKind::NotNullViolation
                | DatabaseErrorKind::CheckViolation,
            _
        )
    )
}

/// What the COMMIT of a change with statements came to: a constraint that is looked at last is a
/// refusal like any other.
pub(super) fn of_the_commit(fault: Fault) -> Fault {
    match fault {
        Fault::Sql(DieselError::DatabaseError(DatabaseErrorKind::ForeignKeyViolation, text)) => {
            CommitError::Sql(SqlRefused {
                text: text.message().to_owned(),
                may_pass: false,
            })
            .into()
        }
        other => other,
    }
}

/// `$1` as SQLite writes it: `?1`. (To SQLite `$1` is a name, numbered by its first appearance.)
fn placeholders(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let is_placeholder = c == '$' && rest.peek().is_some_and(char::is_ascii_digit);
        out.push(if is_placeholder { '?' } else { c });
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn placeholders_are_numbered() {
        assert_eq!(
            super::placeholders("a = $2 AND b = $10 AND c = '$x'"),
            "a = ?2 AND b = ?10 AND c = '$x'"
        );
    }
}
