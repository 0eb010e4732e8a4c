//! How a PostgreSQL server is used: how many connections, and whether a pooler stands before it.
//! Must not connect.

use super::file::File;
use crate::exit::Exit;

/// How a PostgreSQL server is used, as flags and variables.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct DatabaseArgs {
    /// Connections to PostgreSQL of this process, at most [default: 24]
    #[arg(long, env = "COUNTERSTEP_DATABASE_CONNECTIONS", global = true)]
    pub database_connections: Option<usize>,
    /// Prepare statements on each connection; `false` behind a pooler in transaction mode [default:
    /// true]
    #[arg(long, env = "COUNTERSTEP_DATABASE_PREPARED_STATEMENTS", global = true)]
    pub database_prepared_statements: Option<bool>,
}

/// The same, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatabaseUse {
    /// Connections at most, 1 or more.
    pub connections: usize,
    /// Whether statements are prepared on each connection.
    pub prepared_statements: bool,
}

impl Default for DatabaseUse {
    fn default() -> Self {
        Self {
            connections: 24,
            prepared_statements: true,
        }
    }
}

impl DatabaseArgs {
    pub(super) fn check(&self, file: &File) -> Result<DatabaseUse, Exit> {
        let defaults = DatabaseUse::default();
        let connections = self
            .database_connections
            .or(file.database_connections)
            .unwrap_or(defaults.connections);
        if connections == 0 {
            return Err(Exit::config(
                "invalid setting `database_connections`: 0; expected 1 or more",
            ));
        }
        let prepared = self
            .database_prepared_statements
            .or(file.database_prepared_statements);
        Ok(DatabaseUse {
            connections,
            prepared_statements: prepared.unwrap_or(defaults.prepared_statements),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_comes_before_the_file_and_no_connection_is_an_error() {
        let mut file = File::default();
        file.database_connections = Some(7);
        assert_eq!(DatabaseArgs::default().check(&file).unwrap().connections, 7);
        let args = DatabaseArgs {
            database_connections: Some(8),
            database_prepared_statements: Some(false),
        };
        assert_eq!(
            args.check(&file).unwrap(),
            DatabaseUse {
                connections: 8,
                prepared_statements: false
            }
        );
        let none = DatabaseArgs {
            database_connections: Some(0),
            ..DatabaseArgs::default()
        };
        assert!(
            none.check(&file)
                .unwrap_err()
                .message
                .contains("database_connections")
        );
    }
}
