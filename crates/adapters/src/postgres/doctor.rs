//! What an operator should know about the server's settings. Looks only; must not change anything.

use super::PostgresStore;
use super::statement::{Statement, values};
use crate::finding::Finding;
use counterstep_contracts::workers::WorkerState;
use counterstep_kernel::ports::{Store, StoreError};
use diesel::sql_types as sql;
use futures::future::BoxFuture;
use std::collections::BTreeMap;

/// The oldest version that the tests run against, as the server numbers them.
const TESTED: i64 = 15_00_00;

/// An API, a worker and a reconciler: where fewer processes are alive, more are on their way.
const FEWEST_PROCESSES: usize = 3;

/// How a role's setting may read that commits do not wait for the disk.
const OFF: [&str; 4] = ["off", "false", "no", "0"];

/// What the processes need of the server together.
#[derive(Debug, Clone, Copy)]
struct Needed {
    processes: usize,
    connections: usize,
}

impl PostgresStore {
    /// What is wrong with the server's settings; empty: nothing that can be seen from here. Its
    /// connections have to suffice for `processes` with as many as this one may open; `None`: for
    /// those that are alive.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] where it does not answer.
    pub fn examine(
        &self,
        processes: Option<usize>,
    ) -> BoxFuture<'_, Result<Vec<Finding>, StoreError>> {
        Box::pin(async move {
            let question: Statement<'static, (sql::Text, sql::Text)> = Statement::of(
                "SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'max_connections', \
                 'server_version_num', 'statement_timeout', 'superuser_reserved_connections', 'synchronous_commit', \
                 'synchronous_standby_names')
                 UNION ALL
                 SELECT 'synchronous_commit of ' || r.rolname, lower(split_part(c.set, '=', 2))
                 FROM pg_db_role_setting s JOIN pg_roles r ON r.oid = s.setrole CROSS JOIN unnest(s.setconfig) c (set)
                 WHERE c.set LIKE 'synchronous_commit=%'
                   AND s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
                   AND has_table_privilege(r.oid, to_regclass('tasks')::oid, 'UPDATE')",
                values![],
            );
            let rows: Vec<(String, String)> = self.database.read(question).await?;
            let processes = match processes {
                Some(processes) => processes,
                None => {
                    let found = Store::from(self.clone()).workers().await?;
                    let alive = found
                        .rows
                        .iter()
                        .filter(|process| process.state(found.now) == WorkerState::Alive);
                    alive.count().max(FEWEST_PROCESSES)
                }
            };
            // Behind a pooler it is the pooler that has the connections.
            let needed = self.direct.then_some(Needed {
                processes,
                connections: self.connections,
            });
            Ok(findings(&rows.into_iter().collect(), needed))
        })
    }
}

