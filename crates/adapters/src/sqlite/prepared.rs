//! Statements that are parsed once for a connection. Diesel would parse an UPDATE and a statement
//! in plain SQL anew each time, since it cannot know that their texts are few. Must not be used for
//! a text that is built from values.

use super::audit::text;
use crate::rows::{Id, Int, Raw, RawId, Time, read_as};
use counterstep_steps::times::DbTime;
use diesel::QueryResult;
use diesel::RunQueryDsl;
use diesel::SqliteConnection;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::query_dsl::methods::LoadQuery;
use diesel::sql_types::{BigInt, Binary, Bool, Nullable, Text};
use diesel::sqlite::Sqlite;

read_as! {
    Sqlite;
    Id, Text, String, Id::of;
    Time, BigInt, i64, |micros| Time(DbTime(micros));
    Int, BigInt, i64, Int;
    Raw, Binary, Vec<u8>, |bytes| Raw(text(bytes));
    RawId, Binary, Vec<u8>, |bytes| RawId(text(bytes));
}

/// A query whose parsed form the connection keeps, under its text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prepared<Q> {
    query: Q,
    limit: Option<u32>,
}

/// A limit of rows as a text has it. SQLite parses a statement with a bound limit anew for each run,
/// since its plan may depend on the value; so does diesel's `first`, and a key's only row needs none.
/// At least as many rows: of the powers of two there are few, so there are few texts, whatever is
/// asked for.
pub(crate) const fn literal(limit: u32) -> u32 {
    match limit.checked_next_power_of_two() {
        Some(power) => power,
        None => u32::MAX,
    }
}

/// For queries of which there are few texts.
pub(crate) trait Prepare: Sized {
    /// Has the connection keep the parsed form. Of what is loaded; what is only executed is a
    /// [`Statement`].
    fn prepared(self) -> Prepared<Self> {
        Prepared {
            query: self,
            limit: None,
        }
    }

    /// The first rows of a query whose text has no limit, `limit` at most.
    fn load_at_most<'query, T>(
        self,
        limit: u32,
        connection: &mut SqliteConnection,
    ) -> QueryResult<Vec<T>>
    where
        Prepared<Self>: LoadQuery<'query, SqliteConnection, T>,
    {
        let limited = Prepared {
            query: self,
            limit: Some(literal(limit)),
        };
        let mut rows = limited.load(connection)?;
        rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(rows)
    }
}

impl<Q: QueryFragment<Sqlite> + Query> Prepare for Q {}

impl<Q> QueryId for Prepared<Q> {
    type QueryId = ();

    // It goes by its text.
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<Q: QueryFragment<Sqlite>> QueryFragment<Sqlite> for Prepared<Q> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        self.query.walk_ast(out.reborrow())?;
        if let Some(limit) = self.limit {
            out.push_sql(" LIMIT ");
            out.push_sql(&limit.to_string());
        }
        Ok(())
    }

    fn is_safe_to_cache_prepared(&self, _: &Sqlite) -> QueryResult<bool> {
        Ok(true)
    }
}

impl<Q: Query> Query for Prepared<Q> {
    type SqlType = Q::SqlType;
}

impl<Q> RunQueryDsl<SqliteConnection> for Prepared<Q> {}

/// What a place of a statement stands for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bind<'a> {
    Int(Option<i64>),
    Text(Option<&'a str>),
    Bytes(Option<&'a [u8]>),
    Bool(bool),
}

impl From<i64> for Bind<'_> {
    fn from(value: i64) -> Self {
        Self::Int(Some(value))
    }
}

impl From<Option<i64>> for Bind<'_> {
    fn from(value: Option<i64>) -> Self {
        Self::Int(value)
    }
}

impl From<bool> for Bind<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl<'a> From<&'a String> for Bind<'a> {
    fn from(value: &'a String) -> Self {
        Self::Text(Some(value))
    }
}

impl<'a> From<&'a Option<String>> for Bind<'a> {
    fn from(value: &'a Option<String>) -> Self {
        Self::Text(value.as_deref())
    }
}

impl<'a> From<&'a Option<Vec<u8>>> for Bind<'a> {
    fn from(value: &'a Option<Vec<u8>>) -> Self {
        Self::Bytes(value.as_deref())
    }
}

/// A statement that returns no rows, with a `?` for each value, and no other.
#[derive(Debug)]
pub(crate) struct Statement<'a, const N: usize> {
    pub(crate) text: &'static str,
    pub(crate) values: [Bind<'a>; N],
}

impl<const N: usize> QueryId for Statement<'_, N> {
    type QueryId = ();

    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<const N: usize> QueryFragment<Sqlite> for Statement<'_, N> {
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        walk(self.text, &self.values, out)
    }
}

/// A text with a `?` for each value, and no other.
pub(crate) fn walk<'b>(
    text: &'b str,
    values: &'b [Bind<'b>],
    mut out: AstPass<'_, 'b, Sqlite>,
) -> QueryResult<()> {
    let mut texts = text.split('?');
    out.push_sql(texts.next().unwrap_or_default());
    for (value, text) in values.iter().zip(texts) {
        match value {
            Bind::Int(value) => out.push_bind_param::<Nullable<BigInt>, _>(value)?,
            Bind::Text(value) => out.push_bind_param::<Nullable<Text>, _>(value)?,
            Bind::Bytes(value) => out.push_bind_param::<Nullable<Binary>, _>(value)?,
            Bind::Bool(value) => out.push_bind_param::<Bool, _>(value)?,
        }
        out.push_sql(text);
    }
    Ok(())
}

impl<const N: usize> RunQueryDsl<SqliteConnection> for Statement<'_, N> {}
