//! Names that settings had. One of them is refused with what has its place now, in a file, as a variable and as a flag alike: what
//! a process is told and does not do would go unnoticed. Must not give a value to any setting.

use clap::Arg;
use clap::error::{ContextKind, ContextValue};

/// The command that rewrites a file with such names.
const UPGRADE: &str = "`counterstep settings upgrade FILE` rewrites the file";

/// A name that is none any more.
#[derive(Debug)]
pub(super) struct Former {
    pub(super) key: &'static str,
    pub(super) now: Now,
}

/// What has its place.
#[derive(Debug)]
pub(super) enum Now {
    /// Nothing: the program always does the same.
    Fixed(&'static str),
    /// A key of a table in the file, or what is usual in its place: a set of certificates for all servers, a folder of secrets.
    Key(&'static str),
    /// A flag, as it is written. No file has it.
    Flag(&'static str),
}

/// Every value.
pub(super) const FORMER: &[Former] = &[
    flag("accept_clock", "--accept clock"),
    flag("accept_spool", "--accept spool"),
    fixed(
        "archive_bucket",
        "`archive`; where it named another bucket, let `objects` map `archive` to the same place (`map.archive=BUCKET/PREFIX`), or move \
         the archives",
    ),
    fixed("body_silence", "30s"),
    fixed("cancel_grace", "5s"),
    key("database_ca_file", "tls.database.ca_file"),
    key("database_cert_file", "tls.database.cert_file"),
    key("database_file", "secret_files.database"),
    key("database_key_file", "tls.database.key_file"),
    key("database_password_file", "secret_files.database"),
    fixed("event_heartbeat", "15s"),
    fixed("event_streams", "10000"),
    fixed(
        "events_max_age",
        "7d in a new stream; `nats stream edit --max-age` changes one that is there",
    ),
    fixed("hung_after", "1m"),
    fixed(
        "jwt_algorithms",
        "RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA",
    ),
    key("jwt_ca_file", "tls.issuer.ca_file"),
    fixed("jwt_leeway", "30s"),
    key("link_secret_file", "secret_files.links"),
    fixed("lost_after", "45s"),
    fixed("max_fields", "256"),
    fixed("max_files", "1000"),
    fixed("nats_ack_wait", "the lease, 15s at least"),
    key("nats_ca_file", "tls.nats.ca_file"),
    key("nats_cert_file", "tls.nats.cert_file"),
    key("nats_credentials_file", "secret_files.nats"),
    key("nats_key_file", "tls.nats.key_file"),
    fixed("nats_max_message_bytes", "262144"),
    key("nats_nkey_file", "secret_files.nats"),
    key("nats_password_file", "secret_files.nats"),
    key("nats_token_file", "secret_files.nats"),
    key("objects_credentials_file", "secret_files.objects"),
    fixed("offer_after", "1m"),
    key("otlp_ca_file", "tls.collector.ca_file"),
    key("otlp_token_file", "secret_files.collector"),
    key("redis_ca_file", "tls.redis.ca_file"),
    key("redis_cert_file", "tls.redis.cert_file"),
    key("redis_file", "secret_files.redis"),
    key("redis_key_file", "tls.redis.key_file"),
    key("redis_password_file", "secret_files.redis"),
    fixed(
        "redis_prefix",
        "`nats_prefix` where that is set, else `counterstep`; set it where several installations share a Redis server",
    ),
    key("seal_secret_file", "secret_files.seal"),
    fixed("spool_max_age", "1d"),
    fixed("spool_max_bytes", "268435456"),
    fixed(
        "trace_spans",
        "spans of the target `counterstep::traces` are exported, the program's own too",
    ),
    fixed("uploads_per_caller", "as many as `streams_per_caller`"),
    key("webhook_secret_file", "secret_files.webhooks"),
];

const fn fixed(key: &'static str, value: &'static str) -> Former {
    Former {
        key,
        now: Now::Fixed(value),
    }
}

const fn key(former: &'static str, key: &'static str) -> Former {
    Former {
        key: former,
        now: Now::Key(key),
    }
}

const fn flag(key: &'static str, flag: &'static str) -> Former {
    Former {
        key,
        now: Now::Flag(flag),
    }
}

/// The former setting of this key, if there was one.
pub(super) fn find(key: &str) -> Option<&'static Former> {
    FORMER.iter().find(|former| former.key == key)
}

impl Former {
    /// Why a file with it is refused.
    pub(super) fn in_file(&self) -> String {
        format!(
            "removed setting `{}`: {}; {UPGRADE}",
            self.key,
            self.instead()
        )
    }

    /// Why the variable is refused.
    pub(super) fn as_variable(&self) -> String {
        let variable = format!("COUNTERSTEP_{}", self.key.to_ascii_uppercase());
        format!("removed variable `{variable}`: {}", self.instead())
    }

    /// What stands in its place.
    fn instead(&self) -> String {
        match &self.now {
            Now::Fixed(value) => format!("the value is fixed: {value}"),
            Now::Key(key) => {
                let usual = match key.strip_prefix("secret_files.") {
                    Some(name) => format!("the file `{name}` in the folder `secrets_dir`"),
                    None => {
                        let name = key.rsplit('.').next().unwrap_or_default();
                        format!("`{name}` of all servers")
                    }
                };
                format!("use {usual}, or `{key}` in the settings file")
            }
            Now::Flag(flag) => format!("use `{flag}`"),
        }
    }

    /// What an upgrade has done with it.
    pub(super) fn change(&self) -> String {
        match &self.now {
            Now::Fixed(_) | Now::Flag(_) => format!("removed `{}`: {}", self.key, self.instead()),
            Now::Key(key) => format!("renamed `{}` to `{key}`", self.key),
        }
    }

    /// The flag, which the parser refuses with these words in place of "unexpected argument".
    fn arg(&'static self) -> Arg {
        Arg::new(self.key)
            .long(self.key.replace('_', "-"))
            .value_parser(|_: &str| Err::<String, _>(self.instead()))
            .num_args(0..=1)
            .default_missing_value("")
            .hide(true)
            .global(true)
    }
}

/// The flags.
pub(super) fn args() -> impl Iterator<Item = Arg> {
    FORMER.iter().map(Former::arg)
}

/// The error without the flag that it proposes, where that is a former one. The parser looks among hidden flags too.
#[must_use]
pub fn without_former(mut error: clap::Error) -> clap::Error {
    let is_former = match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(flag)) => {
            find(&flag.trim_start_matches('-').replace('-', "_")).is_some()
        }
        _ => false,
    };
    if is_former {
        error.remove(ContextKind::SuggestedArg);
        // It names the same flag.
        error.remove(ContextKind::Usage);
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{SETTINGS, SettingValues, SettingsFor, commands};
    use clap::{Args, Command};

    #[test]
    fn a_former_name_is_refused_in_the_file_as_a_variable_and_as_a_flag() {
        for former in FORMER {
            let key = former.key;
            let lines = format!("data_dir = \"x\"\n{key} = \"secret\"\n");
            let error = toml::from_str::<SettingValues>(&lines).expect_err(key);
            assert_eq!(error.message(), former.in_file());
            assert!(former.in_file().contains("settings upgrade FILE"), "{key}");

            let flag = format!("--{}", key.replace('_', "-"));
            for given in [vec![flag.as_str(), "1"], vec![flag.as_str()]] {
                let command = SettingsFor::<{ commands::DATABASE_ONLY }>::augment_args(
                    Command::new("x").no_binary_name(true),
                );
                let error = command.try_get_matches_from(given).expect_err(key);
                assert!(
                    error.to_string().contains(&former.instead()),
                    "{key}: {error}"
                );
            }
        }
    }

    #[test]
    fn a_former_flag_is_no_tip_for_another_mistake_and_a_flag_that_there_is_stays_one() {
        let tipped = |flag: &str| {
            let command = SettingsFor::<{ commands::WORKER }>::augment_args(
                Command::new("x").no_binary_name(true),
            );
            let error = command.try_get_matches_from([flag, "1"]).expect_err(flag);
            (error.to_string(), without_former(error).to_string())
        };
        let (before, after) = tipped("--listen");
        assert!(before.contains("--link-secret-file"), "{before}");
        assert!(
            after.contains("'--listen'") && !after.contains("--link-secret-file"),
            "{after}"
        );
        let (before, after) = tipped("--leese");
        assert!(after.contains("--lease"), "{after}");
        assert_eq!(before, after);
    }

    #[test]
    fn a_name_is_a_setting_or_a_former_one_and_stands_once() {
        for (at, former) in FORMER.iter().enumerate() {
            let is_setting = SETTINGS.iter().any(|setting| setting.key == former.key);
            let is_twice = FORMER[..at].iter().any(|other| other.key == former.key);
            assert!(!is_setting && !is_twice, "{}", former.key);
        }
    }

    #[test]
    fn what_is_said_to_be_fixed_is_what_the_program_does() {
        use counterstep_contracts::retry::format_duration;
        use counterstep_kernel::EngineSettings;
        use counterstep_kernel::access::access_tokens::TokenRules;
        let engine = EngineSettings::default();
        let (time, tokens) = (format_duration, TokenRules::new("", ""));
        let algorithms: Vec<_> = tokens.algorithms.iter().map(|it| it.as_str()).collect();
        let mut values = vec![
            ("cancel_grace", time(engine.cancel_grace)),
            ("hung_after", time(engine.hung_after)),
            ("lost_after", time(engine.lost_after)),
            ("spool_max_age", time(engine.spool_max_age)),
            ("jwt_algorithms", algorithms.join(", ")),
            ("jwt_leeway", time(tokens.leeway)),
            (
                "spool_max_bytes",
                crate::settings::SPOOL_MAX_BYTES.to_string(),
            ),
        ];
        #[cfg(feature = "servers")]
        {
            let nats = counterstep_adapters::nats::NatsOptions::new("");
            values.push(("nats_max_message_bytes", nats.max_message_bytes.to_string()));
            let prefix = counterstep_adapters::redis::RedisOptions::at("").prefix;
            let prefix = format!(
                "`nats_prefix` where that is set, else `{prefix}`; set it where several installations share a Redis server"
            );
            values.push(("redis_prefix", prefix));
        }
        for (key, value) in values {
            let Some(Now::Fixed(said)) = find(key).map(|it| &it.now) else {
                panic!("{key}")
            };
            assert_eq!(*said, value, "{key}");
        }
    }
}
