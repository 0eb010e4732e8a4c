//! One value for each setting, checked against the others. Must not connect to anything.

mod backends;
mod secrets;
mod tls;

use super::backends::DatabaseUse;
use super::file::nearest;
use super::groups::{Group, takes};
use super::layers::Layers;
use super::secrets::Secret;
use super::upkeep::Upkeep;
use super::{Settings, services};
use crate::exit::Exit;
use crate::process;
use crate::step_process::Protection;
use backends::Backends;
use counterstep_adapters::finding::CODES;
use counterstep_contracts::Overrides;
use counterstep_kernel::EngineSettings;
use counterstep_kernel::webhooks::AllowedNets;
use counterstep_steps::Registry;
use counterstep_steps::output_limit::OutputLimit;
use counterstep_steps::policies::Policies;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

impl Layers {
    /// Checks the settings against each other.
    ///
    /// # Errors
    /// [`Exit`] with the kind `Config`, naming the setting at fault.
    pub fn resolve(&self) -> Result<Settings, Exit> {
        let data = self.data_dir()?;
        let Backends {
            database,
            nats,
            redis,
            objects,
        } = Backends::of(self, &data)?;
        let accept = self.accepted()?;
        let accepts = |word: &str| accept.iter().any(|it| it == word);
        let events = self.events()?;
        if events && nats.is_none() {
            return Err(Exit::config("setting `events` needs NATS: set --nats too"));
        }
        Ok(Settings {
            database,
            database_use: DatabaseUse {
                connections: self.database_connections()?,
                prepared_statements: self.database_prepared_statements()?,
            },
            nats,
            redis,
            objects,
            allow_plaintext: self.allow_plaintext()?,
            scratch: data.join("scratch"),
            step_env: self.step_variables()?,
            step_paths: self.readable_paths()?,
            without_protection: self.protections_left_out()?,
            spool: data.join("spool"),
            engine: self.for_tests.change(EngineSettings {
                lease: self.lease()?,
                step_timeout: self.step_timeout()?,
                upload_timeout: self.upload_timeout()?,
                idempotency_ttl: self.idempotency_ttl()?,
                drain: self.drain()?,
                output_limit: OutputLimit(self.output_limit()?),
                events,
                heavy: self.heavy()?.unwrap_or_else(cores),
                scratch_quota: self.scratch_quota()?.map(|bytes| bytes as u64),
                metrics_labels: self.metrics_labels()?.unwrap_or_default(),
                max_waiting: if takes(self.uses, Group::Api) {
                    let most = self.max_waiting()?;
                    most.map(|most| u32::try_from(most).unwrap_or(u32::MAX))
                } else {
                    None
                },
                machine: machine(),
                memory: process::memory,
                webhook_allow: self.webhook_nets()?,
                alerts: self.alert_webhook()?.is_some(),
                ..EngineSettings::default()
            }),
            upkeep: self.upkeep()?,
            metrics_listen: self.metrics_listen()?,
            payload_keys: self.payload_keys()?,
            link_secret_file: self.secret_file(Secret::Links)?,
            seal_secret_file: self.secret_file(Secret::Seal)?,
            accept_spool: accepts("spool"),
            accept_clock: accepts("clock"),
            webhook_secret_file: self.secret_file(Secret::Webhooks)?,
            alert_webhook: self.alert_webhook()?,
            traces: if takes(self.uses, Group::Traces) {
                self.traces()?
            } else {
                None
            },
            accepted_findings: with_reasons(self.accepted_findings()?)?,
            log: self.log()?,
            log_format: self.log_format()?,
            overrides: self.overrides()?,
            services: if takes(self.uses, Group::Services) {
                services::with_tokens(self.services()?, std::env::vars_os())?
            } else {
                BTreeMap::new()
            },
            secret_config: self.secret_config.clone(),
        })
    }

    /// None of this program's own: they name servers, and files with secrets.
    fn step_variables(&self) -> Result<Vec<String>, Exit> {
        let names = self.step_env()?.unwrap_or_default();
        let is_odd = |name: &&String| {
            name.is_empty() || name.contains(['=', '\0']) || name.starts_with("COUNTERSTEP_")
        };
        match names.iter().find(is_odd) {
            Some(odd) => Err(Exit::config(format_args!(
                "setting `step_env`: invalid name `{}`; expected the name of a variable that does not begin with \
                 `COUNTERSTEP_`",
                odd.escape_debug()
            ))),
            None => Ok(names),
        }
    }

