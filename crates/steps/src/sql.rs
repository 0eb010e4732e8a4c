//! Statements for tables of the user's own, written in the transaction that commits what a step
//! came to: they happen exactly once, or the step did not. As data, like everything else that a
//! commit writes: no transaction is open while a step runs, and none leaks through the port.

use crate::error::{IntoStepError, StepError};
use crate::times::DbTime;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::time::SystemTime;
use uuid::Uuid;

/// A value of a statement. Each may be NULL; a NULL has a type too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum SqlValue {
    /// A boolean.
    Bool(Option<bool>),
    /// An integer of 64 bits; the database narrows it to its column's.
    Int(Option<i64>),
    /// A floating-point number of 64 bits.
    Float(Option<f64>),
    /// A text. Write a cast for columns of other types that are read from texts: `$1::uuid`,
    /// `$1::jsonb`.
    Text(Option<String>),
    /// Bytes.
    Bytes(Option<Vec<u8>>),
    /// A UUID; in SQLite its text, in lower case with hyphens.
    Uuid(Option<Uuid>),
    /// A time, to the microsecond: `timestamptz` in PostgreSQL; in SQLite a text of RFC 3339 in UTC, always with six
    /// digits behind the seconds, so that texts are in the order of the times.
    Time(Option<DbTime>),
    /// A value that no column of a database can hold, as a text: the statement is refused, and the refusal names it.
    OutOfRange(String),
}

macro_rules! values {
    ($($rust:ty => $name:ident;)+) => {
        $(impl From<$rust> for SqlValue {
            fn from(value: $rust) -> Self {
                Self::$name(Some(value.into()))
            }
        }
        impl From<Option<$rust>> for SqlValue {
            fn from(value: Option<$rust>) -> Self {
                Self::$name(value.map(Into::into))
            }
        })+
    };
}

values! {
    bool => Bool;
    i8 => Int;
    i16 => Int;
    i32 => Int;
    i64 => Int;
    u8 => Int;
    u16 => Int;
    u32 => Int;
    f32 => Float;
    f64 => Float;
    &str => Text;
    &String => Text;
    String => Text;
    Vec<u8> => Bytes;
    &[u8] => Bytes;
    Uuid => Uuid;
    DbTime => Time;
}

/// Values of types that are wider than any column: what does not fit is kept as a text, for the refusal.
macro_rules! bounded {
    ($($rust:ty => $name:ident, $narrow:expr;)+) => {
        $(impl From<$rust> for SqlValue {
            fn from(value: $rust) -> Self {
                let narrow: fn(&$rust) -> Result<_, String> = $narrow;
                narrow(&value).map_or_else(Self::OutOfRange, |value| Self::$name(Some(value)))
            }
        }
        impl From<Option<$rust>> for SqlValue {
            fn from(value: Option<$rust>) -> Self {
                value.map_or(Self::$name(None), Self::from)
            }
        })+
    };
}

bounded! {
    u64 => Int, |value| i64::try_from(*value).map_err(|_| value.to_string());
    usize => Int, |value| i64::try_from(*value).map_err(|_| value.to_string());
    Timestamp => Time, |value| Ok(DbTime(value.as_microsecond()));
    SystemTime => Time, |value| match Timestamp::try_from(*value) {
        Ok(value) => Ok(DbTime(value.as_microsecond())),
        Err(_) => Err(format!("{value:?}")),
    };
}

/// A statement that is written together with a step's outcome: see
/// [`StepContext::in_transaction`](crate::StepContext::in_transaction).
///
/// ```
/// # use counterstep_steps::Sql;
/// let (order, cents) = ("o-17", 1_250_i64);
/// Sql::new("UPDATE accounts SET cents = cents - $1 WHERE owner = $2 AND cents >= $1").bind(cents).bind(order).rows(1);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sql {
    text: Cow<'static, str>,
    values: Vec<SqlValue>,
    rows: Option<u64>,
}

impl Sql {
    /// A statement with places `$1`, `$2`, … for values. Its text is part of the program: what came
    /// from a client can only be a value. A `$1` must not stand within a literal.
    #[must_use]
    pub const fn new(text: &'static str) -> Self {
        Self {
            text: Cow::Borrowed(text),
            values: Vec::new(),
            rows: None,
        }
    }

    /// One that a process of this program has made before, as its parts were kept: for the engine. What
    /// came from a client must never be its text.
    #[doc(hidden)]
    #[must_use]
    pub const fn kept(text: String, values: Vec<SqlValue>, rows: Option<u64>) -> Self {
        Self {
            text: Cow::Owned(text),
            values,
            rows,
        }
    }

    /// The value of the next place.
    #[must_use]
    pub fn bind(mut self, value: impl Into<SqlValue>) -> Self {
        self.values.push(value.into());
        self
    }

    /// The number of rows that it must change. Else nothing is written, and the attempt fails as permanent.
    #[must_use]
    pub const fn rows(mut self, rows: u64) -> Self {
        self.rows = Some(rows);
        self
    }

    /// Stable text of the value.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How many rows it must change, where it says so.
    #[doc(hidden)]
    #[must_use]
    pub const fn must_change(&self) -> Option<u64> {
        self.rows
    }

    /// Its values, in the order of their places.
    #[must_use]
    pub fn values(&self) -> &[SqlValue] {
        &self.values
    }

