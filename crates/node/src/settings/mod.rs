//! Settings: flags, then `COUNTERSTEP_*` variables, then a TOML file, then defaults. Unknown keys
//! are errors, and so are secrets among the flags, where every user of the machine could read them.

mod arguments;
mod database;
mod faults;
mod file;
mod layers;
mod places;
mod servers;
mod services;
mod surroundings;
mod unusable;

pub use database::{DatabaseArgs, DatabaseUse};
pub use places::{Database, NatsLogin, NatsPlace, ObjectPlace, RedisPlace, SecretUrl, Server};
pub use servers::ServerArgs;
pub use services::Service;
pub use surroundings::check_surroundings;

use crate::exit::Exit;
use counterstep_contracts::Overrides;
use counterstep_contracts::retry::parse_duration;
use counterstep_kernel::EngineSettings;
use counterstep_kernel::faults::Fault;
use counterstep_kernel::orphans::OrphanSettings;
use counterstep_kernel::retention::RetentionSettings;
use counterstep_steps::Registry;
use counterstep_steps::output_limit::OutputLimit;
use counterstep_steps::policies::Policies;
use faults::parse_fault;
use file::{File, read_file};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// The settings that all processes share, as flags and variables.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct SettingsArgs {
    /// TOML file with settings; its keys are the long flags with `_` for `-`
    #[arg(long, env = "COUNTERSTEP_CONFIG", global = true)]
    pub config: Option<PathBuf>,
    /// Folder for everything that has no place of its own [default: counterstep-data]
    #[arg(long, env = "COUNTERSTEP_DATA_DIR", global = true)]
    pub data_dir: Option<PathBuf>,
    /// The servers.
    #[command(flatten)]
    pub servers: ServerArgs,
    /// How PostgreSQL is used.
    #[command(flatten)]
    pub database_use: DatabaseArgs,
    /// Tell other services of every change, as events on NATS [default: false]
    #[arg(long, env = "COUNTERSTEP_EVENTS", global = true, num_args = 0..=1, default_missing_value = "true")]
    pub events: Option<bool>,
    /// Connect to servers of other machines without TLS
    #[arg(long, env = "COUNTERSTEP_ALLOW_PLAINTEXT", global = true)]
    pub allow_plaintext: bool,
    /// How long a claim holds without a heartbeat, for types that declare none [default: 30s]
    #[arg(long, env = "COUNTERSTEP_LEASE", global = true)]
    pub lease: Option<String>,
    /// Limit of one attempt, for steps that declare none [default: 10m]
    #[arg(long, env = "COUNTERSTEP_STEP_TIMEOUT", global = true)]
    pub step_timeout: Option<String>,
    /// Limit of a request's arrival, uploads included [default: 15m]
    #[arg(long, env = "COUNTERSTEP_UPLOAD_TIMEOUT", global = true)]
    pub upload_timeout: Option<String>,
    /// How long a cancelled step may go on before it is dropped [default: 5s]
    #[arg(long, env = "COUNTERSTEP_CANCEL_GRACE", global = true)]
    pub cancel_grace: Option<String>,
    /// On shutdown, how long running steps may go on [default: 10s]
    #[arg(long, env = "COUNTERSTEP_DRAIN", global = true)]
    pub drain: Option<String>,
    /// Steps declared heavy that run side by side in a process [default: one for each core]
    #[arg(long, env = "COUNTERSTEP_HEAVY", global = true, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub heavy: Option<u16>,
    /// Not seen by the database for so long, this process is listed as lost [default: 45s]
    #[arg(long, env = "COUNTERSTEP_LOST_AFTER", global = true)]
    pub lost_after: Option<String>,
    /// How long the answer to an idempotency key is kept [default: 24h]
    #[arg(long, env = "COUNTERSTEP_IDEMPOTENCY_TTL", global = true)]
    pub idempotency_ttl: Option<String>,
    /// The most bytes of an output, a response or a signal, as JSON [default: 1048576]
    #[arg(
        long,
        env = "COUNTERSTEP_OUTPUT_LIMIT",
        global = true,
        value_name = "BYTES"
    )]
    pub output_limit: Option<usize>,
    /// What to log, as `info` or `warn,counterstep=debug` [default: info]
    #[arg(long, env = "COUNTERSTEP_LOG", global = true)]
    pub log: Option<String>,
    /// The form of log lines [default: text]
    #[arg(long, env = "COUNTERSTEP_LOG_FORMAT", global = true, value_enum)]
    pub log_format: Option<LogFormat>,
    /// Plants a fault, as `STEP=KIND` or `STEP=KIND@ATTEMPT`; for demonstrations and tests
    #[arg(long, global = true, hide = true, value_parser = parse_fault)]
    pub plant_fault: Vec<Fault>,
}

