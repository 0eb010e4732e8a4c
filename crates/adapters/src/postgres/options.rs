//! Where the server is, how it is spoken to, and within which limits. Must not open a connection.

use super::servers::{NotOpened, Servers};
use crate::client_certificate::ClientCertificate;
use counterstep_steps::error::chain;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use std::path::PathBuf;
use std::time::Duration;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How the server is used. The defaults are meant for use; tests shorten the limits.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// Connections at most. A few of them are for lists and counts alone, so that these never hold
    /// up a change.
    pub connections: usize,
    /// Statements are planned once on each connection, under their names. Not behind a pooler that
    /// gives each transaction another session: there each statement travels whole, the connection
    /// asks for no settings of its own, and limits and planner settings are those of the role.
    pub prepared_statements: bool,
    /// How long a call waits for a free connection.
    pub wait: Duration,
    /// How long a new connection may take.
    pub connect_timeout: Duration,
    /// How long the server may work on a statement. The server itself stops there.
    pub statement_timeout: Duration,
    /// How long a statement may wait for a lock; the server's limit, too.
    pub lock_timeout: Duration,
    /// How long a transaction may stay open while nothing comes; the server's limit, too.
    pub idle_in_transaction_timeout: Duration,
    /// What the server shows as `application_name`.
    pub application_name: String,
    /// A file with the password and nothing else; a line break at its end does not count. Wins over
    /// the URL's.
    pub password_file: Option<PathBuf>,
    /// A PEM file with the certificates to trust. Without it, those that the operating system
    /// trusts.
    pub ca_file: Option<PathBuf>,
    /// What proves us to the server, where it asks. Needs TLS.
    pub certificate: Option<ClientCertificate>,
    /// Speak in the clear to a server on another machine.
    pub allow_plaintext: bool,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            connections: 24,
            prepared_statements: true,
            wait: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(15),
            lock_timeout: Duration::from_secs(5),
            idle_in_transaction_timeout: Duration::from_secs(30),
            application_name: "counterstep".to_owned(),
            password_file: None,
            ca_file: None,
            certificate: None,
            allow_plaintext: false,
        }
    }
}

/// The database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL is none.
    #[error(
        "the database URL is not understood: {0}; expected postgres://user@host:port/name?sslmode=verify-full"
    )]
    Url(String),
    /// A server on another machine, and no encryption.
    #[error(
        "the database is on another machine (`{host}`) and the URL does not ask for encryption: add `sslmode=verify-full`, \
         or allow plain text in the settings"
    )]
    Plaintext {
        /// The host that is not this machine.
        host: String,
    },
    /// A file of the settings cannot be used.
    #[error("the file `{}` cannot be used: {why}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The reason, as text.
        why: String,
    },
    /// The server cannot be reached, or does not let us in.
    #[error("the database cannot be reached: {0}")]
    Connection(String),
    /// The server wants a password, and none is set.
    #[error(
        "the database wants a password of `{user}`, and none is set: give it in the file `database` of the folder \
         `secrets_dir`, or in the URL"
    )]
    NoPassword {
        /// The role of the URL.
        user: String,
    },
    /// The schema has not been brought up to date.
    #[error(
        "the database's schema is older than this program (version {found}, needed {needed}): run `counterstep migrate`"
    )]
    OlderSchema {
        /// Its last migration, or `none`.
        found: String,
        /// The last one of this program.
        needed: String,
    },
    /// A newer program has changed its schema. Nothing was written.
    #[error(
        "the database has schema version {version}, which this program does not know: use a newer program"
    )]
    NewerSchema {
        /// The migration that this program does not know.
        version: String,
    },
    /// A migration failed. It rolled back.
    #[error("the database's schema cannot be brought up to date: {0}")]
    Migration(String),
}

/// How to connect.
#[derive(Clone)]
pub(super) struct Target {
    config: tokio_postgres::Config,
    /// The same, one by one.
    pub(super) servers: Servers,
    pub(super) tls: Option<MakeRustlsConnect>,
    /// Whether statements are prepared under names.
    pub(super) prepares: bool,
    /// How long a new connection may take.
    pub(super) connect_timeout: Duration,
}