    fn readable_paths(&self) -> Result<Vec<PathBuf>, Exit> {
        let paths = self.step_paths()?.unwrap_or_default();
        let paths: Vec<_> = paths.into_iter().map(PathBuf::from).collect();
        match paths.iter().find(|path| !path.is_absolute()) {
            Some(odd) => Err(Exit::config(format_args!(
                "setting `step_paths`: invalid path `{}`; expected an absolute one",
                odd.display()
            ))),
            None => Ok(paths),
        }
    }

    /// What a person has looked at, each by its word. A process is told nothing that it would not do.
    fn accepted(&self) -> Result<Vec<String>, Exit> {
        let words = self.accept()?.unwrap_or_default();
        let is_worker = takes(self.uses, Group::Worker);
        let is_odd = |word: &&String| match word.as_str() {
            "clock" => false,
            "spool" => !is_worker,
            _ => true,
        };
        match words.iter().find(is_odd) {
            Some(odd) => Err(Exit::config(format_args!(
                "setting `accept`: invalid word `{}`; expected `clock` or, of a worker, `spool`",
                odd.escape_debug()
            ))),
            None => Ok(words),
        }
    }

    fn protections_left_out(&self) -> Result<BTreeSet<Protection>, Exit> {
        let names = self.without_protection()?.unwrap_or_default();
        let parsed = names.iter().map(|name| {
            name.parse::<Protection>().map_err(|()| {
                Exit::config(format_args!(
                    "setting `without_protection`: unknown name `{}`; expected `dumpable`, `no_new_privs`, `landlock`, \
                     `subreaper` or `seccomp`",
                    name.escape_debug()
                ))
            })
        });
        parsed.collect()
    }

    fn webhook_nets(&self) -> Result<AllowedNets, Exit> {
        let nets = self.webhook_allow()?.unwrap_or_default();
        AllowedNets::parse(nets.iter().map(String::as_str))
            .map_err(|error| Exit::config(format_args!("setting `webhook_allow`: {error}")))
    }

    fn overrides(&self) -> Result<Overrides, Exit> {
        Ok(Overrides {
            policies: self.policies()?,
            breakers: self.breakers()?,
            auto_disable: self.auto_disable()?,
        })
    }

    /// Orphans and retention, not yet checked against the task types.
    ///
    /// # Errors
    /// [`Exit`] with the kind `Config`, naming the setting.
    pub fn upkeep(&self) -> Result<Upkeep, Exit> {
        Ok(Upkeep {
            orphans: self.orphans()?,
            orphans_without_task: self.orphans_without_task()?,
            retention: self.retention()?,
        })
    }

    /// The policies in effect, without a look at anything else that is set: for those who only show
    /// them.
    ///
    /// # Errors
    /// [`Exit`] with the kind `Config`, naming the setting at fault.
    pub fn policies_in_effect(&self, registry: &Registry) -> Result<Policies, Exit> {
        in_effect(registry, self.overrides()?)
    }
}

/// Steps that compute do so side by side up to the cores that this process may use.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, std::num::NonZero::get)
}

