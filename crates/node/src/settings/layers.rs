//! Which of two layers counts for a server, flags and variables or the settings file, and whether
//! they fit together. Must not connect to anything.

mod urls;

use super::places::{Database, NatsLogin, NatsPlace, ObjectPlace, RedisPlace, SecretUrl, Server};
use super::{ServerArgs, duration};
use crate::exit::Exit;
use counterstep_adapters::client_certificate::ClientCertificate;
use std::path::{Path, PathBuf};
use urls::{Url, each, has_password, path, scheme};

/// The places, checked against each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) database: Database,
    pub(super) nats: Option<NatsPlace>,
    pub(super) redis: Option<RedisPlace>,
    pub(super) objects: ObjectPlace,
}

impl Places {
    /// Of flags and variables, which come `first`, and of the file.
    pub(super) fn of(first: ServerArgs, file: ServerArgs, data_dir: &Path) -> Result<Self, Exit> {
        let database = match Url::of("database", [&first, &file], |it| {
            (&it.database, &it.database_file)
        })? {
            None => Database::Sqlite(data_dir.join("counterstep.db")),
            Some(url) => {
                match scheme("database", &url.text, &["sqlite", "postgres", "postgresql"])? {
                    "sqlite" => Database::Sqlite(path("database", &url.text)?),
                    _ => Database::Postgres(Server {
                        secret_file: url.password_file(
                            &first.database_password_file,
                            &file.database_password_file,
                        ),
                        url_file: url.secret_file(),
                        url: SecretUrl::new(url.text),
                        ca_file: either(&first.database_ca_file, &file.database_ca_file),
                        certificate: certificate("database", [&first, &file], |it| {
                            (&it.database_cert_file, &it.database_key_file)
                        })?,
                    }),
                }
            }
        };
        let redis =
            Url::of("redis", [&first, &file], |it| (&it.redis, &it.redis_file))?.map(|url| {
                each(&url.text, |url| {
                    scheme("redis", url, &["redis", "rediss"]).map(|_| ())
                })?;
                let server = Server {
                    secret_file: url
                        .password_file(&first.redis_password_file, &file.redis_password_file),
                    url_file: url.secret_file(),
                    url: SecretUrl::new(url.text),
                    ca_file: either(&first.redis_ca_file, &file.redis_ca_file),
                    certificate: certificate("redis", [&first, &file], |it| {
                        (&it.redis_cert_file, &it.redis_key_file)
                    })?,
                };
                Ok(RedisPlace {
                    server,
                    prefix: prefix(
                        "redis_prefix",
                        either(&first.redis_prefix, &file.redis_prefix),
                    )?,
                })
            });
        let objects = match either(&first.objects, &file.objects) {
            None => ObjectPlace::Folder(data_dir.join("objects")),
            Some(url) => match scheme("objects", &url, &["file", "s3", "az"])? {
                "file" => ObjectPlace::Folder(path("objects", &url)?),
                _ => ObjectPlace::Server {
                    url: SecretUrl::new(url),
                    credentials_file: either(
                        &first.objects_credentials_file,
                        &file.objects_credentials_file,
                    ),
                },
            },
        };
        let nats = nats(&first, &file)?;
        if matches!(database, Database::Sqlite(_)) && nats.is_some() {
            return Err(Exit::config(
                "setting `nats`: an SQLite file carries its messages itself: leave --nats out, or set --database \
                 postgres://…",
            ));
        }
        Ok(Self {
            database,
            nats,
            redis: redis.transpose()?,
            objects,
        })
    }
}

