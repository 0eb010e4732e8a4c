//! A statement as text and values. Must not know a table.
//!
//! A [`Statement`] is prepared once on a connection and kept by its text. So a text may only
//! depend on what a call does, never on its values, nor, beyond a few, on how many they are.

use super::fault::micros;
use crate::rows::{Id, Int, Raw, RawId, Time, read_as};
use counterstep_contracts::TaskId;
use counterstep_kernel::change::transition::Transition;
use counterstep_steps::times::DbTime;
use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::pg::data_types::{PgInterval, PgTimestamp};
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types as sql;
use std::borrow::Cow;
use std::marker::PhantomData;
use std::time::Duration;
use uuid::Uuid;

/// An age beyond which nothing is older; further back than PostgreSQL's calendar it would be an
/// error.
const LONGEST_LOOK_BACK: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

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

/// A time for its column. Only for one that was worked out from a time of the database's.
pub(super) fn written(time: DbTime) -> PgTimestamp {
    PgTimestamp(time.0.saturating_sub(EPOCH_2000))
}

read_as! {
    Pg;
    Id, Uuid, Uuid, |id| Id(Ok(TaskId(id)));
    Time, Timestamptz, PgTimestamp, |at| Time(time(at));
    Int, Integer, i32, |number| Int(number.into());
    Raw, Text, String, Raw;
    RawId, Uuid, Uuid, |id| RawId(id.as_hyphenated().to_string());
}

/// The clock, and a row; where there is none, the clock alone.
pub(super) type Clocked<Row> = (sql::Timestamptz, sql::Nullable<Row>);

/// What was read with the clock.
pub(super) fn clocked<Row>(rows: Vec<(Time, Option<Row>)>) -> (DbTime, Vec<Row>) {
    let now = rows.first().map_or(DbTime(0), |(now, _)| now.0);
    (now, rows.into_iter().filter_map(|(_, row)| row).collect())
}

/// A duration to add to the database's `now()`.
pub(super) fn interval(duration: Duration) -> PgInterval {
    PgInterval::from_microseconds(micros(duration))
}

