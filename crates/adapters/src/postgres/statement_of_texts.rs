//! A statement whose values are all texts, for connections of others: each place casts its own, so
//! that no driver has to know the types. Must not know a table.

use super::fault::Fault;
use super::statement::{Bind, Statement};
use counterstep_kernel::ports::SqlStatement;
use diesel::pg::data_types::{PgInterval, PgTimestamp};
use std::fmt::Write;

impl<Row> Statement<'_, Row> {
    /// The same statement in this form. Only for one of few rows: an array has no text here.
    pub(super) fn with_texts(&self) -> Result<SqlStatement, Fault> {
        let (pieces, binds) = self.parts();
        let misfit = || Fault::Corrupt("a statement has as many `?` as values".to_owned());
        let mut sql = String::with_capacity(4096);
        let mut params = Vec::with_capacity(binds.len());
        let mut binds = binds.iter();
        for piece in pieces {
            let mut parts = piece.split('?');
            sql.push_str(parts.next().unwrap_or_default());
            for part in parts {
                let (before, after, text) = text_of(binds.next().ok_or_else(misfit)?)?;
                params.push(text);
                let _ = write!(sql, "{before}${}::text{after}{part}", params.len());
            }
        }
        match binds.next() {
            None => Ok(SqlStatement { sql, params }),
            Some(_) => Err(misfit()),
        }
    }
}

/// What stands before and behind the place of a value, and its text.
type Place = (&'static str, &'static str, Option<String>);

fn text_of(bind: &Bind<'_>) -> Result<Place, Fault> {
    let cast = |after, text| Ok(("", after, text));
    match bind {
        Bind::Bool(value) => cast("::boolean", value.map(|value| value.to_string())),
        Bind::Int(value) => cast("::integer", value.map(|value| value.to_string())),
        Bind::BigInt(value) => cast("::bigint", value.map(|value| value.to_string())),
        Bind::Text(value) => cast("", value.as_deref().map(str::to_owned)),
        Bind::Id(value) => cast("::uuid", value.map(|value| value.to_string())),
        Bind::Interval(value) => cast("::interval", value.map(interval)),
        Bind::Bytes(value) => cast("::bytea", value.as_deref().map(hex)),
        Bind::Time(value) => Ok((
            "(timestamptz '2000-01-01 00:00:00+00' + ",
            "::interval)",
            value.map(|PgTimestamp(micros)| seconds(micros)),
        )),
        // Without the values: they hold the client's request.
        _ => Err(Fault::Corrupt(
            "a list among the values of a statement of texts".to_owned(),
        )),
    }
}

/// All that this adapter writes is microseconds.
fn interval(value: PgInterval) -> String {
    seconds(value.microseconds)
}

/// As seconds: older servers read no more than 32 bits before the point.
fn seconds(micros: i64) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let micros = micros.unsigned_abs();
    format!(
        "{sign}{}.{:06} seconds",
        micros / 1_000_000,
        micros % 1_000_000
    )
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("\\x".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::statement::values;
    use std::time::Duration;

    #[test]
    fn each_place_casts_its_text() {
        let micros = crate::postgres::statement::interval(Duration::from_micros(86_400_000_001));
        let mut statement: Statement<'_, ()> = Statement::of(
            "SELECT ?, ?, ?",
            values![true, 7_i64, Option::<Vec<u8>>::None],
        );
        statement.push(
            ", ?, ?, ?",
            values![vec![0_u8, 255], micros, Some(PgTimestamp(-1))],
        );
        let statement = statement.with_texts().expect("texts");
        assert_eq!(
            statement.sql,
            "SELECT $1::text::boolean, $2::text::bigint, $3::text::bytea, $4::text::bytea, $5::text::interval, \
             (timestamptz '2000-01-01 00:00:00+00' + $6::text::interval)"
        );
        let expected = [
            Some("true"),
            Some("7"),
            None,
            Some("\\x00ff"),
            Some("86400.000001 seconds"),
            Some("-0.000001 seconds"),
        ];
        let params: Vec<_> = statement.params.iter().map(Option::as_deref).collect();
        assert_eq!(params, expected);
    }

    #[test]
    fn a_list_has_no_text() {
        let statement: Statement<'_, ()> = Statement::of("SELECT ?", values![vec![1_i64]]);
        assert!(matches!(statement.with_texts(), Err(Fault::Corrupt(_))));
    }
}