fn findings(settings: &BTreeMap<String, String>, needed: Option<Needed>) -> Vec<Finding> {
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
            to_do: "set full_page_writes = on, unless the file system writes whole pages at once"
                .to_owned(),
        });
    }
    // The server's, and those of the roles that write.
    let commits = |values: &[&str]| -> Option<String> {
        let of = |(name, value): (&String, &String)| {
            let of = name.strip_prefix("synchronous_commit")?;
            let is_one = of.is_empty() || of.starts_with(" of ");
            (is_one && values.contains(&value.as_str())).then(|| format!("{value}{of}"))
        };
        let found: Vec<_> = settings.iter().filter_map(of).collect();
        (!found.is_empty()).then(|| found.join(", "))
    };
    if let Some(commits) = commits(&OFF) {
        found.push(Finding {
            code: "postgres_synchronous_commit",
            what: format!("PostgreSQL commits with synchronous_commit = {commits}"),
            why: "what was answered with 202 in the last moment before a crash can be lost, and a step can run twice",
            to_do: "set synchronous_commit = on for the services' role".to_owned(),
        });
    }
    // An empty list: there is no standby that commits wait for, and `local` is as `on`.
    let standbys = settings.get("synchronous_standby_names");
    let standbys = standbys.filter(|names| !names.trim().is_empty());
    if let (Some(names), Some(commits)) = (standbys, commits(&[&OFF[..], &["local"]].concat())) {
        found.push(Finding {
            code: "postgres_standby",
            what: format!(
                "PostgreSQL names a standby, synchronous_standby_names = {names}, and no commit waits for it: \
                 synchronous_commit = {commits}"
            ),
            why: "what was answered with 2xx before a failover can be lost by it, and a step can run twice",
            to_do: "set synchronous_commit = on: ALTER ROLE … SET synchronous_commit = on for each role of the services"
                .to_owned(),
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
    if is("statement_timeout", "0") {
        found.push(Finding {
            code: "postgres_statement_timeout",
            what: "PostgreSQL sets no statement_timeout for the services' role".to_owned(),
            why: "behind a pooler the program cannot set limits of its own, and a statement may wait indefinitely",
            to_do:
                "run deploy/postgres/roles.sql, which gives the roles the settings that a direct connection asks for"
                    .to_owned(),
        });
    }
    let reserved = number("superuser_reserved_connections").unwrap_or(3);
    if let (
        Some(most),
        Some(Needed {
            processes,
            connections,
        }),
    ) = (number("max_connections"), needed)
    {
        let all = i64::try_from(processes.saturating_mul(connections)).unwrap_or(i64::MAX);
        if all > most - reserved {
            found.push(Finding {
                code: "postgres_connections",
                what: format!(
                    "{processes} processes may open {connections} connections each, {all} in all, and PostgreSQL has \
                     {} for them",
                    (most - reserved).max(0)
                ),
                why: "under load a process is turned away, and its requests fail until another one lets go",
                to_do: "lower --database-connections, raise max_connections, or put a pooler in front of the server"
                    .to_owned(),
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(settings: &[(&str, &str)]) -> Vec<&'static str> {
        let settings = settings
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        findings(
            &settings,
            Some(Needed {
                processes: 3,
                connections: 24,
            }),
        )
        .iter()
        .map(|finding| finding.code)
        .collect()
    }

    #[test]
    fn a_server_as_it_should_be_is_not_mentioned() {
        let sound = [
            ("fsync", "on"),
            ("full_page_writes", "on"),
            ("synchronous_commit", "on"),
        ];
        assert!(codes(&sound).is_empty());
        assert!(codes(&[("server_version_num", "150018"), ("max_connections", "100")]).is_empty());
    }

    #[test]
    fn what_loses_data_and_what_is_too_small_or_too_old_is_named() {
        assert_eq!(codes(&[("fsync", "off")]), ["postgres_fsync"]);
        assert_eq!(
            codes(&[("full_page_writes", "off")]),
            ["postgres_full_page_writes"]
        );
        assert_eq!(
            codes(&[("synchronous_commit", "off")]),
            ["postgres_synchronous_commit"]
        );
        assert_eq!(
            codes(&[("server_version_num", "140011")]),
            ["postgres_version"]
        );
        assert_eq!(
            codes(&[("statement_timeout", "0")]),
            ["postgres_statement_timeout"]
        );
    }

    #[test]
    fn a_standby_that_no_commit_waits_for_is_named() {
        let with = |names, commit| {
            codes(&[
                ("synchronous_standby_names", names),
                ("synchronous_commit", commit),
            ])
        };
        assert_eq!(with("s1", "local"), ["postgres_standby"]);
        assert_eq!(
            with("s1", "off"),
            ["postgres_synchronous_commit", "postgres_standby"]
        );
        for waits in ["on", "remote_apply", "remote_write"] {
            assert!(with("ANY 1 (s1, s2)", waits).is_empty(), "{waits}");
        }
        assert!(with("", "local").is_empty(), "there is none");
        let of_a_role = [
            ("synchronous_standby_names", "s1"),
            ("synchronous_commit", "on"),
            ("synchronous_commit of counterstep_api", "local"),
        ];
        assert_eq!(codes(&of_a_role), ["postgres_standby"]);
    }

    #[test]
    fn processes_times_connections_have_to_fit() {
        let codes = |most: &str, needed| {
            let settings = BTreeMap::from([("max_connections".to_owned(), most.to_owned())]);
            findings(&settings, needed)
                .iter()
                .map(|finding| finding.code)
                .collect::<Vec<_>>()
        };
        let scaled = Needed {
            processes: 23,
            connections: 24,
        };
        assert_eq!(codes("554", Some(scaled)), ["postgres_connections"]);
        assert!(
            codes("555", Some(scaled)).is_empty(),
            "three are the superuser's"
        );
        assert!(codes("20", None).is_empty(), "a pooler shares them");
    }
}