impl std::fmt::Debug for Target {
    // The configuration's own text leaves the password out, but a log needs only the hosts.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target")
            .field("hosts", &self.config.get_hosts())
            .finish_non_exhaustive()
    }
}

impl Target {
    /// Reads the URL, and the files that the options name.
    pub(super) fn of(url: &str, options: &PostgresOptions) -> Result<Self, OpenError> {
        // The driver knows `require` only. Our `require` checks the certificate and the name in it,
        // which is what other clients call `verify-full`.
        let url = url.replace("sslmode=verify-full", "sslmode=require");
        // The driver's words name a setting, never its value: no password gets into them.
        let mut config: tokio_postgres::Config =
            url.parse().map_err(|error| OpenError::Url(chain(&error)))?;
        if let Some(path) = &options.password_file {
            let password = std::fs::read_to_string(path).map_err(|error| file(path, &error))?;
            config.password(password.trim_end_matches(['\r', '\n']));
        }
        config
            .application_name(&options.application_name)
            .connect_timeout(options.connect_timeout)
            // Sent and not acknowledged: the other machine is gone.
            .tcp_user_timeout(options.statement_timeout + options.connect_timeout);
        if options.prepared_statements {
            let asked = config.get_options().unwrap_or_default().to_owned();
            config.options(format!("{} {asked}", settings(options)).trim());
        }
        let encrypted = config.get_ssl_mode() == SslMode::Require;
        if let Some(certificate) = options.certificate.as_ref().filter(|_| !encrypted) {
            return Err(file(
                &certificate.cert_file,
                &"the URL does not ask for encryption: add `sslmode=verify-full`",
            ));
        }
        if !encrypted {
            if let Some(host) = remote(&config).filter(|_| !options.allow_plaintext) {
                return Err(OpenError::Plaintext { host });
            }
            config.ssl_mode(SslMode::Disable);
        }
        let tls = encrypted.then(|| tls(options)).transpose()?;
        Ok(Self {
            servers: Servers::of(config.clone(), options.connect_timeout),
            config,
            tls,
            prepares: options.prepared_statements,
            connect_timeout: options.connect_timeout,
        })
    }

    /// The servers give no answer.
    pub(super) fn silent(&self, limit: Duration) -> OpenError {
        self.unreachable(&self.servers.none_opened(&no_answer(limit)))
    }

    /// None can be reached: a line for each that was tried.
    pub(super) fn unreachable(&self, NotOpened(each): &NotOpened) -> OpenError {
        // The driver's words, which has no code for them.
        let is_missing = |(_, why): &(String, String)| why.contains("password missing");
        if self.config.get_password().is_none() && each.iter().any(is_missing) {
            let user = self.config.get_user().unwrap_or_default().to_owned();
            return OpenError::NoPassword { user };
        }
        let line = |(server, why): &(String, String)| {
            // PgBouncer's words for the settings of a session.
            let is_pooler = self.prepares && why.contains("unsupported startup parameter");
            let advice = if is_pooler { FOR_POOLERS } else { "" };
            format!("{server}: {why}{advice}")
        };
        let lines: Vec<_> = each.iter().map(line).collect();
        OpenError::Connection(match &lines[..] {
            [one] => one.clone(),
            several => format!("no server takes writes\n  {}", several.join("\n  ")),
        })
    }
}

pub(super) fn no_answer(limit: Duration) -> String {
    format!("no answer within {limit:?}")
}

/// What is missing where a session is not one session of the server.
pub(super) const FOR_POOLERS: &str = "; behind a pooler in transaction mode, such as PgBouncer, set `database_prepared_statements = false`";

/// What each session begins with, as the driver hands it over when it connects.
/// `deploy/postgres/roles.sql` gives the same to the roles of the services, for connections through
/// a pooler.
// One plan for all values of a statement, and only plans that walk an index from the keys at hand:
// every statement of ours has such a plan, and it is the right one at any size. Left to choose, the
// server would plan the arrays of a commit anew with each call, and on an empty table it would
// choose to read the whole of it and keep that plan while it grows. And no parallel workers: they read
// ahead of a limit.
fn settings(options: &PostgresOptions) -> String {
    format!(
        "-c statement_timeout={} -c lock_timeout={} -c idle_in_transaction_session_timeout={} -c timezone=UTC \
         -c plan_cache_mode=force_generic_plan -c jit=off -c enable_seqscan=off -c enable_hashjoin=off \
         -c enable_mergejoin=off -c enable_bitmapscan=off -c max_parallel_workers_per_gather=0",
        options.statement_timeout.as_millis(),
        options.lock_timeout.as_millis(),
        options.idle_in_transaction_timeout.as_millis(),
    )
}

