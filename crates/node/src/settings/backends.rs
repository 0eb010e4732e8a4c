//! Where the database, the messages and the objects are: a file and folders of this machine, or
//! servers.

use super::logins::without_login;
use counterstep_adapters::client_certificate::ClientCertificate;
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

    /// The whole URL, for the code that connects.
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
        f.write_str(&without_login(&self.0))
    }
}

/// A server and how to be let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Where; for several servers of one kind, separated by commas.
    pub url: SecretUrl,
    /// PEM file with the authorities that its certificate may come from.
    pub ca_file: Option<PathBuf>,
    /// What proves this program to it.
    pub certificate: Option<ClientCertificate>,
    /// File with the password.
    pub secret_file: Option<PathBuf>,
    /// File with the whole URL, where that holds a password.
    pub url_file: Option<PathBuf>,
}

impl Server {
    /// One that asks for nothing.
    #[must_use]
    pub const fn at(url: String) -> Self {
        Self {
            url: SecretUrl::new(url),
            ca_file: None,
            certificate: None,
            secret_file: None,
            url_file: None,
        }
    }
}

/// NATS, and what to keep there. `None` everywhere: the adapter's default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatsBackend {
    /// Where; several of a cluster with commas between them.
    pub url: SecretUrl,
    /// PEM file with the authorities that its certificate may come from.
    pub ca_file: Option<PathBuf>,
    /// What proves this program to it, beside the login.
    pub certificate: Option<ClientCertificate>,
    /// Who this program is there.
    pub login: NatsLogin,
    /// Its monitoring address.
    pub monitor: Option<String>,
    /// Starts every stream, consumer and subject.
    pub prefix: Option<String>,
    /// Creates streams, and the consumers of all queues.
    pub create_streams: bool,
    /// Copies of each stream.
    pub replicas: Option<usize>,
}

impl NatsBackend {
    /// One that asks for nothing, with the defaults.
    #[must_use]
    pub const fn at(url: String) -> Self {
        Self {
            url: SecretUrl::new(url),
            ca_file: None,
            certificate: None,
            login: NatsLogin::None,
            monitor: None,
            prefix: None,
            create_streams: true,
            replicas: None,
        }
    }
}

/// Who this program is for NATS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NatsLogin {
    /// The server asks for nothing, or for a certificate alone.
    None,
    /// A user and a file with the password.
    User {
        /// The user.
        user: String,
        /// The file.
        password_file: PathBuf,
    },
    /// A file with credentials (`.creds`), the seed of an nkey, or a token.
    Secret(PathBuf),
}

/// Redis, and how keys begin there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisBackend {
    /// The servers.
    pub server: Server,
    /// Starts every key; `None`: the adapter's default.
    pub prefix: Option<String>,
}

/// How a PostgreSQL server is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatabaseUse {
    /// Connections at most, 1 or more.
    pub connections: usize,
    /// Whether statements are prepared on each connection.
    pub prepared_statements: bool,
}

impl Default for DatabaseUse {
    fn default() -> Self {
        Self {
            connections: 24,
            prepared_statements: true,
        }
    }
}

/// Where the tasks are stored.
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
pub enum ObjectBackend {
    /// A folder of this machine.
    Folder(PathBuf),
    /// Buckets of a server.
    Server {
        /// `s3://BUCKET/PREFIX?…` or `az://CONTAINER/PREFIX?…`
        url: SecretUrl,
        /// File with the keys; without it, and without one in the URL, they come from the variables
        /// that are usual for the server.
        credentials_file: Option<PathBuf>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_shown() {
        let url = SecretUrl("postgres://me:se/cret@db:5/x?password=secret".to_owned());
        assert!(!format!("{url} {url:?}").contains("secret"), "{url}");
        let url = SecretUrl("redis://:secret@host:1/0".to_owned());
        assert_eq!(url.to_string(), "redis://host:1");
    }
}
