//! Tables of the program's own that its steps write with `in_transaction`: declared, so that the rights to them are rendered
//! into the files that deploy it, and looked for when a process starts.

use super::registry::Registry;
use std::fmt;
use std::ops::BitOr;

/// What steps do with a table of the program's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TableRight {
    /// Reads rows: also for a condition, a conflict and RETURNING.
    Select,
    /// Adds rows.
    Insert,
    /// Changes rows.
    Update,
    /// Deletes rows.
    Delete,
}

impl TableRight {
    const ALL: [Self; 4] = [Self::Select, Self::Insert, Self::Update, Self::Delete];

    /// As SQL names it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Select => "SELECT",
            Self::Insert => "INSERT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// Some of them, as `TableRight::Select | TableRight::Insert`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TableRights(u8);

impl TableRights {
    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = TableRight> {
        let has = move |right: &TableRight| self.0 & (1 << *right as u8) != 0;
        TableRight::ALL.into_iter().filter(has)
    }
}

impl fmt::Display for TableRights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rights: Vec<_> = self.iter().map(TableRight::as_str).collect();
        f.write_str(&rights.join(", "))
    }
}

impl From<TableRight> for TableRights {
    fn from(right: TableRight) -> Self {
        Self(1 << right as u8)
    }
}

impl BitOr for TableRight {
    type Output = TableRights;

    fn bitor(self, other: Self) -> TableRights {
        TableRights::from(self) | other
    }
}

impl BitOr<TableRight> for TableRights {
    type Output = Self;

    fn bitor(self, other: TableRight) -> Self {
        Self(self.0 | Self::from(other).0)
    }
}

impl Registry {
    /// Declares a table of the program's own that steps write with
    /// [`in_transaction`](crate::StepContext::in_transaction), and what they do with it. `deploy render` grants that to the roles
    /// of the services, and on PostgreSQL a process without it does not start. Declared again, it has the rights of both.
    ///
    /// ```
    /// # use counterstep_steps::{Registry, TableRight};
    /// Registry::new().table("seats", TableRight::Select | TableRight::Insert | TableRight::Update);
    /// ```
    ///
    /// # Panics
    /// When the name is none that SQL takes without quotes; a schema may stand before it, as in `shop.seats`.
    #[must_use]
    pub fn table(mut self, name: &'static str, rights: impl Into<TableRights>) -> Self {
        assert!(
            is_table(name),
            "invalid table name `{}`: expected a-z 0-9 _ with a letter or `_` first, and a schema before it or none, as \
             in `shop.seats`",
            name.escape_debug()
        );
        let known = self.tables.entry(name).or_default();
        *known = rights.into().iter().fold(*known, BitOr::bitor);
        self
    }

    /// The tables that were declared, by name.
    pub fn tables(&self) -> impl Iterator<Item = (&'static str, TableRights)> + '_ {
        self.tables.iter().map(|(name, rights)| (*name, *rights))
    }
}

fn is_table(name: &str) -> bool {
    let is_name = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
            && part
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    name.split('.').count() <= 2 && name.split('.').all(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_of_a_table_add_up_and_stand_in_the_order_of_sql() {
        let registry = Registry::new()
            .table("seats", TableRight::Delete | TableRight::Select)
            .table("shop.rows", TableRight::Insert)
            .table("seats", TableRight::Insert | TableRight::Select);
        let tables: Vec<_> = registry
            .tables()
            .map(|(name, rights)| format!("{name}: {rights}"))
            .collect();
        assert_eq!(
            tables,
            ["seats: SELECT, INSERT, DELETE", "shop.rows: INSERT"]
        );
    }

    #[test]
    fn a_name_that_sql_would_read_as_something_else_is_no_table() {
        for bad in [
            "",
            "Seats",
            "1seats",
            "a.b.c",
            "seats;",
            "se ats",
            "a.",
            "\"seats\"",
        ] {
            assert!(!is_table(bad), "{bad}");
        }
    }
}
