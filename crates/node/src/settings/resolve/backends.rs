//! Which of two layers counts for a server, flags and variables or the settings file, and whether
//! they fit together. Must not connect to anything.

use super::tls::Tls;
use crate::exit::Exit;
use crate::settings::backends::{
    Database, NatsBackend, NatsLogin, ObjectBackend, RedisBackend, SecretUrl, Server,
};
use crate::settings::layers::Layers;
use crate::settings::secrets::Secret;
use crate::settings::tls::TlsServer;
use crate::settings::urls::{Url, UrlPlaces, each, path, scheme};
use std::path::Path;

/// The backends, checked against each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Backends {
    pub(super) database: Database,
    pub(super) nats: Option<NatsBackend>,
    pub(super) redis: Option<RedisBackend>,
    pub(super) objects: ObjectBackend,
}

impl Backends {
    pub(super) fn of(given: &Layers, data_dir: &Path) -> Result<Self, Exit> {
        let places = UrlPlaces {
            name: "database",
            secret: Secret::Database,
            first: given.first.database.clone(),
            file: given.file.database.clone(),
        };
        let database = match Url::of(given, places)? {
            // A password is for a server: a file in its place would take the tasks of an installation that forgot its address.
            None if given.secret_file(Secret::Database)?.is_some() => {
                return Err(Exit::config(
                    "secret `database`: it is a password, and `database` is not set; expected the URL of the server there",
                ));
            }
            None => Database::Sqlite(data_dir.join("counterstep.db")),
            Some(url) => {
                match scheme("database", &url.text, &["sqlite", "postgres", "postgresql"])? {
                    "sqlite" => Database::Sqlite(path("database", &url.text)?),
                    _ => {
                        let tls = given.tls_of(TlsServer::Database, &url.text)?;
                        Database::Postgres(server(url, tls))
                    }
                }
            }
        };
        let places = UrlPlaces {
            name: "redis",
            secret: Secret::Redis,
            first: given.first.redis.clone(),
            file: given.file.redis.clone(),
        };
        let redis = match Url::of(given, places)? {
            None => None,
            Some(url) => Some(redis(given, url)?),
        };
        let objects = match given.objects()? {
            None => ObjectBackend::Folder(data_dir.join("objects")),
            Some(url) => match scheme("objects", &url, &["file", "s3", "az"])? {
                "file" => ObjectBackend::Folder(path("objects", &url)?),
                _ => ObjectBackend::Server {
                    url: SecretUrl::new(url),
                    credentials_file: given.secret_file(Secret::Objects)?,
                },
            },
        };
        let nats = nats(given)?;
        if matches!(database, Database::Sqlite(_)) && nats.is_some() {
            return Err(Exit::config(
                "setting `nats`: an SQLite file carries its messages itself: leave --nats out, or set --database \
                 postgres://…",
            ));
        }
        Ok(Self {
            database,
            nats,
            redis,
            objects,
        })
    }
}

fn server(url: Url, tls: Tls) -> Server {
    Server {
        url: SecretUrl::new(url.text),
        ca_file: tls.ca_file,
        certificate: tls.certificate,
        secret_file: url.password_file,
        url_file: url.file,
    }
}

fn redis(given: &Layers, url: Url) -> Result<RedisBackend, Exit> {
    each(&url.text, |url| {
        scheme("redis", url, &["redis", "rediss"]).map(|_| ())
    })?;
    let tls = given.tls_of(TlsServer::Redis, &url.text)?;
    let server = server(url, tls);
    Ok(RedisBackend {
        server,
        // One name of the installation for both servers.
        prefix: given.nats_prefix()?,
    })
}

fn nats(given: &Layers) -> Result<Option<NatsBackend>, Exit> {
    let Some(url) = given.nats()? else {
        return Ok(None);
    };
    each(&url, |url| {
        scheme("nats", url, &["nats", "tls"]).map(|_| ())
    })?;
    let tls = given.tls_of(TlsServer::Nats, &url)?;
    Ok(Some(NatsBackend {
        url: SecretUrl::new(url),
        ca_file: tls.ca_file,
        certificate: tls.certificate,
        login: login(given)?,
        monitor: given.nats_monitor()?,
        prefix: given.nats_prefix()?,
        create_streams: given.nats_create_streams()?,
        replicas: Some(given.nats_replicas()?),
    }))
}