fn file(path: &std::path::Path, why: &dyn std::fmt::Display) -> OpenError {
    OpenError::File {
        path: path.to_owned(),
        why: why.to_string(),
    }
}

/// The first host that is not this machine.
fn remote(config: &tokio_postgres::Config) -> Option<String> {
    // Addresses, where there are any, are what is connected to; the names beside them are only
    // checked.
    if let Some(address) = config
        .get_hostaddrs()
        .iter()
        .find(|address| !address.is_loopback())
    {
        return Some(address.to_string());
    }
    if !config.get_hostaddrs().is_empty() {
        return None;
    }
    config.get_hosts().iter().find_map(|host| match host {
        Host::Tcp(name) if !crate::tls::is_this_machine(name) => Some(name.clone()),
        Host::Tcp(_) => None,
        #[cfg(unix)]
        Host::Unix(_) => None,
    })
}

fn tls(options: &PostgresOptions) -> Result<MakeRustlsConnect, OpenError> {
    crate::tls::install_provider();
    let mut roots = RootCertStore::empty();
    if let Some(path) = &options.ca_file {
        for certificate in certificates(path)? {
            roots.add(certificate).map_err(|error| file(path, &error))?;
        }
    } else {
        let found = rustls_native_certs::load_native_certs();
        // One that cannot be read must not keep the others out.
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            return Err(OpenError::Connection(
                "the operating system trusts no certificate: name a file with those to trust"
                    .to_owned(),
            ));
        }
    }
    let config = ClientConfig::builder().with_root_certificates(roots);
    let config = match &options.certificate {
        None => config.with_no_client_auth(),
        Some(ours) => {
            let key = PrivateKeyDer::from_pem_file(&ours.key_file)
                .map_err(|error| file(&ours.key_file, &error))?;
            let chain = certificates(&ours.cert_file)?;
            config
                .with_client_auth_cert(chain, key)
                .map_err(|error| file(&ours.cert_file, &error))?
        }
    };
    Ok(MakeRustlsConnect::new(config))
}

/// The certificates of a PEM file, one at least.
fn certificates(path: &std::path::Path) -> Result<Vec<CertificateDer<'static>>, OpenError> {
    let read = CertificateDer::pem_file_iter(path).map_err(|error| file(path, &error))?;
    let read = read
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| file(path, &error))?;
    if read.is_empty() {
        Err(file(path, &"there is no certificate in it"))
    } else {
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_roles_of_the_services_begin_as_a_direct_connection_does() {
        let roles = include_str!("../../../../deploy/postgres/roles.sql");
        let settings = settings(&PostgresOptions::default());
        let settings: Vec<&str> = settings
            .split_whitespace()
            .filter(|word| *word != "-c")
            .collect();
        assert_eq!(settings.len(), 11);
        for setting in settings {
            assert!(roles.contains(&format!("'{setting}'")), "{setting}");
        }
    }
    #[test]
    fn a_password_that_is_missing_is_named_with_where_it_goes() {
        let of = |url: &str| {
            let target = Target::of(url, &PostgresOptions::default()).unwrap();
            // As the driver says it, of the one that takes connections.
            let why = "invalid configuration: password missing".to_owned();
            let each = vec![(0, why), (1, no_answer(Duration::from_secs(5)))];
            target
                .unreachable(&target.servers.not_opened(each))
                .to_string()
        };
        let missing = of("postgres://counterstep_owner@127.0.0.1,localhost/tasks");
        for part in [
            "password of `counterstep_owner`",
            "the file `database`",
            "in the URL",
        ] {
            assert!(missing.contains(part), "{missing}");
        }
        let other = of("postgres://counterstep_owner:secret@127.0.0.1,localhost/tasks");
        assert!(
            other.starts_with("the database cannot be reached"),
            "{other}"
        );
    }
}