fn nats(first: &ServerArgs, file: &ServerArgs) -> Result<Option<NatsPlace>, Exit> {
    let Some(url) = either(&first.nats, &file.nats) else {
        return Ok(None);
    };
    each(&url, |url| {
        scheme("nats", url, &["nats", "tls"]).map(|_| ())
    })?;
    let time = |name: &str, first: &Option<String>, file: &Option<String>| {
        either(first, file)
            .map(|text| duration(name, &text))
            .transpose()
    };
    let within =
        |name: &str, value: Option<usize>, range: std::ops::RangeInclusive<usize>| match value {
            Some(value) if !range.contains(&value) => Err(Exit::config(format_args!(
                "invalid setting `{name}`: {value}; expected {} to {}",
                range.start(),
                range.end()
            ))),
            value => Ok(value),
        };
    let size = either(&first.nats_max_message_bytes, &file.nats_max_message_bytes);
    Ok(Some(NatsPlace {
        url: SecretUrl::new(url),
        ca_file: either(&first.nats_ca_file, &file.nats_ca_file),
        certificate: certificate("nats", [first, file], |it| {
            (&it.nats_cert_file, &it.nats_key_file)
        })?,
        login: login(first, file)?,
        monitor: either(&first.nats_monitor, &file.nats_monitor),
        prefix: prefix("nats_prefix", either(&first.nats_prefix, &file.nats_prefix))?,
        ack_wait: time("nats_ack_wait", &first.nats_ack_wait, &file.nats_ack_wait)?,
        replicas: within(
            "nats_replicas",
            either(&first.nats_replicas, &file.nats_replicas),
            1..=5,
        )?,
        // The messages of this program itself have to fit: 16 KiB of outputs, and what is around
        // them.
        max_message_bytes: within("nats_max_message_bytes", size, 32 * 1024..=64 * 1024 * 1024)?,
        events_max_age: time(
            "events_max_age",
            &first.events_max_age,
            &file.events_max_age,
        )?,
    }))
}