/// Who this program is for NATS.
fn login(given: &Layers) -> Result<NatsLogin, Exit> {
    let user = given.nats_user()?.filter(|user| !user.is_empty());
    match (user, given.secret_file(Secret::Nats)?) {
        (None, None) => Ok(NatsLogin::None),
        (None, Some(file)) => Ok(NatsLogin::Secret(file)),
        (Some(user), Some(password_file)) => Ok(NatsLogin::User {
            user,
            password_file,
        }),
        (Some(_), None) => Err(Exit::config(
            "setting `nats_user`: the secret `nats` is missing; expected the password of the user: a file `nats` in \
             `secrets_dir`, or `secret_files.nats`",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SettingValues;

    fn backends(flags: SettingValues, file: SettingValues) -> Result<Backends, Exit> {
        let given = Layers {
            first: flags,
            file,
            uses: crate::settings::commands::DEV,
            ..Layers::default()
        };
        Backends::of(&given, Path::new("d"))
    }

    fn values(text: &str) -> SettingValues {
        toml::from_str(text).expect(text)
    }

    fn on_postgres() -> SettingValues {
        values("database = \"postgres://service@db/x\"\nnats = \"nats://a:4222,nats://b:4222\"\n")
    }

    /// A folder with secrets, and the settings that name it.
    fn with_secrets(secrets: &[(&str, &str)]) -> (tempfile::TempDir, SettingValues) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in secrets {
            std::fs::write(folder.path().join(name), format!("{text}\n")).unwrap();
        }
        let values = SettingValues {
            secrets_dir: Some(folder.path().to_owned()),
            ..on_postgres()
        };
        (folder, values)
    }

    #[test]
    fn without_settings_everything_is_in_the_data_folder() {
        let backends = backends(SettingValues::default(), SettingValues::default()).unwrap();
        assert_eq!(
            backends.database,
            Database::Sqlite("d/counterstep.db".into())
        );
        assert_eq!(backends.objects, ObjectBackend::Folder("d/objects".into()));
    }

    #[test]
    fn sqlite_has_no_use_for_nats() {
        assert!(
            backends(
                SettingValues {
                    database: None,
                    ..on_postgres()
                },
                SettingValues::default()
            )
            .is_err()
        );
        assert!(backends(on_postgres(), SettingValues::default()).is_ok());
    }

    #[test]
    fn a_password_is_not_repeated() {
        let wrong = SettingValues {
            database: Some("mysql://me:secret@db".into()),
            ..SettingValues::default()
        };
        let error = backends(wrong, SettingValues::default()).unwrap_err();
        assert!(!error.message.contains("secret"), "{error}");
    }

    fn server_of(flags: SettingValues, file: SettingValues) -> Server {
        match backends(flags, file).unwrap().database {
            Database::Postgres(server) => server,
            Database::Sqlite(path) => panic!("{}", path.display()),
        }
    }

    #[test]
    fn a_url_that_brings_its_own_password_leaves_the_secret_alone() {
        let (folder, file) = with_secrets(&[("database", "pw")]);
        let secret = Some(folder.path().join("database"));
        assert_eq!(
            server_of(SettingValues::default(), file.clone()).secret_file,
            secret
        );
        let flag = |url: &str| SettingValues {
            database: Some(url.to_owned()),
            ..SettingValues::default()
        };
        let other = server_of(flag("postgres://service@other/x"), file.clone());
        assert_eq!(other.secret_file, secret);
        // Not even read: the owner of the tables may not be able to.
        std::fs::remove_file(folder.path().join("database")).unwrap();
        std::fs::create_dir(folder.path().join("database")).unwrap();
        for owner in [
            "postgres://owner:pw@db/x",
            "postgres://owner@db/x?sslmode=require&password=pw",
        ] {
            let server = server_of(flag(owner), file.clone());
            assert_eq!((server.secret_file, server.url_file), (None, None));
        }
    }

    #[test]
    fn a_secret_is_a_whole_url_or_the_password_of_the_url_that_is_set() {
        let (folder, file) = with_secrets(&[
            ("database", "postgres://me:hunter2@db/y"),
            ("redis", "redis://cache:6379"),
        ]);
        let alone = SettingValues {
            database: None,
            ..file.clone()
        };
        let server = server_of(SettingValues::default(), alone.clone());
        assert_eq!(server.url.expose(), "postgres://me:hunter2@db/y");
        assert_eq!(server.url_file, Some(folder.path().join("database")));
        let redis = backends(SettingValues::default(), alone.clone()).unwrap();
        let redis = redis.redis.unwrap().server;
        assert_eq!(
            (redis.url.expose(), redis.url_file),
            ("redis://cache:6379", None)
        );
        let both = backends(SettingValues::default(), file).unwrap_err();
        assert!(both.message.contains("expected one of them"), "{both}");
        assert!(!both.message.contains("hunter2"), "{both}");
        let flag = values("database = \"postgres://other@db/z\"");
        let server = server_of(flag, alone);
        assert_eq!(server.url.expose(), "postgres://other@db/z");
        assert_eq!((server.secret_file, server.url_file), (None, None));

        let (_folder, file) = with_secrets(&[("database", "hun/ter2"), ("redis", "pw")]);
        let alone = SettingValues {
            database: None,
            nats: None,
            ..file.clone()
        };
        let refused = backends(SettingValues::default(), alone).unwrap_err();
        assert!(
            refused.message.contains("`database` is not set"),
            "{refused}"
        );
        let backends = backends(SettingValues::default(), file).unwrap();
        assert_eq!(backends.redis, None, "a password alone is no server");
    }

    #[test]
    fn a_login_for_nats_is_a_user_with_a_password_or_the_secret_itself() {
        let login = |flags: SettingValues, file: SettingValues| {
            backends(flags, file).map(|it| it.nats.unwrap().login)
        };
        let (folder, file) = with_secrets(&[("nats", "x")]);
        let secret = folder.path().join("nats");
        assert_eq!(
            login(SettingValues::default(), file.clone()).unwrap(),
            NatsLogin::Secret(secret.clone())
        );
        // As pods have it: the user of each in a variable.
        let user = NatsLogin::User {
            user: "me".to_owned(),
            password_file: secret,
        };
        let me = || values("nats_user = \"me\"");
        assert_eq!(login(me(), file).unwrap(), user);
        assert_eq!(
            login(SettingValues::default(), on_postgres()).unwrap(),
            NatsLogin::None
        );
        let half = login(me(), on_postgres()).unwrap_err();
        assert!(half.message.contains("`secret_files.nats`"), "{half}");
    }

    #[test]
    fn the_prefix_of_nats_begins_the_keys_of_redis_also_where_there_is_no_nats() {
        let prefix = |text: &str| {
            let given = backends(values(text), values("redis = \"redis://r\""));
            given.unwrap().redis.unwrap().prefix
        };
        assert_eq!(prefix("nats_prefix = \"prod\"").as_deref(), Some("prod"));
        assert_eq!(prefix(""), None, "that of the adapter");
    }

    #[test]
    fn what_no_server_takes_is_refused() {
        for wrong in [
            SettingValues {
                nats_prefix: Some("a.b".into()),
                ..on_postgres()
            },
            SettingValues {
                nats_prefix: Some(String::new()),
                redis: Some("redis://r".into()),
                ..SettingValues::default()
            },
            SettingValues {
                nats_replicas: Some(0),
                ..on_postgres()
            },
        ] {
            let error =
                backends(wrong.clone(), SettingValues::default()).expect_err(&format!("{wrong:?}"));
            assert!(
                error.message.contains("expected") || error.message.contains("no duration"),
                "{error}"
            );
        }
    }
}