/// An age to take from the database's `now()`.
pub(super) fn look_back(age: Duration) -> PgInterval {
    interval(age.min(LONGEST_LOOK_BACK))
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

macro_rules! lists {
    ($($list:ident: $one:ident;)+) => {
        impl<'a> Bind<'a> {
            /// The values of a list, one by one.
            fn values(self) -> Box<dyn Iterator<Item = Bind<'a>> + 'a> {
                match self {
                    $(Self::$list(list) => Box::new(list.into_iter().map(|value| Bind::$one(value.into()))),)+
                    one => Box::new(std::iter::once(one)),
                }
            }
        }
    };
}

lists! {
    Bools: Bool;
    Ints: Int;
    SomeInts: Int;
    BigInts: BigInt;
    SomeBigInts: BigInt;
    Texts: Text;
    SomeTexts: Text;
    SomeBytesEach: Bytes;
    Ids: Id;
    Intervals: Interval;
    SomeTimes: Time;
    SomeIntervals: Interval;
}

binds! {
    Bool: sql::Nullable<sql::Bool>, Option<bool>;
    Int: sql::Nullable<sql::Integer>, Option<i32>;
    BigInt: sql::Nullable<sql::BigInt>, Option<i64>;
    Text: sql::Nullable<sql::Text>, Option<Str<'a>>;
    Id: sql::Nullable<sql::Uuid>, Option<Uuid>;
    Interval: sql::Nullable<sql::Interval>, Option<PgInterval>;
    Bytes: sql::Nullable<sql::Binary>, Option<Vec<u8>>;
    Time: sql::Nullable<sql::Timestamptz>, Option<PgTimestamp>;
    Bools: sql::Array<sql::Bool>, Vec<bool>;
    Ints: sql::Array<sql::Integer>, Vec<i32>;
    SomeInts: sql::Array<sql::Nullable<sql::Integer>>, Vec<Option<i32>>;
    BigInts: sql::Array<sql::BigInt>, Vec<i64>;
    SomeBigInts: sql::Array<sql::Nullable<sql::BigInt>>, Vec<Option<i64>>;
    Texts: sql::Array<sql::Text>, Vec<Str<'a>>;
    SomeTexts: sql::Array<sql::Nullable<sql::Text>>, Vec<Option<Str<'a>>>;
    SomeBytesEach: sql::Array<sql::Nullable<sql::Binary>>, Vec<Option<Vec<u8>>>;
    Ids: sql::Array<sql::Uuid>, Vec<Uuid>;
    Intervals: sql::Array<sql::Interval>, Vec<PgInterval>;
    SomeTimes: sql::Array<sql::Nullable<sql::Timestamptz>>, Vec<Option<PgTimestamp>>;
    SomeIntervals: sql::Array<sql::Nullable<sql::Interval>>, Vec<Option<PgInterval>>;
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

/// Maximum rows of a change that are sent value by value, in one statement text for each number of rows. More
/// are sent as arrays, in one text for all numbers. The server makes a table for each array of `unnest`: for
/// two rows of eleven columns that costs more than writing them.
const FEW: usize = 3;

/// A statement whose rows have the columns `Row`.
#[derive(Debug)]
pub(super) struct Statement<'a, Row = ()> {
    text: Vec<Cow<'static, str>>,
    binds: Vec<Bind<'a>>,
    few: usize,
    row: PhantomData<fn() -> Row>,
}

impl<'a, Row> Statement<'a, Row> {
    /// Without a text yet.
    pub(super) fn new() -> Self {
        Self {
            text: Vec::with_capacity(24),
            binds: Vec::with_capacity(96),
            few: FEW,
            row: PhantomData,
        }
    }

    /// As [`new`](Self::new), for as many changes as there are: one text, however many rows they
    /// have.
    pub(super) fn of_many() -> Self {
        Self {
            few: 0,
            ..Self::new()
        }
    }

    /// With its whole text, in which each `?` is to get a value, in that order. (Nothing else in it
    /// may be a `?`.)
    pub(super) fn of(text: &'static str, binds: impl IntoIterator<Item = Bind<'a>>) -> Self {
        let mut statement = Self::new();
        statement.push(text, binds);
        statement
    }

    /// Adds a piece.
    pub(super) fn push(&mut self, text: &'static str, binds: impl IntoIterator<Item = Bind<'a>>) {
        self.text.push(Cow::Borrowed(text));
        self.binds.extend(binds);
    }

    /// Adds `before`, then a table expression of these columns, each a list of `rows` values, then
    /// `after`.
    pub(super) fn push_table<const N: usize>(
        &mut self,
        before: &'static str,
        rows: usize,
        columns: [Bind<'a>; N],
        after: &'static str,
    ) {
        self.push(before, []);
        let row = ["?"; N].join(", ");
        if rows > self.few {
            self.text.push(Cow::Owned(format!("unnest({row})")));
            self.binds.extend(columns);
        } else {
            self.text.push(Cow::Owned(format!(
                "(VALUES ({}))",
                vec![row; rows].join("), (")
            )));
            let mut columns = columns.map(Bind::values);
            for _ in 0..rows {
                self.binds
                    .extend(columns.iter_mut().filter_map(Iterator::next));
            }
        }
        self.push(after, []);
    }
}

impl<Row> Statement<'_, Row> {
    /// The pieces of its text, and its values, each for a `?` in them.
    pub(super) fn parts(&self) -> (impl Iterator<Item = &str>, &[Bind<'_>]) {
        (self.text.iter().map(AsRef::as_ref), &self.binds)
    }
}

impl<Row> QueryFragment<Pg> for Statement<'_, Row> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let mut binds = self.binds.iter();
        for piece in &self.text {
            let mut parts = piece.as_ref().split('?');
            out.push_sql(parts.next().unwrap_or_default());
            for part in parts {
                let missing =
                    || diesel::result::Error::QueryBuilderError("a `?` without a value".into());
                binds.next().ok_or_else(missing)?.push(&mut out)?;
                out.push_sql(part);
            }
        }
        match binds.next() {
            None => Ok(()),
            Some(_) => Err(diesel::result::Error::QueryBuilderError(
                "a value without a `?`".into(),
            )),
        }
    }
}

/// The columns of task and change that all rows of a commit begin with.
pub(super) type Keys = (Vec<Uuid>, Vec<Uuid>);

/// The rows of one kind of several changes, and the keys of each.
pub(super) fn rows_of<'a, T, I>(
    changes: &[&'a Transition],
    rows: impl Fn(&'a Transition) -> I,
) -> (Keys, Vec<T>)
where
    I: Iterator<Item = T>,
{
    let (mut tasks, mut ids, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for change in changes.iter().copied() {
        for row in rows(change) {
            tasks.push(change.task_id.0);
            ids.push(change.change_id.0);
            all.push(row);
        }
    }
    ((tasks, ids), all)
}

/// The values of a statement, each as what it is.
macro_rules! values {
    ($($value:expr),* $(,)?) => { [$($crate::postgres::statement::Bind::from($value)),*] };
}
pub(super) use values;

/// True, and the end of the statement says that what it has read is replicated as a commit is. Where commits wait for a standby it
/// writes a record of its own, and the end of the statement waits for it, and so for all that was written before. A row may be
/// seen that the standby never gets: of a commit whose wait was cancelled, or which a restart of the server has cut short.
// On a standby it fails: what is read there decides nothing.
macro_rules! replicated {
    () => {
        "CASE WHEN current_setting('synchronous_standby_names') = '' THEN TRUE
           ELSE pg_logical_emit_message(TRUE, 'counterstep', '') IS NOT NULL END"
    };
}
pub(super) use replicated;