/// Who this program is for NATS: one kind of login, of the first layer that has any.
fn login(first: &ServerArgs, file: &ServerArgs) -> Result<NatsLogin, Exit> {
    for layer in [first, file] {
        let user = layer.nats_user.is_some() || layer.nats_password_file.is_some();
        let given = [
            layer
                .nats_credentials_file
                .clone()
                .map(NatsLogin::Credentials),
            layer.nats_token_file.clone().map(NatsLogin::Token),
            layer.nats_nkey_file.clone().map(NatsLogin::Nkey),
        ];
        let mut given: Vec<_> = given.into_iter().flatten().collect();
        if user {
            // One half may stand in the file and the other in a variable.
            let user = either(&first.nats_user, &file.nats_user);
            let password_file = either(&first.nats_password_file, &file.nats_password_file);
            let (Some(user), Some(password_file)) = (user, password_file) else {
                return Err(Exit::config(
                    "settings `nats_user` and `nats_password_file`: one is there without the other; expected both",
                ));
            };
            given.push(NatsLogin::User {
                user,
                password_file,
            });
        }
        match given.len() {
            0 => {}
            1 => return Ok(given.remove(0)),
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

/// Whether any URL of a settings file holds a password, which makes the file itself a secret.
pub(super) fn is_secret(file: &ServerArgs) -> bool {
    [&file.database, &file.redis, &file.nats]
        .into_iter()
        .flatten()
        .any(|url| has_password(url))
}

fn either<T: Clone>(first: &Option<T>, file: &Option<T>) -> Option<T> {
    first.clone().or_else(|| file.clone())
}

fn certificate(
    name: &str,
    [first, file]: [&ServerArgs; 2],
    of: impl Fn(&ServerArgs) -> (&Option<PathBuf>, &Option<PathBuf>),
) -> Result<Option<ClientCertificate>, Exit> {
    let (cert_file, key_file) = (
        either(of(first).0, of(file).0),
        either(of(first).1, of(file).1),
    );
    match (cert_file, key_file) {
        (None, None) => Ok(None),
        (Some(cert_file), Some(key_file)) => Ok(Some(ClientCertificate {
            cert_file,
            key_file,
        })),
        _ => Err(Exit::config(format_args!(
            "settings `{name}_cert_file` and `{name}_key_file`: one is there without the other; expected both"
        ))),
    }
}

/// A prefix that is a name in NATS and Redis alike.
fn prefix(name: &str, given: Option<String>) -> Result<Option<String>, Exit> {
    let is_name = |text: &str| {
        (1..=64).contains(&text.len())
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
    };
    match given {
        Some(text) if !is_name(&text) => Err(Exit::config(format_args!(
            "invalid setting `{name}`: `{}`; expected 1 to 64 letters, digits, `_` and `-`",
            text.escape_debug()
        ))),
        given => Ok(given),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(flags: ServerArgs, file: ServerArgs) -> Result<Places, Exit> {
        Places::of(flags, file, Path::new("d"))
    }

    fn on_postgres() -> ServerArgs {
        ServerArgs {
            database: Some("postgres://service@db/x".to_owned()),
            database_password_file: Some("password".into()),
            nats: Some("nats://a:4222,nats://b:4222".to_owned()),
            ..ServerArgs::default()
        }
    }

    #[test]
    fn without_settings_everything_is_in_the_data_folder() {
        let places = places(ServerArgs::default(), ServerArgs::default()).unwrap();
        assert_eq!(places.database, Database::Sqlite("d/counterstep.db".into()));
        assert_eq!(places.objects, ObjectPlace::Folder("d/objects".into()));
    }

    #[test]
    fn sqlite_has_no_use_for_nats() {
        assert!(
            places(
                ServerArgs {
                    database: None,
                    ..on_postgres()
                },
                ServerArgs::default()
            )
            .is_err()
        );
        assert!(places(on_postgres(), ServerArgs::default()).is_ok());
    }

    #[test]
    fn a_password_is_not_repeated() {
        let wrong = ServerArgs {
            database: Some("mysql://me:secret@db".into()),
            ..ServerArgs::default()
        };
        let error = places(wrong, ServerArgs::default()).unwrap_err();
        assert!(!error.message.contains("secret"), "{error}");
    }

    #[test]
    fn a_url_that_brings_its_own_password_leaves_the_password_file_of_the_settings_file_alone() {
        let secret_file = |database: &str, password_file: Option<&str>| {
            let flags = ServerArgs {
                database: Some(database.to_owned()),
                database_password_file: password_file.map(PathBuf::from),
                ..ServerArgs::default()
            };
            let Database::Postgres(server) = places(flags, on_postgres()).unwrap().database else {
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
        let login = |flags: ServerArgs, file: ServerArgs| {
            places(flags, file).map(|it| it.nats.unwrap().login)
        };
        let token = || ServerArgs {
            nats_token_file: Some("t".into()),
            ..ServerArgs::default()
        };
        let file = || ServerArgs {
            nats_credentials_file: Some("c".into()),
            ..on_postgres()
        };
        assert_eq!(
            login(ServerArgs::default(), file()).unwrap(),
            NatsLogin::Credentials("c".into())
        );
        assert_eq!(
            login(token(), file()).unwrap(),
            NatsLogin::Token("t".into())
        );
        let two = ServerArgs {
            nats_credentials_file: Some("c".into()),
            ..token()
        };
        assert!(
            login(two, file())
                .unwrap_err()
                .message
                .contains("more than one login")
        );
        let half = ServerArgs {
            nats_user: Some("me".into()),
            ..on_postgres()
        };
        assert!(
            login(ServerArgs::default(), half.clone())
                .unwrap_err()
                .message
                .contains("nats_password_file")
        );
        let other = ServerArgs {
            nats_password_file: Some("p".into()),
            ..ServerArgs::default()
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
            ServerArgs {
                nats_prefix: Some("a.b".into()),
                ..on_postgres()
            },
            ServerArgs {
                redis_prefix: Some(String::new()),
                redis: Some("redis://r".into()),
                ..on_postgres()
            },
            ServerArgs {
                nats_replicas: Some(0),
                ..on_postgres()
            },
            ServerArgs {
                nats_max_message_bytes: Some(100),
                ..on_postgres()
            },
            ServerArgs {
                nats_ack_wait: Some("0s".into()),
                ..on_postgres()
            },
            ServerArgs {
                database_cert_file: Some("c".into()),
                ..on_postgres()
            },
            ServerArgs {
                database_file: Some("f".into()),
                ..on_postgres()
            },
        ] {
            let error =
                places(wrong.clone(), ServerArgs::default()).expect_err(&format!("{wrong:?}"));
            assert!(
                error.message.contains("expected") || error.message.contains("no duration"),
                "{error}"
            );
        }
    }
}
