//! Settings: flags, then `COUNTERSTEP_*` variables, then a TOML file, then defaults. Unknown keys
//! are errors, and so are secrets among the flags, where every user of the machine could read them.

mod arguments;
mod auth_mode;
mod backends;
pub mod commands;
mod declare;
mod file;
mod flags;
mod for_tests;
mod former;
mod groups;
mod installation;
mod jwt;
pub mod kinds;
mod layers;
mod log_format;
mod logins;
mod metrics_labels;
#[cfg(test)]
mod page;
mod process_env;
mod profiles;
mod resolve;
mod secrets;
mod services;
mod table;
mod tls;
mod traces;
mod unusable;
mod upgrade;
mod upkeep;
mod urls;

pub use auth_mode::AuthMode;
pub use backends::{
    Database, DatabaseUse, NatsBackend, NatsLogin, ObjectBackend, RedisBackend, SecretUrl, Server,
};
pub use declare::Setting;
pub use file::nearest;
pub use flags::{SettingsArgs, SettingsFor};
pub use former::without_former;
pub use groups::Group;
pub use jwt::JwtSettings;
pub use kinds::duration;
pub use layers::Layers;
pub use log_format::LogFormat;
pub use process_env::check_surroundings;
pub use profiles::{Profile, Profiles, profiles_file, read_profiles, write_profiles};
pub(crate) use resolve::in_effect;
#[cfg(feature = "otlp")]
pub(crate) use resolve::machine;
pub use services::Service;
pub use table::{SETTINGS, SettingValues};
pub use traces::TraceSettings;
pub use upgrade::upgrade;
pub use upkeep::Upkeep;

use crate::step_process::Protection;
use counterstep_contracts::Overrides;
use counterstep_kernel::EngineSettings;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Maximum bytes of the results in a worker's spool: more than a worker has with all its slots in use.
pub(crate) const SPOOL_MAX_BYTES: u64 = 256 << 20;

/// Settings that have been checked.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The database: it decides what a task's state is.
    pub database: Database,
    /// How it is used, where it is PostgreSQL.
    pub database_use: DatabaseUse,
    /// Messages; with PostgreSQL only, and always then.
    pub nats: Option<NatsBackend>,
    /// Locks and fast checks.
    pub redis: Option<RedisBackend>,
    /// Objects.
    pub objects: ObjectBackend,
    /// Whether servers of other machines may be spoken to in the clear.
    pub allow_plaintext: bool,
    /// The scratch folder of this host.
    pub scratch: PathBuf,
    /// Variables of the environment that processes of steps get, by name.
    pub step_env: Vec<String>,
    /// Files and folders that they read beside those of the system.
    pub step_paths: Vec<PathBuf>,
    /// What keeps processes of this user from each other, and is left out.
    pub without_protection: BTreeSet<Protection>,
    /// The folder in which workers keep results that the database could not be given. With PostgreSQL only: a database file
    /// is a part of the same disk.
    pub spool: PathBuf,
    /// The engine's.
    pub engine: EngineSettings,
    /// Where metrics are served, where the API is not to.
    pub metrics_listen: Option<SocketAddr>,
    /// The folder with the keys that payloads are encrypted with; `None`: they are not.
    pub payload_keys: Option<PathBuf>,
    /// With the secrets that sign links to results.
    pub link_secret_file: Option<PathBuf>,
    /// With the secrets that seal kept results; `None`: `seal-secret` beside the spool.
    pub seal_secret_file: Option<PathBuf>,
    /// Whether kept results without a seal are sealed at the start.
    pub accept_spool: bool,
    /// Whether the machine's calendar is right, also where it is more than a day ahead of its timer.
    pub accept_clock: bool,
    /// With the secrets that sign webhooks.
    pub webhook_secret_file: Option<PathBuf>,
    /// Where operators are told of dead letters and the like; checked where it is used.
    pub alert_webhook: Option<String>,
    /// Where spans go; `None`: nowhere.
    pub traces: Option<TraceSettings>,
    /// Log filter.
    pub log: String,
    /// Log form.
    pub log_format: LogFormat,
    /// From the file: changes to declared policies, to be checked against the task types.
    pub overrides: Overrides,
    /// From the file: orphans and retention, to be checked against the task types.
    pub upkeep: Upkeep,
    /// From the file: why findings of `doctor` are accepted, by code.
    pub accepted_findings: BTreeMap<String, String>,
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
            objects: ObjectBackend::Folder(folder.join("objects")),
            allow_plaintext: false,
            scratch: folder.join("scratch"),
            step_env: Vec::new(),
            step_paths: Vec::new(),
            without_protection: BTreeSet::new(),
            spool: folder.join("spool"),
            engine: EngineSettings::default(),
            metrics_listen: None,
            payload_keys: None,
            link_secret_file: None,
            seal_secret_file: None,
            accept_spool: false,
            accept_clock: false,
            webhook_secret_file: None,
            alert_webhook: None,
            traces: None,
            log: "info".to_owned(),
            log_format: LogFormat::Text,
            overrides: Overrides::default(),
            upkeep: Upkeep::default(),
            accepted_findings: BTreeMap::new(),
            services: BTreeMap::new(),
            secret_config: None,
        }
    }
}
