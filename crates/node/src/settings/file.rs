//! The settings file: its keys, one struct for all services, so that they can share one file. Must
//! not check a value against another one, or against what a flag says.

use super::servers::ServerArgs;
use super::unusable::unusable;
use super::{LogFormat, Service};
use crate::exit::Exit;
use counterstep_contracts::{
    AutoDisableOverride, BreakerOverride, OrphanOverride, Retention, RetryOverride,
};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The flags of all services as keys, and what only a file can hold.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) data_dir: Option<PathBuf>,
    database: Option<String>,
    pub(super) database_connections: Option<usize>,
    pub(super) database_prepared_statements: Option<bool>,
    database_file: Option<PathBuf>,
    database_password_file: Option<PathBuf>,
    database_ca_file: Option<PathBuf>,
    database_cert_file: Option<PathBuf>,
    database_key_file: Option<PathBuf>,
    nats: Option<String>,
    nats_monitor: Option<String>,
    nats_prefix: Option<String>,
    nats_credentials_file: Option<PathBuf>,
    nats_user: Option<String>,
    nats_password_file: Option<PathBuf>,
    nats_token_file: Option<PathBuf>,
    nats_nkey_file: Option<PathBuf>,
    nats_ca_file: Option<PathBuf>,
    nats_cert_file: Option<PathBuf>,
    nats_key_file: Option<PathBuf>,
    nats_ack_wait: Option<String>,
    nats_replicas: Option<usize>,
    nats_max_message_bytes: Option<usize>,
    events_max_age: Option<String>,
    redis: Option<String>,
    redis_file: Option<PathBuf>,
    redis_prefix: Option<String>,
    redis_password_file: Option<PathBuf>,
    redis_ca_file: Option<PathBuf>,
    redis_cert_file: Option<PathBuf>,
    redis_key_file: Option<PathBuf>,
    objects: Option<String>,
    objects_credentials_file: Option<PathBuf>,
    pub(super) events: Option<bool>,
    #[serde(default)]
    pub(super) allow_plaintext: bool,
    pub(super) lease: Option<String>,
    pub(super) step_timeout: Option<String>,
    pub(super) upload_timeout: Option<String>,
    pub(super) cancel_grace: Option<String>,
    pub(super) drain: Option<String>,
    pub(super) lost_after: Option<String>,
    pub(super) output_limit: Option<usize>,
    pub(super) log: Option<String>,
    pub(super) log_format: Option<LogFormat>,
    pub(super) listen: Option<SocketAddr>,
    pub(super) allowed_hosts: Option<Vec<String>>,
    pub(super) concurrency: Option<usize>,
    pub(super) heavy: Option<u16>,
    pub(super) queues: Option<Vec<String>>,
    pub(super) every: Option<String>,
    pub(super) idempotency_ttl: Option<String>,
    #[serde(default)]
    pub(super) policies: BTreeMap<String, RetryOverride>,
    #[serde(default)]
    pub(super) breakers: BTreeMap<String, BreakerOverride>,
    #[serde(default)]
    pub(super) auto_disable: BTreeMap<String, AutoDisableOverride>,
    #[serde(default)]
    pub(super) services: BTreeMap<String, Service>,
    #[serde(default)]
    pub(super) orphans: BTreeMap<String, OrphanOverride>,
    pub(super) orphans_without_task: Option<String>,
    #[serde(default)]
    pub(super) retention: BTreeMap<String, Retention>,
    pub(super) archive_bucket: Option<String>,
}

/// Takes fields of the same names out of a value.
macro_rules! take {
    ($from:expr => $into:ident { $($field:ident),+ $(,)? }) => { $into { $($field: $from.$field.take()),+ } };
}

impl File {
    /// The servers of the file, as the lower layer of what flags and variables say.
    pub(super) fn take_servers(&mut self) -> ServerArgs {
        take!(self => ServerArgs {
            database, database_file, database_password_file, database_ca_file, database_cert_file, database_key_file, nats, nats_monitor, nats_prefix, nats_credentials_file, nats_user, nats_password_file, nats_token_file, nats_nkey_file, nats_ca_file, nats_cert_file, nats_key_file, nats_ack_wait, nats_replicas, nats_max_message_bytes, events_max_age, redis, redis_file, redis_prefix, redis_password_file, redis_ca_file, redis_cert_file, redis_key_file, objects, objects_credentials_file
        })
    }
}

pub(super) fn read_file(path: &Path) -> Result<File, Exit> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Exit::config(format_args!(
            "the settings file `{}` cannot be read: {error}",
            path.display()
        ))
    })?;
    toml::from_str(&text).map_err(|error| unusable(path, &text, &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use counterstep_contracts::CooldownOverride;
    use std::time::Duration;

    #[test]
    fn unknown_keys_of_the_file_are_errors() {
        assert!(toml::from_str::<File>("lease = \"3s\"").is_ok());
        let error = toml::from_str::<File>("leese = \"3s\"")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("leese") && error.contains("lease"),
            "{error}"
        );
    }

    #[test]
    fn policies_are_read_by_name_and_what_is_impossible_or_unknown_in_them_is_an_error() {
        let file = "[policies.ZIP_RETRY]\nmax_retries = 5\nbackoff = \"linear\"\nbase = \"1s\"\ncap = \"1m\"\n\
                    jitter = false\nattempt_timeout = \"2m\"\n[breakers.payments]\nopen_for = \"1m\"\n\
                    [auto_disable.Zip]\ncooldown = \"9m\"\n[auto_disable.Mail]\ncooldown = \"until_enabled\"\n";
        let read = toml::from_str::<File>(file).unwrap();
        assert_eq!(read.policies["ZIP_RETRY"].max_retries, Some(5));
        assert_eq!(
            read.breakers["payments"].open_for,
            Some(Duration::from_secs(60))
        );
        let cooldown = |type_name: &str| read.auto_disable[type_name].cooldown;
        assert_eq!(
            cooldown("Zip"),
            Some(CooldownOverride::For(Duration::from_secs(540)))
        );
        assert_eq!(cooldown("Mail"), Some(CooldownOverride::UntilEnabled));
        for (wrong, said) in [
            ("[policies.X]\nretries = 5", "max_retries"),
            ("[policies.X]\nbackoff = \"cubic\"", "exponential"),
            ("[policies.X]\nbase = \"soon\"", "no duration above 0"),
            ("[breakers.x]\nopen_for = \"0s\"", "no duration above 0"),
            (
                "[auto_disable.X]\ncooldown = \"never\"",
                "or `until_enabled`",
            ),
            (
                "[services.bank]\nuri = \"http://localhost\"",
                "expected one of `url`",
            ),
            ("[services.bank]\n", "missing field `url`"),
            ("[orphans.Zip]\nevery = \"often\"", "no duration above 0"),
            ("[retention.Zip]\ncompleted = \"burn\"", "expected \"keep\""),
        ] {
            let error = toml::from_str::<File>(wrong).unwrap_err().to_string();
            assert!(error.contains(said), "{wrong}: {error}");
        }
    }
}
