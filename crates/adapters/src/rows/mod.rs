//! Rows that both databases read, each declared once, with what [is made of it](decode). A query of SQLite gives the columns these names; one of
//! PostgreSQL selects them in this order. Knows no query; must not repair what it cannot read.

mod decode;

pub(crate) use decode::{flow, gauges};

use crate::columns::{Unreadable, parse};
use counterstep_contracts::TaskId;
use counterstep_steps::times::DbTime;
use diesel::deserialize::FromSqlRow;
use diesel::prelude::{Queryable, QueryableByName};
use diesel::sql_types as sql;
use std::fmt;

/// The id of a task; a text that is none, where a damaged column holds one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, FromSqlRow)]
pub(crate) struct Id(pub(crate) Result<TaskId, String>);

impl Id {
    pub(crate) fn of(text: String) -> Self {
        Self(text.parse().map_err(|_| text))
    }

    pub(crate) fn task(self, column: &str) -> Result<TaskId, Unreadable> {
        self.0.or_else(|text| parse(column, &text))
    }
}

/// A time of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, FromSqlRow)]
pub(crate) struct Time(pub(crate) DbTime);

/// A number that PostgreSQL keeps in four bytes.
#[derive(Debug, Clone, Copy, FromSqlRow)]
pub(crate) struct Int(pub(crate) i64);

/// A text that is read whatever the column holds.
#[derive(Debug, FromSqlRow)]
pub(crate) struct Raw(pub(crate) String);

/// As [`Raw`], of an id.
#[derive(Debug, FromSqlRow)]
pub(crate) struct RawId(pub(crate) String);

/// How a database gives the values, each from what diesel reads from its column.
macro_rules! read_as {
    ($database:ident; $($value:ident, $column:ident, $read:ty, $made:expr;)+) => {
        $(impl diesel::deserialize::FromSql<diesel::sql_types::$column, $database> for $value {
            fn from_sql(
                value: <$database as diesel::backend::Backend>::RawValue<'_>,
            ) -> diesel::deserialize::Result<Self> {
                let read = <$read as diesel::deserialize::FromSql<diesel::sql_types::$column, $database>>::from_sql(value);
                read.map($made)
            }
        })+
    };
}
pub(crate) use read_as;

/// The types of a value's column.
pub(crate) trait Column {
    #[cfg(feature = "postgres")]
    type Postgres;
    type Sqlite;
}

macro_rules! columns {
    ($($value:ty: $postgres:ident, $sqlite:ident;)+) => {
        $(impl Column for $value {
            #[cfg(feature = "postgres")]
            type Postgres = sql::$postgres;
            type Sqlite = sql::$sqlite;
        })+
    };
}

columns! {
    String: Text, Text;
    Vec<u8>: Binary, Binary;
    i64: BigInt, BigInt;
    bool: Bool, Bool;
    Id: Uuid, Text;
    Time: Timestamptz, BigInt;
    Int: Integer, BigInt;
    Raw: Text, Binary;
    RawId: Uuid, Binary;
}

impl<T: Column<Sqlite: sql::SqlType>> Column for Option<T> {
    #[cfg(feature = "postgres")]
    type Postgres = sql::Nullable<T::Postgres>;
    type Sqlite = sql::Nullable<T::Sqlite>;
}

