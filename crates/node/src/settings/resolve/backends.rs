//! Which of two layers counts for a server, flags and variables or the settings file, and whether
//! they fit together. Must not connect to anything.

use crate::exit::Exit;
use crate::settings::backends::{
    Database, NatsBackend, NatsLogin, ObjectBackend, RedisBackend, SecretUrl, Server,
};
use crate::settings::layers::Layers;
use crate::settings::tls::TlsServer;
use crate::settings::urls::{Url, each, path, scheme};
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
        let database = match Url::of("database", given, |it| (&it.database, &it.database_file))? {
            None => Database::Sqlite(data_dir.join("counterstep.db")),
            Some(url) => {
                match scheme("database", &url.text, &["sqlite", "postgres", "postgresql"])? {
                    "sqlite" => Database::Sqlite(path("database", &url.text)?),
                    _ => {
                        let tls = given.tls_of(TlsServer::Database, &url.text)?;
                        Database::Postgres(Server {
                            secret_file: url.password_file(given, |it| &it.database_password_file),
                            url_file: url.secret_file(),
                            url: SecretUrl::new(url.text),
                            ca_file: tls.ca_file,
                            certificate: tls.certificate,
                        })
                    }
                }
            }
        };
        let redis = match Url::of("redis", given, |it| (&it.redis, &it.redis_file))? {
            None => None,
            Some(url) => Some(redis(given, url)?),
        };
        let objects = match given.objects()? {
            None => ObjectBackend::Folder(data_dir.join("objects")),
            Some(url) => match scheme("objects", &url, &["file", "s3", "az"])? {
                "file" => ObjectBackend::Folder(path("objects", &url)?),
                _ => ObjectBackend::Server {
                    url: SecretUrl::new(url),
                    credentials_file: given.objects_credentials_file()?,
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

fn redis(given: &Layers, url: Url) -> Result<RedisBackend, Exit> {
    each(&url.text, |url| {
        scheme("redis", url, &["redis", "rediss"]).map(|_| ())
    })?;
    let tls = given.tls_of(TlsServer::Redis, &url.text)?;
    let server = Server {
        secret_file: url.password_file(given, |it| &it.redis_password_file),
        url_file: url.secret_file(),
        url: SecretUrl::new(url.text),
        ca_file: tls.ca_file,
        certificate: tls.certificate,
    };
    Ok(RedisBackend {
        server,
        prefix: Some(given.redis_prefix()?),
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

/// Who this program is for NATS: one kind of login, of the first layer that has any.
fn login(given: &Layers) -> Result<NatsLogin, Exit> {
    for layer in [&given.first, &given.file] {
        let user = layer.nats_user.is_some() || layer.nats_password_file.is_some();
        let logins = [
            layer
                .nats_credentials_file
                .clone()
                .map(NatsLogin::Credentials),
            layer.nats_token_file.clone().map(NatsLogin::Token),
            layer.nats_nkey_file.clone().map(NatsLogin::Nkey),
        ];
        let mut logins: Vec<_> = logins.into_iter().flatten().collect();
        if user {
            // One half may stand in the file and the other in a variable.
            let user = given.nats_user()?;
            let password_file = given.nats_password_file()?;
            let (Some(user), Some(password_file)) = (user, password_file) else {
                return Err(Exit::config(
                    "settings `nats_user` and `nats_password_file`: one is there without the other; expected both",
                ));
            };
            logins.push(NatsLogin::User {
                user,
                password_file,
            });
        }
        match logins.len() {
            0 => {}
            1 => return Ok(logins.remove(0)),
            _ => {
                return Err(Exit::config(
                    "more than one login for NATS; expected one of `nats_credentials_file`, `nats_user` with \
                     `nats_password_file`, `nats_token_file`, `nats_nkey_file`",
                ));
            }
        }
    }
    Ok(NatsLogin::None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SettingValues;
    use std::path::PathBuf;

    fn backends(flags: SettingValues, file: SettingValues) -> Result<Backends, Exit> {
        let given = Layers {
            first: flags,
            file,
            ..Layers::default()
        };
        Backends::of(&given, Path::new("d"))
    }

    fn on_postgres() -> SettingValues {
        SettingValues {
            database: Some("postgres://service@db/x".to_owned()),
            database_password_file: Some("password".into()),
            nats: Some("nats://a:4222,nats://b:4222".to_owned()),
            ..SettingValues::default()
        }
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

    #[test]
    fn a_url_that_brings_its_own_password_leaves_the_password_file_of_the_settings_file_alone() {
        let secret_file = |database: &str, password_file: Option<&str>| {
            let flags = SettingValues {
                database: Some(database.to_owned()),
                database_password_file: password_file.map(PathBuf::from),
                ..SettingValues::default()
            };
            let Database::Postgres(server) = backends(flags, on_postgres()).unwrap().database
            else {
                panic!()
            };
            server.secret_file
        };
        for owner in [
            "postgres://owner:pw@db/x",
            "postgres://owner@db/x?sslmode=require&password=pw",
        ] {
            assert_eq!(secret_file(owner, None), None, "{owner}");
            assert_eq!(
                secret_file(owner, Some("other")),
                Some("other".into()),
                "{owner}"
            );
        }
        assert_eq!(
            secret_file("postgres://service@other/x", None),
            Some("password".into())
        );
    }

    #[test]
    fn a_login_for_nats_is_one_of_its_kinds_and_a_variable_comes_before_the_file() {
        let login = |flags: SettingValues, file: SettingValues| {
            backends(flags, file).map(|it| it.nats.unwrap().login)
        };
        let token = || SettingValues {
            nats_token_file: Some("t".into()),
            ..SettingValues::default()
        };
        let file = || SettingValues {
            nats_credentials_file: Some("c".into()),
            ..on_postgres()
        };
        assert_eq!(
            login(SettingValues::default(), file()).unwrap(),
            NatsLogin::Credentials("c".into())
        );
        assert_eq!(
            login(token(), file()).unwrap(),
            NatsLogin::Token("t".into())
        );
        let two = SettingValues {
            nats_credentials_file: Some("c".into()),
            ..token()
        };
        assert!(
            login(two, file())
                .unwrap_err()
                .message
                .contains("more than one login")
        );
        let half = SettingValues {
            nats_user: Some("me".into()),
            ..on_postgres()
        };
        assert!(
            login(SettingValues::default(), half.clone())
                .unwrap_err()
                .message
                .contains("nats_password_file")
        );
        let other = SettingValues {
            nats_password_file: Some("p".into()),
            ..SettingValues::default()
        };
        let user = NatsLogin::User {
            user: "me".into(),
            password_file: "p".into(),
        };
        assert_eq!(login(other, half).unwrap(), user);
    }

    #[test]
    fn what_no_server_takes_is_refused() {
        for wrong in [
            SettingValues {
                nats_prefix: Some("a.b".into()),
                ..on_postgres()
            },
            SettingValues {
                redis_prefix: Some(String::new()),
                redis: Some("redis://r".into()),
                ..on_postgres()
            },
            SettingValues {
                nats_replicas: Some(0),
                ..on_postgres()
            },
            SettingValues {
                database_file: Some("f".into()),
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