/// Each finding that is accepted is one that there is, and has a reason.
fn with_reasons(accepted: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Exit> {
    for (code, reason) in &accepted {
        if !CODES.contains(&code.as_str()) {
            let near = nearest(code, CODES.iter());
            let near = near.map(|near| format!("did you mean `{near}`?"));
            let near = near.unwrap_or_else(|| format!("known are {}", CODES.join(", ")));
            return Err(Exit::config(format_args!(
                "setting `accepted_findings`: `doctor` has no finding `{}`: {near}",
                code.escape_debug()
            )));
        }
        if reason.trim().is_empty() {
            return Err(Exit::config(format_args!(
                "setting `accepted_findings`: `{code}` has no reason; expected why it is accepted"
            )));
        }
    }
    Ok(accepted)
}

/// Changes to policies, checked against the task types of this process.
pub(crate) fn in_effect(registry: &Registry, overrides: Overrides) -> Result<Policies, Exit> {
    Policies::checked(registry, overrides).map_err(Exit::config)
}

/// The name of this machine, as people know it.
pub(crate) fn machine() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() {
        "unnamed".to_owned()
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{SettingValues, SettingsArgs, commands};
    use std::path::Path;
    use std::time::Duration;

    /// What a settings file with this text gives.
    fn resolved(text: &str, values: SettingValues, uses: u32) -> Result<Settings, Exit> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.toml");
        std::fs::write(&path, text).unwrap();
        let values = SettingValues {
            config: Some(path),
            ..values
        };
        let args = SettingsArgs {
            values,
            uses,
            ..SettingsArgs::default()
        };
        args.read()?.resolve()
    }

    #[test]
    fn how_long_the_answer_to_a_key_is_kept_comes_from_the_flag_and_then_from_the_file() {
        let of = |values| {
            let settings = resolved("idempotency_ttl = \"3d\"", values, commands::DEV);
            settings.unwrap().engine.idempotency_ttl
        };
        assert_eq!(
            of(SettingValues::default()),
            Duration::from_secs(3 * 86_400)
        );
        let flag = SettingValues {
            idempotency_ttl: Some("1h".into()),
            ..SettingValues::default()
        };
        assert_eq!(of(flag), Duration::from_secs(3600));
    }

    #[test]
    fn values_that_cannot_work_are_refused() {
        for (text, expected) in [
            ("output_limit = 0", "expected 4096 or more"),
            ("heavy = 0", "expected 1 to 4096"),
            ("database_connections = 0", "expected 1 or more"),
            ("metrics_labels = [\"Order\"]", "invalid label name `Order`"),
            ("metrics_labels = [\"a.b\", \"a-b\"]", "one name in metrics"),
            (
                "metrics_labels = [\"a\", \"b\", \"c\", \"d\", \"e\"]",
                "expected at most 4",
            ),
        ] {
            let refused = resolved(text, SettingValues::default(), commands::DEV).expect_err(text);
            assert!(refused.message.contains(expected), "{refused}");
        }
        let concurrency = Layers {
            file: toml::from_str("concurrency = 4097").unwrap(),
            ..Layers::default()
        }
        .concurrency();
        let refused = concurrency.unwrap_err();
        assert!(refused.message.contains("expected 1 to 4096"), "{refused}");
    }

    #[test]
    fn a_command_skips_the_keys_that_it_does_not_take() {
        let text = "nats = \"no-url\"\ndrain = \"soon\"\ndatabase_connections = 7";
        let migrate = resolved(text, SettingValues::default(), commands::DATABASE_ONLY).unwrap();
        assert_eq!((migrate.database_use.connections, migrate.nats), (7, None));
        assert!(resolved(text, SettingValues::default(), commands::WORKER).is_err());
    }

    #[test]
    fn what_steps_may_reach_beyond_the_usual_is_checked_by_name() {
        let read = |line: &str| {
            let text = format!("data_dir = \"x\"\n{line}");
            resolved(&text, SettingValues::default(), commands::WORKER)
        };
        let settings =
            read("without_protection = [\"landlock\"]\nstep_paths = [\"/opt\"]").unwrap();
        assert!(settings.without_protection.contains(&Protection::Landlock));
        assert_eq!(settings.step_paths, [Path::new("/opt")]);
        for odd in [
            "without_protection = [\"selinux\"]",
            "step_paths = [\"models\"]",
        ] {
            assert!(read(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn what_is_accepted_for_one_start_is_named_and_each_process_takes_its_own_alone() {
        let accepted = |words: &[&str], uses| {
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            let values = SettingValues {
                accept: Some(words),
                ..SettingValues::default()
            };
            let settings = resolved("data_dir = \"x\"", values, uses);
            settings.map(|it| (it.accept_clock, it.accept_spool))
        };
        let worker = |words: &[&str]| accepted(words, commands::WORKER).unwrap();
        assert_eq!(worker(&["clock", "spool"]), (true, true));
        assert_eq!(worker(&["spool"]), (false, true));
        for (word, uses) in [("spool", commands::API), ("time", commands::WORKER)] {
            let refused = accepted(&["clock", word], uses).unwrap_err();
            assert!(refused.message.contains(word), "{refused}");
            assert!(refused.message.contains("setting `accept`"), "{refused}");
        }
        assert_eq!(accepted(&["clock"], commands::API).unwrap(), (true, false));
    }

    #[test]
    fn the_defaults_are_those_of_the_parts_that_they_are_for() {
        let settings = resolved("data_dir = \"x\"", SettingValues::default(), commands::DEV);
        let (settings, usual) = (settings.unwrap(), Settings::in_folder(Path::new("x")));
        let text = |settings: &Settings| {
            let engine = EngineSettings {
                heavy: 1,
                machine: String::new(),
                memory: || None,
                ..settings.engine.clone()
            };
            format!(
                "{:?}",
                Settings {
                    engine,
                    ..settings.clone()
                }
            )
        };
        assert_eq!(text(&settings), text(&usual));
    }

    #[cfg(feature = "servers")]
    #[test]
    fn the_defaults_of_servers_are_those_of_their_adapters() {
        use counterstep_adapters::nats::NatsOptions;
        let (given, nats) = (Layers::default(), NatsOptions::new(""));
        assert_eq!(given.nats_replicas().unwrap(), nats.replicas);
    }
}
