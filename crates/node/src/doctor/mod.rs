//! Which promises the configured servers cannot keep.

#[cfg(feature = "servers")]
mod servers;

use crate::exit::Exit;
use crate::open::{missing_services, unusable_services};
use crate::readable_secrets::{OpenSecret, open_to_others};
use crate::settings::{Database, Settings};
pub use counterstep_adapters::finding::Finding;
use counterstep_adapters::nats_rights::User;
use counterstep_adapters::sqlite::{SqliteOptions, SqliteStore, wal_reset_bug};
use counterstep_steps::Registry;
use futures::future::BoxFuture;
use std::path::Path;

/// What was found.
#[derive(Debug, Default)]
pub struct Examined {
    /// What does not meet the requirements.
    pub findings: Vec<Finding>,
    /// What the settings come to: no findings.
    pub notes: Vec<String>,
}

/// Looks at every server of the settings. One that does not answer is a finding, and the others are looked at
/// all the same. `processes`: how many PostgreSQL has to have connections for; `None`: those that are alive.
/// `role`: the kind of process that the settings, and the rights of its users, are for.
///
/// # Errors
/// [`Exit`] for settings that cannot be used whatever the servers do.
pub fn examine<'a>(
    settings: &'a Settings,
    registry: &'a Registry,
    processes: Option<usize>,
    role: Option<User>,
) -> BoxFuture<'a, Result<Examined, Exit>> {
    Box::pin(async move {
        crate::install_provider();
        let mut examined = Examined::default();
        let found = &mut examined.findings;
        examined.notes.extend(one_machine(settings));
        if let Database::Sqlite(path) = &settings.database {
            found.extend(wal_reset_bug().map(one_process));
            found.extend(of_the_file(path).await);
        }
        found.extend(registry.missing_types().map(|missing| Finding {
            code: "type_missing",
            what: missing.to_string(),
            why: "a process of this program does not start",
            to_do: format!(
                "add `.with::<{}>()` to the registry, in the program's main function",
                missing.awaited
            ),
        }));
        found.extend(registry.missing_states().map(|missing| Finding {
            code: "state_missing",
            what: missing.to_string(),
            why: "a process of this program does not start",
            to_do: format!(
                "provide a value of `{}` to the registry, in the program's main function",
                missing.type_name
            ),
        }));
        found.extend(
            missing_services(settings, registry)
                .into_iter()
                .map(|service| Finding {
                    code: "service_unset",
                    what: format!(
                        "steps call the service `{service}`, and the settings do not have it"
                    ),
                    why: "such a step fails permanently, and its task is undone",
                    to_do: format!("add [services.{service}] with its `url` to the settings file"),
                }),
        );
        found.extend(unusable_services(settings).into_iter().map(|what| {
            Finding {
                code: "service_unusable",
                what,
                why: "a process of this program that runs steps does not start",
                to_do: "correct the setting, or make the file readable for the user of the service"
                    .to_owned(),
            }
        }));
        found.extend(open_to_others(settings).into_iter().map(
            |OpenSecret {
                 setting,
                 file,
                 mode,
             }| Finding {
                code: "secret_file_open",
                what: format!("setting `{setting}`: the file {file} has the mode {mode}"),
                why: "every user of this machine can read the secret in it",
                to_do: format!("chmod 600 {file}, as the user of the service"),
            },
        ));
        #[cfg(feature = "servers")]
        servers::examine(settings, registry, processes, role, &mut examined).await?;
        #[cfg(not(feature = "servers"))]
        {
            let _ = (processes, role);
            crate::open::servers::no_servers(settings)?;
        }
        Ok(examined)
    })
}

/// What a database that is a file means.
fn one_machine(settings: &Settings) -> Option<String> {
    let Database::Sqlite(path) = &settings.database else {
        return None;
    };
    Some(format!(
        "the database is the file {}: all services have to run on this machine, and a lost disk loses every task; for more than \
         one machine set --database postgres://… and --nats",
        path.display()
    ))
}

/// What the database file itself shows, where it is there.
async fn of_the_file(path: &Path) -> Vec<Finding> {
    if !path.is_file() {
        return Vec::new();
    }
    let looked = match SqliteStore::look(path, &SqliteOptions::default()) {
        Ok(store) => store.examine().await.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    looked.unwrap_or_else(|what| {
        vec![Finding {
            code: "sqlite_unreadable",
            what,
            why: "no process can use the database",
            to_do: "correct --database or the rights of the file, or restore it".to_owned(),
        }]
    })
}

/// `version`: that of the linked SQLite, which has the bug.
fn one_process(version: &str) -> Finding {
    Finding {
        code: "sqlite_one_process",
        what: format!("this program is linked with SQLite {version}, which has the WAL-reset bug"),
        why: "two processes that write to the database file could damage it, so that a second one is refused",
        to_do: "build with libsqlite3-sys 0.37 or newer (`cargo tree -i libsqlite3-sys` shows what holds it back), or run \
                all roles in one process (`dev`)"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use counterstep_adapters::finding::CODES;
    use std::collections::BTreeSet;

    #[tokio::test]
    async fn an_sqlite_that_two_processes_could_damage_a_file_with_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings::in_folder(folder.path());
        let found = examine(&settings, &Registry::new(), None, None)
            .await
            .unwrap();
        let versions: Vec<_> = found
            .findings
            .iter()
            .filter(|finding| finding.code == "sqlite_one_process")
            .map(|finding| &finding.what)
            .collect();
        let expected = wal_reset_bug().map(one_process);
        assert_eq!(
            versions,
            Vec::from_iter(expected.iter().map(|one| &one.what))
        );
        assert!(one_process("3.46.0").what.contains("SQLite 3.46.0"));
    }
    /// The codes that stand in sources below this folder.
    fn codes_in(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                codes_in(&path, found);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for before in ["code: \"", "away(\""] {
                let codes = text.split(before).skip(1);
                let codes = codes.filter_map(|rest| rest.split('"').next());
                let is_code = |code: &&str| {
                    code.contains('_') && code.chars().all(|c| c.is_ascii_lowercase() || c == '_')
                };
                found.extend(codes.filter(is_code).map(str::to_owned));
            }
        }
    }

    #[test]
    fn each_code_that_a_finding_has_can_be_accepted_and_no_other() {
        let top = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut found = BTreeSet::new();
        codes_in(&top.join("src/doctor"), &mut found);
        codes_in(&top.join("../adapters/src"), &mut found);
        let known: BTreeSet<String> = CODES.iter().map(|code| (*code).to_owned()).collect();
        assert_eq!(found, known);
        assert!(CODES.is_sorted());
    }
}
