//! A row of the driver as diesel reads one, and a value of diesel's as the driver sends it: bytes
//! either way.

use diesel::pg::{Pg, PgValue};
use diesel::row::{Field, PartialRow, Row, RowIndex, RowSealed};
use std::error::Error;
use std::num::NonZeroU32;
use std::ops::Range;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type};

type Refused = Box<dyn Error + Sync + Send>;

/// A row.
pub(super) struct PgRow(pub(super) tokio_postgres::Row);

impl RowSealed for PgRow {}

impl<'a> Row<'a, Pg> for PgRow {
    type Field<'f>
        = PgField<'f>
    where
        'a: 'f,
        Self: 'f;
    type InnerPartialRow = Self;

    fn field_count(&self) -> usize {
        self.0.len()
    }

    fn get<'b, I>(&'b self, index: I) -> Option<Self::Field<'b>>
    where
        'a: 'b,
        Self: RowIndex<I>,
    {
        let index = self.idx(index)?;
        let column = &self.0.columns()[index];
        let RawBytes(bytes) = self.0.try_get(index).ok()?;
        Some(PgField {
            name: column.name(),
            of: NonZeroU32::new(column.type_().oid())?,
            bytes,
        })
    }

    fn partial_row(&self, range: Range<usize>) -> PartialRow<'_, Self::InnerPartialRow> {
        PartialRow::new(self, range)
    }
}

impl RowIndex<usize> for PgRow {
    fn idx(&self, index: usize) -> Option<usize> {
        (index < self.0.len()).then_some(index)
    }
}

impl<'a> RowIndex<&'a str> for PgRow {
    fn idx(&self, name: &'a str) -> Option<usize> {
        self.0
            .columns()
            .iter()
            .position(|column| column.name() == name)
    }
}

/// A value of a row.
pub(super) struct PgField<'a> {
    name: &'a str,
    of: NonZeroU32,
    bytes: Option<&'a [u8]>,
}

impl<'a> Field<'a, Pg> for PgField<'a> {
    fn field_name(&self) -> Option<&str> {
        Some(self.name)
    }

    fn value(&self) -> Option<PgValue<'_>> {
        Some(PgValue::new(self.bytes?, &self.of))
    }
}

/// A value as the server sent it.
struct RawBytes<'a>(Option<&'a [u8]>);

impl<'a> FromSql<'a> for RawBytes<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Refused> {
        Ok(Self(Some(raw)))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Refused> {
        Ok(Self(None))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// A value as diesel has written it; `None` is NULL.
#[derive(Debug)]
pub(super) struct Bytes(pub(super) Option<Vec<u8>>);

impl ToSql for Bytes {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Refused> {
        let Some(bytes) = &self.0 else {
            return Ok(IsNull::Yes);
        };
        out.extend_from_slice(bytes);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    // Diesel wrote it for the type that the statement was prepared with.
    fn to_sql_checked(&self, of: &Type, out: &mut BytesMut) -> Result<IsNull, Refused> {
        self.to_sql(of, out)
    }
}