    /// Whether it can be executed at all: one statement, with a value for each place. An adapter
    /// asks before it executes, because databases differ in what they make of it.
    ///
    /// # Errors
    /// The reason; a retry would fail the same way.
    pub fn look(&self) -> Result<(), SqlRefused> {
        let refused = |why: &str| {
            Err(SqlRefused {
                text: format!("`{}`: {why}", self.text),
                may_pass: false,
            })
        };
        let (mut places, mut in_text, mut ended) = (0, false, false);
        let mut rest = self.text.chars().peekable();
        while let Some(c) = rest.next() {
            if ended && !c.is_whitespace() {
                return refused("it is more than one statement: call `in_transaction` for each");
            }
            match c {
                '\'' => in_text = !in_text,
                ';' if !in_text => ended = true,
                '$' if !in_text => {
                    let mut number = 0_usize;
                    while let Some(digit) = rest.peek().and_then(|c| c.to_digit(10)) {
                        number = number.saturating_mul(10).saturating_add(digit as usize);
                        rest.next();
                    }
                    places = places.max(number);
                }
                _ => {}
            }
        }
        if places != self.values.len() {
            return refused(&format!(
                "it has places up to ${places}, and {} values were bound",
                self.values.len()
            ));
        }
        for (place, value) in (1..).zip(&self.values) {
            if let SqlValue::OutOfRange(value) = value {
                return refused(&format!(
                    "the value of ${place} is {value}, which no column of a database holds"
                ));
            }
        }
        Ok(())
    }

    /// Why it is not acceptable that it has changed `changed` rows.
    ///
    /// # Errors
    /// The reason, where [`rows`](Self::rows) says another number.
    pub fn check(&self, changed: u64) -> Result<(), SqlRefused> {
        match self.rows {
            Some(rows) if rows != changed => Err(SqlRefused {
                text: format!(
                    "`{}` changed {changed} rows; it must change {rows}",
                    self.text
                ),
                may_pass: false,
            }),
            Some(_) | None => Ok(()),
        }
    }
}

/// The database did not carry a statement out; nothing of the change was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a statement that belongs to the step: {text}")]
pub struct SqlRefused {
    /// Which statement, and the database's words.
    pub text: String,
    /// Whether the same statement may succeed later: a lock that was held, a deadlock. A broken
    /// constraint stays broken.
    pub may_pass: bool,
}

impl IntoStepError for SqlRefused {
    fn into_step_error(self) -> StepError {
        if self.may_pass {
            StepError::transient(self)
        } else {
            StepError::permanent(self)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_null_keeps_its_type() {
        let sql = Sql::new("SELECT $1, $2").bind(None::<i32>).bind("x");
        assert_eq!(
            sql.values(),
            [SqlValue::Int(None), SqlValue::Text(Some("x".to_owned()))]
        );
    }

    #[test]
    fn values_of_the_usual_types_are_bound_and_what_no_column_holds_is_refused_by_name() {
        let (text, id, at) = ("x".to_owned(), Uuid::from_u128(7), Timestamp::UNIX_EPOCH);
        let hour = std::time::Duration::from_secs(3_600);
        let values: [(SqlValue, SqlValue); 12] = [
            ((&text).into(), SqlValue::Text(Some("x".to_owned()))),
            (None::<&String>.into(), SqlValue::Text(None)),
            (7_u64.into(), SqlValue::Int(Some(7))),
            ((i64::MAX as u64).into(), SqlValue::Int(Some(i64::MAX))),
            (None::<u64>.into(), SqlValue::Int(None)),
            (Some(7_usize).into(), SqlValue::Int(Some(7))),
            (id.into(), SqlValue::Uuid(Some(id))),
            (None::<Uuid>.into(), SqlValue::Uuid(None)),
            (at.into(), SqlValue::Time(Some(DbTime(0)))),
            (
                Some(SystemTime::UNIX_EPOCH - hour).into(),
                SqlValue::Time(Some(DbTime(-3_600_000_000))),
            ),
            (None::<SystemTime>.into(), SqlValue::Time(None)),
            (Some(1.5_f32).into(), SqlValue::Float(Some(1.5))),
        ];
        for (bound, expected) in values {
            assert_eq!(bound, expected);
        }
        let never = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1 << 40);
        for (sql, named) in [
            (
                Sql::new("SELECT $1, $2").bind(1).bind(u64::MAX),
                "the value of $2 is 18446744073709551615",
            ),
            (
                Sql::new("SELECT $1").bind(Some(i64::MAX as u64 + 1)),
                "the value of $1 is 9223372036854775808",
            ),
            (Sql::new("SELECT $1").bind(never), "1099511627776"),
        ] {
            let refused = sql.look().expect_err(named);
            assert!(
                refused.text.contains(named) && !refused.may_pass,
                "{refused}"
            );
        }
    }

    #[test]
    fn a_statement_that_databases_would_read_differently_is_refused() {
        for (sql, said) in [
            (
                Sql::new("DELETE FROM a; DELETE FROM b"),
                "more than one statement",
            ),
            (
                Sql::new("DELETE FROM a WHERE b = $1"),
                "up to $1, and 0 values",
            ),
            (Sql::new("DELETE FROM a").bind(1), "up to $0, and 1 values"),
            (
                Sql::new("DELETE FROM a WHERE b = $12").bind(1),
                "up to $12, and 1 values",
            ),
        ] {
            let refused = sql.look().expect_err(sql.text());
            assert!(
                refused.text.contains(said) && !refused.may_pass,
                "{refused:?}"
            );
        }
        assert_eq!(
            Sql::new("INSERT INTO a VALUES ($1, ';$9', $1); ")
                .bind(1)
                .look(),
            Ok(())
        );
    }

    #[test]
    fn the_wrong_number_of_rows_is_refused_for_good() {
        let sql = Sql::new("DELETE FROM t").rows(1);
        assert_eq!(sql.check(1), Ok(()));
        let refused = sql.check(2).expect_err("two are not one");
        assert_eq!(
            refused.text,
            "`DELETE FROM t` changed 2 rows; it must change 1"
        );
        assert!(!refused.may_pass);
        assert_eq!(Sql::new("DELETE FROM t").check(7), Ok(()));
    }
}