macro_rules! rows {
    ($($(#[$doc:meta])* $row:ident, $types:ident { $($column:ident: $value:ty,)+ })+) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Queryable, QueryableByName)]
            pub(crate) struct $row {
                $(#[diesel(sql_type = <$value as Column>::Sqlite)] pub(crate) $column: $value,)+
            }

            #[cfg(feature = "postgres")]
            pub(crate) type $types = ($(<$value as Column>::Postgres,)+);
        )+
    };
}

rows! {
    /// A task that was looked for, and since when it has been as it was asked for.
    HeadRow, HeadTypes {
        id: Id,
        tenant: String,
        task_type: String,
        version: i64,
        status: String,
        rev: i64,
        since: Time,
    }

    /// A task that was touched, as far as a message needs it.
    TouchedRow, TouchedTypes {
        id: Id,
        task_type: String,
        version: i64,
        rev: i64,
        queue: String,
        traceparent: Option<String>,
    }

    /// A line of a list of tasks.
    LineRow, LineTypes {
        id: Id,
        tenant: String,
        task_type: String,
        version: i64,
        status: String,
        rev: i64,
        failure: Option<String>,
        residue: bool,
        labels: Option<String>,
        created_at: Time,
        updated_at: Time,
        finished_at: Option<Time>,
    }

    /// Tasks of one type, version and definition that wait on a queue, or on none.
    InFlightRow, InFlightTypes {
        task_type: String,
        version: i64,
        definition_hash: String,
        queue: String,
        tasks: i64,
        example: String,
    }

    /// Tasks of a state that wait on a queue, with the same values of labels; `None`: with any of the others.
    GaugeRow, GaugeTypes {
        status: String,
        queue: String,
        tasks: i64,
        running_since: Option<Time>,
        due_since: Option<Time>,
        label_values: Option<String>,
    }

    /// Tasks that ended in a state; without one, those that were submitted.
    FlowRow, FlowTypes {
        status: Option<String>,
        tasks: i64,
    }

    /// Parked tasks of a state and a type.
    ParkedRow, ParkedTypes {
        status: String,
        task_type: String,
        tasks: i64,
        since: Time,
    }

    /// Children of a step in a state.
    ChildCountRow, ChildCountTypes {
        step: Int,
        status: String,
        tasks: i64,
        residue: bool,
    }

    /// A child of a task.
    ChildRow, ChildTypes {
        step: Int,
        no: Int,
        task: Id,
        task_type: String,
        status: String,
        failure: Option<String>,
    }

    /// A task that is counted with others of its key.
    PlaceRead, PlaceTypes {
        key: String,
        task: Id,
        no: Option<i64>,
        since: Time,
        status: String,
        waiting: Option<String>,
        cancel_requested: bool,
    }

    /// How many of a key there are.
    PlaceCountRow, PlaceCountTypes {
        key: String,
        held: i64,
        waiting: i64,
        asleep: i64,
    }

    /// Lines of a task's log.
    LogRead, LogTypes {
        epoch: i64,
        no: Int,
        lines: Int,
        bytes: Int,
        dropped: i64,
        body: String,
    }

    /// A task on its way out.
    EndedRow, EndedTypes {
        task: Id,
        tenant: String,
        rev: i64,
    }

    /// At which revision a task is.
    RevisionRow, RevisionTypes {
        id: Id,
        rev: i64,
        at: Time,
    }

    /// A receive.
    ReceiveRow, ReceiveTypes {
        task: Id,
        tenant: String,
        is_condemned: bool,
        sweep_at: Time,
    }

    /// A document.
    DocumentRow, DocumentTypes {
        tenant: String,
        name: String,
        rev: i64,
        body: String,
        due_at: Option<Time>,
        seen_at: Time,
    }

    /// An idempotency key.
    KeyRow, KeyTypes {
        task: Id,
        fingerprint: Option<String>,
        answer: Option<String>,
        owner: Option<String>,
    }

    /// The events of a change.
    OutboxRead, OutboxTypes {
        id: i64,
        events: String,
        at: Time,
    }

    /// A row of a journal as it lies there, and what its task's row says of it.
    ChainRead, ChainTypes {
        task: RawId,
        rev: i64,
        at: Time,
        change_id: RawId,
        epoch: i64,
        actor: Raw,
        form: Int,
        entries: Raw,
        data: Option<Raw>,
        link: Option<Vec<u8>>,
        seal: Option<Vec<u8>>,
        head_status: Option<Raw>,
        head_rev: Option<i64>,
        head_seal: Option<Vec<u8>>,
    }

    /// What a task's row says of its journal.
    TipRow, TipTypes {
        id: RawId,
        status: Raw,
        rev: i64,
        seal: Option<Vec<u8>>,
        has_rows: bool,
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Ok(task) => task.fmt(f),
            Err(text) => f.write_str(text),
        }
    }
}

/// All of the rows. One that cannot be read is an error.
pub(crate) fn each<Row, T>(
    rows: Vec<Row>,
    decode: impl Fn(Row) -> Result<T, Unreadable>,
) -> Result<Vec<T>, Unreadable> {
    rows.into_iter().map(decode).collect()
}

/// Those of the rows that can be read. One that cannot must not stand in the way of the others.
pub(crate) fn readable<Row, T>(
    rows: Vec<Row>,
    what: &str,
    decode: impl Fn(Row) -> Result<T, Unreadable>,
) -> Vec<T> {
    let decoded = rows.into_iter().filter_map(|row| {
        let decoded = decode(row);
        decoded
            .inspect_err(|Unreadable(fault, _)| tracing::warn!(fault, "{what} cannot be read"))
            .ok()
    });
    decoded.collect()
}