/// Settings that have been checked.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The truth.
    pub database: Database,
    /// How it is used, where it is PostgreSQL.
    pub database_use: DatabaseUse,
    /// Messages; with PostgreSQL only, and always then.
    pub nats: Option<NatsPlace>,
    /// Locks and fast checks.
    pub redis: Option<RedisPlace>,
    /// Objects.
    pub objects: ObjectPlace,
    /// Whether servers of other machines may be spoken to in the clear.
    pub allow_plaintext: bool,
    /// The scratch folder of this host.
    pub scratch: PathBuf,
    /// The engine's.
    pub engine: EngineSettings,
    /// Log filter.
    pub log: String,
    /// Log form.
    pub log_format: LogFormat,
    /// From the file: where the API listens.
    pub listen: Option<SocketAddr>,
    /// From the file: names by which the API may be addressed.
    pub allowed_hosts: Option<Vec<String>>,
    /// From the file: tasks at a time.
    pub concurrency: Option<usize>,
    /// From the file: the queues to serve.
    pub queues: Option<Vec<String>>,
    /// From the file: how often the reconciler sweeps.
    pub every: Option<Duration>,
    /// From the file: changes to declared policies, to be checked against the task types.
    pub overrides: Overrides,
    /// From the file: services that steps call, by name.
    pub services: BTreeMap<String, Service>,
    /// The settings file itself, where a URL in it holds a password.
    pub secret_config: Option<PathBuf>,
}

impl Settings {
    /// Everything in one folder, and the defaults for the rest.
    #[must_use]
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            database: Database::Sqlite(folder.join("counterstep.db")),
            database_use: DatabaseUse::default(),
            nats: None,
            redis: None,
            objects: ObjectPlace::Folder(folder.join("objects")),
            allow_plaintext: false,
            scratch: folder.join("scratch"),
            engine: EngineSettings::default(),
            log: "info".to_owned(),
            log_format: LogFormat::Text,
            listen: None,
            allowed_hosts: None,
            concurrency: None,
            queues: None,
            every: None,
            overrides: Overrides::default(),
            services: BTreeMap::new(),
            secret_config: None,
        }
    }
}

impl SettingsArgs {
    /// Checks flags, variables and file, and fills in what they leave out.
    ///
    /// # Errors
    /// [`Exit`] with the kind `Config`, naming the setting at fault.
    pub fn resolve(&self) -> Result<Settings, Exit> {
        check_surroundings()?;
        let mut file = self
            .config
            .as_deref()
            .map_or_else(|| Ok(File::default()), read_file)?;
        let data = self
            .data_dir
            .clone()
            .or(file.data_dir.take())
            .unwrap_or_else(|| PathBuf::from("counterstep-data"));
        let database_use = self.database_use.check(&file)?;
        let servers = file.take_servers();
        let secret_config = self.config.clone().filter(|_| layers::is_secret(&servers));
        let places = layers::Places::of(self.servers.clone(), servers, &data)?;
        let layers::Places {
            database,
            nats,
            redis,
            objects,
        } = places;
        let defaults = EngineSettings::default();
        let time = |name: &str, flag: &Option<String>, file: Option<String>, default: Duration| {
            flag.clone()
                .or(file)
                .map_or(Ok(default), |text| duration(name, &text))
        };
        let events = self.events.or(file.events);
        if events == Some(true) && nats.is_none() {
            return Err(Exit::config("setting `events` needs NATS: set --nats too"));
        }
        let events = events.unwrap_or(false);
        Ok(Settings {
            database,
            database_use,
            nats,
            redis,
            objects,
            allow_plaintext: self.allow_plaintext || file.allow_plaintext,
            scratch: data.join("scratch"),
            engine: EngineSettings {
                lease: time("lease", &self.lease, file.lease, defaults.lease)?,
                step_timeout: time(
                    "step_timeout",
                    &self.step_timeout,
                    file.step_timeout,
                    defaults.step_timeout,
                )?,
                upload_timeout: time(
                    "upload_timeout",
                    &self.upload_timeout,
                    file.upload_timeout,
                    defaults.upload_timeout,
                )?,
                cancel_grace: time(
                    "cancel_grace",
                    &self.cancel_grace,
                    file.cancel_grace,
                    defaults.cancel_grace,
                )?,
                idempotency_ttl: time(
                    "idempotency_ttl",
                    &self.idempotency_ttl,
                    file.idempotency_ttl,
                    defaults.idempotency_ttl,
                )?,
                drain: time("drain", &self.drain, file.drain, defaults.drain)?,
                lost_after: time(
                    "lost_after",
                    &self.lost_after,
                    file.lost_after,
                    defaults.lost_after,
                )?,
                output_limit: output_limit(
                    self.output_limit.or(file.output_limit),
                    defaults.output_limit,
                )?,
                events,
                heavy: heavy(self.heavy.or(file.heavy))?,
                machine: machine(),
                orphans: OrphanSettings {
                    types: file.orphans,
                    without_task: file
                        .orphans_without_task
                        .map(|text| duration("orphans_without_task", &text))
                        .transpose()?,
                },
                retention: RetentionSettings {
                    types: file.retention,
                    bucket: file.archive_bucket.unwrap_or(defaults.retention.bucket),
                },
                faults: self.plant_fault.clone(),
                ..defaults
            },
            log: self
                .log
                .clone()
                .or(file.log)
                .unwrap_or_else(|| "info".to_owned()),
            log_format: self.log_format.or(file.log_format).unwrap_or_default(),
            listen: file.listen,
            allowed_hosts: file.allowed_hosts,
            concurrency: match file.concurrency {
                Some(tasks @ (0 | 4097..)) => {
                    return Err(Exit::config(format_args!(
                        "invalid setting `concurrency`: {tasks} tasks at a time; expected 1 to 4096"
                    )));
                }
                tasks => tasks,
            },
            queues: file.queues,
            every: file
                .every
                .map(|text| duration("every", &text))
                .transpose()?,
            overrides: Overrides {
                policies: file.policies,
                breakers: file.breakers,
                auto_disable: file.auto_disable,
            },
            services: services::with_tokens(file.services, std::env::vars_os())?,
            secret_config,
        })
    }

