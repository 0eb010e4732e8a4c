//! Files with secrets that other users of the machine can read. They are named and not refused:
//! mounted secrets of containers have such modes by default, and no other user sees them there
//! (`docs/decisions/0047-settings.md`).

use crate::settings::{Database, NatsLogin, ObjectBackend, Settings};
use counterstep_adapters::client_certificate::ClientCertificate;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A file with a secret that is open to others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenSecret {
    /// The setting that names it.
    pub(crate) setting: String,
    /// Where it is.
    pub(crate) file: String,
    /// Its permission bits in octal.
    pub(crate) mode: String,
}

/// All of them. A file that is missing is an error where it is read, and not here.
pub(crate) fn open_to_others(settings: &Settings) -> Vec<OpenSecret> {
    let mut files: Vec<(String, PathBuf)> = Vec::new();
    let mut add = |setting: &str, file: Option<&PathBuf>| {
        let named = file.map(|file| (setting.to_owned(), file.clone()));
        // One file may be for several servers.
        files.extend(named.filter(|named| !files.contains(named)));
    };
    add("config", settings.secret_config.as_ref());
    let key = |certificate: &'_ Option<ClientCertificate>| {
        certificate.as_ref().map(|both| both.key_file.clone())
    };
    if let Database::Postgres(server) = &settings.database {
        add("secret_files.database", server.secret_file.as_ref());
        add("secret_files.database", server.url_file.as_ref());
        add("key_file", key(&server.certificate).as_ref());
    }
    if let Some(nats) = &settings.nats {
        add("key_file", key(&nats.certificate).as_ref());
        match &nats.login {
            NatsLogin::None => {}
            NatsLogin::User {
                user: _,
                password_file,
            } => add("secret_files.nats", Some(password_file)),
            NatsLogin::Secret(file) => add("secret_files.nats", Some(file)),
        }
    }
    if let Some(redis) = &settings.redis {
        add("secret_files.redis", redis.server.secret_file.as_ref());
        add("secret_files.redis", redis.server.url_file.as_ref());
        add("key_file", key(&redis.server.certificate).as_ref());
    }
    if let ObjectBackend::Server {
        url,
        credentials_file,
    } = &settings.objects
    {
        add("secret_files.objects", credentials_file.as_ref());
        let parameters = url
            .expose()
            .split_once('?')
            .map_or("", |(_, parameters)| parameters)
            .split('&');
        let named = parameters
            .filter_map(|one| one.strip_prefix("credentials_file="))
            .map(PathBuf::from)
            .next();
        add("objects", named.as_ref());
    }
    add("secret_files.links", settings.link_secret_file.as_ref());
    add("secret_files.seal", settings.seal_secret_file.as_ref());
    add(
        "secret_files.webhooks",
        settings.webhook_secret_file.as_ref(),
    );
    let keys = settings.payload_keys.as_ref().map(std::fs::read_dir);
    for entry in keys.into_iter().flatten().flatten().flatten() {
        add("payload_keys", Some(&entry.path()));
    }
    if let Some(traces) = &settings.traces {
        add("secret_files.collector", traces.token_file.as_ref());
        for file in traces.header_files.values() {
            add("otlp_header_files", Some(file));
        }
    }
    for (name, service) in &settings.services {
        add(
            &format!("services.{name}.token_file"),
            service.token_file.as_ref(),
        );
        for file in service.header_files.values() {
            add(&format!("services.{name}.header_files"), Some(file));
        }
    }
    let open = |(setting, file): (String, PathBuf)| {
        let mode = std::fs::metadata(&file).ok()?.permissions().mode() & 0o7777;
        let found = OpenSecret {
            setting,
            file: file.display().to_string(),
            mode: format!("{mode:04o}"),
        };
        (mode & 0o007 != 0).then_some(found)
    };
    files.into_iter().filter_map(open).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SettingsArgs;
    use crate::settings::SettingValues;
    use std::fs::Permissions;
    use std::path::Path;

    fn open_file(folder: &Path, name: &str, text: &str) -> PathBuf {
        let file = folder.join(name);
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        file
    }

    #[test]
    fn files_with_whole_urls_count_where_a_password_is_in_them() {
        let folder = tempfile::tempdir().unwrap();
        let url =
            |name: &str, text: &str| open_file(folder.path(), name, text).display().to_string();
        let (secret, plain) = (
            url("secret", "postgres://me:pw@db/x"),
            url("plain", "redis://cache:6379"),
        );
        let keys = url("keys", "azure_storage_account_key = pw");
        let text = format!(
            "objects = \"az://container?account=files&credentials_file={keys}\"\nsecret_files.database = {secret:?}\nnats = \"nats://me:pw@bus:4222\"\nsecret_files.redis = {plain:?}\n"
        );
        let config = open_file(folder.path(), "settings.toml", &text);
        let args = SettingsArgs {
            values: SettingValues {
                config: Some(config),
                ..SettingValues::default()
            },
            ..SettingsArgs::default()
        };
        let settings = args.read().unwrap().resolve().unwrap();
        let found = open_to_others(&settings);
        let named: Vec<_> = found
            .iter()
            .map(|one| (one.setting.as_str(), one.mode.as_str()))
            .collect();
        assert_eq!(
            named,
            [
                ("config", "0644"),
                ("secret_files.database", "0644"),
                ("objects", "0644")
            ]
        );
    }
}
