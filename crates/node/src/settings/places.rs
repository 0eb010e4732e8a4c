//! Where the truth, the messages and the objects live: a file and folders of this machine, or servers.

use crate::exit::Exit;
use std::fmt;
use std::path::PathBuf;

/// A URL that may hold a password: it is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretUrl(String);

impl SecretUrl {
    /// Of a URL that a program has made itself.
    #[must_use]
    pub const fn new(url: String) -> Self {
        Self(url)
    }

    /// The whole URL, for whoever connects.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Scheme and host, without user and password.
impl fmt::Display for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, rest) = self.0.split_once("://").unwrap_or(("", &self.0));
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        write!(f, "{scheme}://{host}")
    }
}

/// A server and how to be let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Where; for several servers of one kind, separated by commas.
    pub url: SecretUrl,
    /// PEM file with the authorities that its certificate may come from.
    pub ca_file: Option<PathBuf>,
    /// File with the password; for NATS with the credentials.
    pub secret_file: Option<PathBuf>,
}

/// Where the truth is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Database {
    /// A file of this machine. The queue is in it too.
    Sqlite(PathBuf),
    /// PostgreSQL. The queue is NATS.
    Postgres(Server),
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "{}", path.display()),
            Self::Postgres(server) => write!(f, "{}", server.url),
        }
    }
}

/// Where objects are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectPlace {
    /// A folder of this machine.
    Folder(PathBuf),
    /// Buckets of an S3 server: `s3://BUCKET/PREFIX?…`. Credentials come from the usual `AWS_*` variables.
    S3(SecretUrl),
}

/// Flags, variables and keys of the places, merged.
#[derive(Debug, Default)]
pub(super) struct Given {
    pub(super) database: Option<String>,
    pub(super) database_ca_file: Option<PathBuf>,
    pub(super) database_password_file: Option<PathBuf>,
    pub(super) nats: Option<String>,
    pub(super) nats_ca_file: Option<PathBuf>,
    pub(super) nats_credentials_file: Option<PathBuf>,
    pub(super) redis: Option<String>,
    pub(super) redis_ca_file: Option<PathBuf>,
    pub(super) redis_password_file: Option<PathBuf>,
    pub(super) objects: Option<String>,
    pub(super) data_dir: PathBuf,
}

/// The places, checked against each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) database: Database,
    pub(super) nats: Option<Server>,
    pub(super) redis: Option<Server>,
    pub(super) objects: ObjectPlace,
}

impl Given {
    pub(super) fn check(self) -> Result<Places, Exit> {
        let database = match self.database {
            None => Database::Sqlite(self.data_dir.join("counterstep.db")),
            Some(url) => match scheme("database", &url, &["sqlite", "postgres", "postgresql"])? {
                "sqlite" => Database::Sqlite(path("database", &url)?),
                _ => Database::Postgres(server(url, self.database_ca_file, self.database_password_file)),
            },
        };
        let nats = self.nats.map(|url| {
            each(&url, |url| scheme("nats", url, &["nats", "tls"]).map(|_| ()))?;
            Ok(server(url, self.nats_ca_file, self.nats_credentials_file))
        });
        let redis = self.redis.map(|url| {
            each(&url, |url| scheme("redis", url, &["redis", "rediss"]).map(|_| ()))?;
            Ok(server(url, self.redis_ca_file, self.redis_password_file))
        });
        let objects = match self.objects {
            None => ObjectPlace::Folder(self.data_dir.join("objects")),
            Some(url) => match scheme("objects", &url, &["file", "s3"])? {
                "file" => ObjectPlace::Folder(path("objects", &url)?),
                _ => ObjectPlace::S3(SecretUrl(url)),
            },
        };
        let (nats, redis): (Option<Server>, Option<Server>) = (nats.transpose()?, redis.transpose()?);
        match (&database, &nats) {
            (Database::Sqlite(_), Some(_)) => Err(Exit::config(
                "setting `nats`: an SQLite file carries its messages itself: leave --nats out, or set --database \
                 postgres://…",
            )),
            _ => Ok(Places { database, nats, redis, objects }),
        }
    }
}

fn server(url: String, ca_file: Option<PathBuf>, secret_file: Option<PathBuf>) -> Server {
    Server { url: SecretUrl(url), ca_file, secret_file }
}

fn each(urls: &str, check: impl Fn(&str) -> Result<(), Exit>) -> Result<(), Exit> {
    urls.split(',').try_for_each(check)
}

/// The URL's scheme, one of those that are known. The value is not repeated: it may hold a password.
fn scheme<'a>(name: &str, url: &'a str, known: &[&str]) -> Result<&'a str, Exit> {
    match url.split_once("://") {
        Some((scheme, rest)) if known.contains(&scheme) && (scheme == "s3" || !rest.is_empty()) => Ok(scheme),
        _ => {
            let known: Vec<_> = known.iter().map(|scheme| format!("{scheme}://…")).collect();
            Err(Exit::config(format_args!(
                "setting `{name}`: expected {}; no other scheme is known",
                known.join(" or ")
            )))
        }
    }
}

fn path(name: &str, url: &str) -> Result<PathBuf, Exit> {
    match url.split_once("://") {
        Some((_, path)) if !path.is_empty() => Ok(PathBuf::from(path)),
        _ => Err(Exit::config(format_args!("setting `{name}`: expected a path behind the scheme"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given() -> Given {
        Given { data_dir: PathBuf::from("d"), ..Given::default() }
    }

    #[test]
    fn without_settings_everything_is_in_the_data_folder() {
        let places = given().check().unwrap();
        assert_eq!(places.database, Database::Sqlite("d/counterstep.db".into()));
        assert_eq!(places.objects, ObjectPlace::Folder("d/objects".into()));
    }

    #[test]
    fn sqlite_has_no_use_for_nats() {
        let nats = Some("nats://a:4222,nats://b:4222".to_owned());
        assert!(Given { nats: nats.clone(), ..given() }.check().is_err());
        let postgres = Some("postgres://me@db/x".to_owned());
        assert!(Given { database: postgres, nats, ..given() }.check().is_ok());
    }

    #[test]
    fn a_password_is_not_repeated() {
        let error = Given { database: Some("mysql://me:secret@db".into()), ..given() }.check().unwrap_err();
        assert!(!error.message.contains("secret"), "{error}");
        let url = SecretUrl("postgres://me:se/cret@db:5/x?password=secret".to_owned());
        assert!(!format!("{url} {url:?}").contains("secret"), "{url}");
        let url = SecretUrl("redis://:secret@host:1/0".to_owned());
        assert_eq!(url.to_string(), "redis://host:1");
    }
}