    /// The policies in effect, without a look at anything else that is set: for those who only show
    /// them.
    ///
    /// # Errors
    /// [`Exit`] with the kind `Config`, naming the setting at fault.
    pub fn policies(&self, registry: &Registry) -> Result<Policies, Exit> {
        let file = self
            .config
            .as_deref()
            .map_or_else(|| Ok(File::default()), read_file)?;
        in_effect(
            registry,
            Overrides {
                policies: file.policies,
                breakers: file.breakers,
                auto_disable: file.auto_disable,
            },
        )
    }
}

/// Steps that compute do so side by side up to the cores that this process may use.
fn heavy(set: Option<u16>) -> Result<usize, Exit> {
    match set {
        Some(0) => Err(Exit::config(
            "invalid setting `heavy`: 0 would run no heavy step at all; expected 1 to 4096",
        )),
        Some(steps) => Ok(steps.into()),
        None => Ok(std::thread::available_parallelism().map_or(2, std::num::NonZero::get)),
    }
}

fn output_limit(set: Option<usize>, default: OutputLimit) -> Result<OutputLimit, Exit> {
    match set {
        Some(bytes) if bytes < SMALLEST_OUTPUT_LIMIT => Err(Exit::config(format_args!(
            "invalid setting `output_limit`: {bytes} bytes would fail steps that have done their work; expected \
             {SMALLEST_OUTPUT_LIMIT} or more"
        ))),
        set => Ok(set.map_or(default, OutputLimit)),
    }
}

/// The reference to a stored file is an output too, and has a name of up to 255 bytes and a key of
/// more.
const SMALLEST_OUTPUT_LIMIT: usize = 4096;

/// Changes to policies, checked against the task types of this process.
pub(crate) fn in_effect(registry: &Registry, overrides: Overrides) -> Result<Policies, Exit> {
    Policies::checked(registry, overrides).map_err(Exit::config)
}

/// The name of this machine, as people know it.
fn machine() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() {
        "unnamed".to_owned()
    } else {
        name.to_owned()
    }
}

/// Reads a duration setting such as `30s`.
///
/// # Errors
/// [`Exit`] with the kind `Config`.
pub fn duration(name: &str, text: &str) -> Result<Duration, Exit> {
    parse_duration(text).filter(|duration| !duration.is_zero()).ok_or_else(|| {
        Exit::config(format_args!(
            "setting `{name}`: `{}` is no duration above 0: write a whole number and a unit, as 500ms, 30s, 10m, 1h",
            text.escape_debug()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_the_answer_to_a_key_is_kept_comes_from_the_flag_and_then_from_the_file() {
        let path =
            std::env::temp_dir().join(format!("counterstep-settings-{}", std::process::id()));
        std::fs::write(&path, "idempotency_ttl = \"3d\"").unwrap();
        let file = SettingsArgs {
            config: Some(path.clone()),
            ..SettingsArgs::default()
        };
        let of = |args: &SettingsArgs| args.resolve().unwrap().engine.idempotency_ttl;
        assert_eq!(of(&file), Duration::from_secs(3 * 86_400));
        assert_eq!(
            of(&SettingsArgs {
                idempotency_ttl: Some("1h".into()),
                ..file
            }),
            Duration::from_secs(3600)
        );
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn values_that_cannot_work_are_refused() {
        for (text, expected) in [
            ("output_limit = 0", "expected 4096 or more"),
            ("concurrency = 4097", "expected 1 to 4096"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("settings.toml");
            std::fs::write(&path, text).unwrap();
            let refused = SettingsArgs {
                config: Some(path),
                ..SettingsArgs::default()
            }
            .resolve()
            .unwrap_err();
            assert!(refused.message.contains(expected), "{refused}");
        }
    }
}
