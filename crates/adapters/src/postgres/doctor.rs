//! What an operator should know about the server's settings. Looks only; must not change anything.

use super::PostgresStore;
use super::statement::{Statement, values};
use crate::finding::Finding;
use counterstep_kernel::ports::StoreError;
use diesel::sql_types as sql;
use futures::future::BoxFuture;
use std::collections::BTreeMap;

/// The oldest version that the tests run against, as the server numbers them.
const TESTED: i64 = 15_00_00;

/// Connections that a few services need together.
const FEW_CONNECTIONS: i64 = 60;

impl PostgresStore {
    /// What is wrong with the server's settings; empty: nothing that can be seen from here.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] where it does not answer.
    pub fn examine(&self) -> BoxFuture<'_, Result<Vec<Finding>, StoreError>> {
        Box::pin(async move {
            let question: Statement<'static, (sql::Text, sql::Text)> = Statement::of(
                "SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'max_connections', \
                 'server_version_num', 'synchronous_commit')",
                values![],
            );
            let rows: Vec<(String, String)> = self.database.read(question).await?;
            Ok(findings(&rows.into_iter().collect()))
        })
    }
}

fn findings(settings: &BTreeMap<String, String>) -> Vec<Finding> {
    let is = |name: &str, value: &str| settings.get(name).is_some_and(|found| found == value);
    let number = |name: &str| settings.get(name).and_then(|text| text.parse::<i64>().ok());
    let mut found = Vec::new();
    if is("fsync", "off") {
        found.push(Finding {
            code: "postgres_fsync",
            what: "PostgreSQL runs with fsync = off".to_owned(),
            why: "a power cut can lose accepted tasks, and can destroy the whole database",
            to_do: "set fsync = on and restart the server".to_owned(),
        });
    }
    if is("full_page_writes", "off") {
        found.push(Finding {
            code: "postgres_full_page_writes",
            what: "PostgreSQL runs with full_page_writes = off".to_owned(),
            why: "a power cut in the middle of a write can destroy pages of the database",
            to_do: "set full_page_writes = on, unless the file system writes whole pages at once".to_owned(),
        });
    }
    if is("synchronous_commit", "off") {
        found.push(Finding {
            code: "postgres_synchronous_commit",
            what: "PostgreSQL commits with synchronous_commit = off".to_owned(),
            why: "what was answered with 202 in the last moment before a crash can be lost, and a step can run twice",
            to_do: "set synchronous_commit = on for the services' role".to_owned(),
        });
    }
    if let Some(version) = number("server_version_num").filter(|version| *version < TESTED) {
        found.push(Finding {
            code: "postgres_version",
            what: format!("PostgreSQL is version {}", version / 10_000),
            why: "nothing older than 15 is tested",
            to_do: "upgrade the server".to_owned(),
        });
    }
    if let Some(most) = number("max_connections").filter(|most| *most < FEW_CONNECTIONS) {
        found.push(Finding {
            code: "postgres_connections",
            what: format!("PostgreSQL takes {most} connections"),
            why: "each service opens up to 24, so that a third one may be turned away",
            to_do: "raise max_connections, or put a pool that keeps prepared statements in front of the server"
                .to_owned(),
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(settings: &[(&str, &str)]) -> Vec<&'static str> {
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        findings(&settings).iter().map(|finding| finding.code).collect()
    }

    #[test]
    fn a_server_as_it_should_be_is_not_mentioned() {
        let sound = [("fsync", "on"), ("full_page_writes", "on"), ("synchronous_commit", "on")];
        assert!(codes(&sound).is_empty());
        assert!(codes(&[("server_version_num", "150018"), ("max_connections", "100")]).is_empty());
    }

    #[test]
    fn what_loses_data_and_what_is_too_small_or_too_old_is_named() {
        assert_eq!(codes(&[("fsync", "off")]), ["postgres_fsync"]);
        assert_eq!(codes(&[("full_page_writes", "off")]), ["postgres_full_page_writes"]);
        assert_eq!(codes(&[("synchronous_commit", "off")]), ["postgres_synchronous_commit"]);
        assert_eq!(codes(&[("server_version_num", "140011")]), ["postgres_version"]);
        assert_eq!(codes(&[("max_connections", "20")]), ["postgres_connections"]);
    }
}
