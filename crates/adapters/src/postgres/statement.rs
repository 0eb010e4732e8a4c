//! A statement as text and values. Must not know a table.
//!
//! `diesel::sql_query` would do, but for one thing: it is never kept as a prepared statement, so that each call costs a
//! second round trip and the server parses and plans anew. A [`Statement`] is kept by its text. So a text may only
//! depend on what a call does, never on its values: a list of any length goes as one array.

use super::fault::micros;
use counterstep_kernel::record::DbTime;
use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::pg::data_types::{PgInterval, PgTimestamp};
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::sql_types as sql;
use std::borrow::Cow;
use std::marker::PhantomData;
use std::time::Duration;
use uuid::Uuid;

/// Microseconds from 1970, where ours count from, to 2000, where PostgreSQL's do.
const EPOCH_2000: i64 = 946_684_800_000_000;

/// A time from its column.
pub(super) fn time(read: PgTimestamp) -> DbTime {
    DbTime(read.0.saturating_add(EPOCH_2000))
}

/// As [`time`], of a column that may be empty.
pub(super) fn some_time(read: Option<PgTimestamp>) -> Option<DbTime> {
    read.map(time)
}

/// A duration to add to the database's `now()`.
pub(super) fn interval(duration: Duration) -> PgInterval {
    PgInterval::from_microseconds(micros(duration))
}

/// A text that is to be written.
pub(super) type Str<'a> = Cow<'a, str>;

macro_rules! binds {
    ($($name:ident: $sql:ty, $rust:ty;)+) => {
        /// A value of a statement. Each may be NULL.
        #[derive(Debug)]
        pub(super) enum Bind<'a> {
            $($name($rust),)+
        }

        impl<'a> Bind<'a> {
            fn push<'b>(&'b self, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
                match self {
                    $(Self::$name(value) => out.push_bind_param::<$sql, _>(value),)+
                }
            }
        }

        $(impl<'a> From<$rust> for Bind<'a> {
            fn from(value: $rust) -> Self {
                Self::$name(value)
            }
        })+
    };
}

binds! {
    Bool: sql::Nullable<sql::Bool>, Option<bool>;
    Int: sql::Nullable<sql::Integer>, Option<i32>;
    BigInt: sql::Nullable<sql::BigInt>, Option<i64>;
    Text: sql::Nullable<sql::Text>, Option<Str<'a>>;
    Id: sql::Nullable<sql::Uuid>, Option<Uuid>;
    Interval: sql::Nullable<sql::Interval>, Option<PgInterval>;
    Bytes: sql::Nullable<sql::Binary>, Option<Vec<u8>>;
    Bools: sql::Array<sql::Bool>, Vec<bool>;
    Ints: sql::Array<sql::Integer>, Vec<i32>;
    SomeInts: sql::Array<sql::Nullable<sql::Integer>>, Vec<Option<i32>>;
    BigInts: sql::Array<sql::BigInt>, Vec<i64>;
    SomeBigInts: sql::Array<sql::Nullable<sql::BigInt>>, Vec<Option<i64>>;
    Texts: sql::Array<sql::Text>, Vec<Str<'a>>;
    SomeTexts: sql::Array<sql::Nullable<sql::Text>>, Vec<Option<Str<'a>>>;
    Ids: sql::Array<sql::Uuid>, Vec<Uuid>;
    Intervals: sql::Array<sql::Interval>, Vec<PgInterval>;
}

macro_rules! never_null {
    ($($name:ident: $rust:ty;)+) => {
        $(impl<'a> From<$rust> for Bind<'a> {
            fn from(value: $rust) -> Self {
                Self::$name(Some(value.into()))
            }
        })+
    };
}

never_null! {
    Bool: bool;
    Int: i32;
    BigInt: i64;
    Text: Str<'a>;
    Text: &'a str;
    Text: String;
    Id: Uuid;
    Interval: PgInterval;
    Bytes: Vec<u8>;
}

/// A statement whose rows have the columns `Row`.
#[derive(Debug)]
pub(super) struct Statement<'a, Row = ()> {
    text: Vec<&'static str>,
    binds: Vec<Bind<'a>>,
    row: PhantomData<fn() -> Row>,
}

impl<'a, Row> Statement<'a, Row> {
    /// Without a text yet.
    pub(super) fn new() -> Self {
        Self { text: Vec::with_capacity(10), binds: Vec::with_capacity(72), row: PhantomData }
    }

    /// With its whole text, in which each `?` is to get a value, in that order. (Nothing else in it may be a `?`.)
    pub(super) fn of(text: &'static str, binds: impl IntoIterator<Item = Bind<'a>>) -> Self {
        let mut statement = Self::new();
        statement.push(text, binds);
        statement
    }

    /// Adds a piece.
    pub(super) fn push(&mut self, text: &'static str, binds: impl IntoIterator<Item = Bind<'a>>) {
        self.text.push(text);
        self.binds.extend(binds);
    }
}

impl<Row> QueryFragment<Pg> for Statement<'_, Row> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let mut binds = self.binds.iter();
        for piece in &self.text {
            let mut parts = piece.split('?');
            out.push_sql(parts.next().unwrap_or_default());
            for part in parts {
                let missing = || diesel::result::Error::QueryBuilderError("a `?` without a value".into());
                binds.next().ok_or_else(missing)?.push(&mut out)?;
                out.push_sql(part);
            }
        }
        match binds.next() {
            None => Ok(()),
            Some(_) => Err(diesel::result::Error::QueryBuilderError("a value without a `?`".into())),
        }
    }
}

// No static id: the text is the key under which it is kept.
impl<Row> QueryId for Statement<'_, Row> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<Row> Query for Statement<'_, Row> {
    type SqlType = Row;
}

/// The values of a statement, each as what it is.
macro_rules! values {
    ($($value:expr),* $(,)?) => { [$($crate::postgres::statement::Bind::from($value)),*] };
}
pub(super) use values;
