//! How to reach NATS, and what to keep there. Owns the checks of settings that would be unsafe;
//! must not connect.

use crate::client_certificate::ClientCertificate;
use crate::tls::is_this_machine;
use async_nats::ServerAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How to reach NATS, and what to keep there.
#[derive(Debug, Clone)]
pub struct NatsOptions {
    /// Servers of one cluster: `nats://host:4222`, `tls://host:4222`. Without a user or a password
    /// in them: those come from files, because URLs end up in logs and process lists.
    pub urls: Vec<String>,
    /// Who we are.
    pub auth: NatsAuth,
    /// PEM file of the certificates to trust beside the system's. Asks for TLS whatever the URLs
    /// say.
    pub ca_file: Option<PathBuf>,
    /// What proves us to the server, where it asks. Asks for TLS whatever the URLs say.
    pub certificate: Option<ClientCertificate>,
    /// Speaks without TLS to a host that is not this machine.
    pub allow_plaintext: bool,
    /// Put before every stream, consumer and subject, so that several installations can share one
    /// account. Letters, digits, `-` and `_`.
    pub prefix: Option<String>,
    /// After this long without a settlement a message is delivered again.
    pub ack_wait: Duration,
    /// Limit of one publish, settlement or request to the server.
    pub timeout: Duration,
    /// Creates the streams where they are missing, and the consumers of all queues that it publishes to.
    /// Otherwise it creates the consumers that it fetches from alone: its user may have the rights for no
    /// more.
    pub create_streams: bool,
    /// What the subjects begin with on which it receives answers. A user that may subscribe to its own
    /// alone cannot read those of others.
    pub inbox: String,
    /// Copies of each stream, where this program makes it.
    pub replicas: usize,
    /// A message above this is poison, in bytes.
    pub max_message_bytes: usize,
    /// A consumer that delivers nothing for this long is compared with its stream.
    pub silent_after: Duration,
    /// Which hints of other processes are of interest.
    pub hears: Hears,
}

impl NatsOptions {
    /// Of one server, with the defaults of everything else.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            urls: vec![url.into()],
            auth: NatsAuth::None,
            ca_file: None,
            certificate: None,
            allow_plaintext: false,
            prefix: None,
            ack_wait: Duration::from_secs(30),
            timeout: Duration::from_secs(5),
            create_streams: true,
            inbox: "_INBOX".to_owned(),
            replicas: 1,
            // For a new stream: one that is there belongs to its operator.
            // The messages of this program itself have to fit: 16 KiB of outputs, and what is around them.
            max_message_bytes: 256 * 1024,
            silent_after: Duration::from_secs(10),
            hears: Hears::Everything,
        }
    }
}

/// Who we are. Secrets are read from files when the connection is opened: a text in argv or in the
/// environment can be read by others on the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NatsAuth {
    /// The server asks for nothing.
    None,
    /// A user and a file with the password.
    UserPassword {
        /// The user.
        user: String,
        /// The file with the password.
        password_file: PathBuf,
    },
    /// A file with credentials of an account (`.creds`), with the seed of an nkey, or with a token: which, its text shows.
    Secret(PathBuf),
}

/// Which hints of other processes are of interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hears {
    /// Cancels only: enough for a worker. Changes of tasks are many, and a worker does not wait for
    /// them.
    Cancels,
    /// Cancels and changes.
    Everything,
}

/// NATS cannot be used as the settings say. A server that is not there is no such error: see
/// [`Nats::healthy`](super::Nats::healthy).
#[derive(Debug, thiserror::Error)]
pub enum NatsOpenError {
    /// A setting is not usable.
    #[error("the NATS settings are not usable: {0}")]
    Setting(String),
    /// A file with a secret or a certificate cannot be used.
    #[error("the file `{}` cannot be used", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// The client refuses.
    #[error("the NATS client refuses: {0}")]
    Client(String),
}

/// Checks the addresses.
///
/// # Errors
/// [`NatsOpenError::Setting`].
pub(super) fn addresses(options: &NatsOptions) -> Result<Vec<ServerAddr>, NatsOpenError> {
    let refuse = |text: String| Err(NatsOpenError::Setting(text));
    if options.urls.is_empty() {
        return refuse(
            "no server; expected at least one URL such as nats://127.0.0.1:4222".to_owned(),
        );
    }
    let mut addresses = Vec::new();
    for (at, url) in options.urls.iter().enumerate() {
        // The texts never repeat the URL before it is known to hold no password.
        let Ok(address) = url.parse::<ServerAddr>() else {
            return refuse(format!(
                "URL {} is none of a NATS server; expected nats://host:port or tls://host:port",
                at + 1
            ));
        };
        if address.username().is_some() || address.password().is_some() {
            return refuse(format!(
                "URL {} holds a user or a password; give a file instead",
                at + 1
            ));
        }
        let encrypted =
            address.tls_required() || options.ca_file.is_some() || options.certificate.is_some();
        if !encrypted && !is_this_machine(address.host()) && !options.allow_plaintext {
            return refuse(format!(
                "`{}` is another machine and would be spoken to without encryption; use tls://, give a CA file, or \
                 allow plaintext where the network between is trusted",
                address.host()
            ));
        }
        addresses.push(address);
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, change: impl FnOnce(&mut NatsOptions)) -> Result<(), String> {
        let mut options = NatsOptions::new(url);
        change(&mut options);
        addresses(&options)
            .map(drop)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn plaintext_to_another_machine_is_refused_unless_it_is_allowed() {
        for near in [
            "nats://127.0.0.1:4222",
            "nats://localhost",
            "nats://[::1]:4222",
        ] {
            check(near, |_| {}).unwrap();
        }
        let refused = check("nats://nats.example:4222", |_| {}).unwrap_err();
        assert!(
            refused.contains("nats.example") && refused.contains("tls://"),
            "{refused}"
        );
        check("nats://nats.example", |options| {
            options.allow_plaintext = true
        })
        .unwrap();
        check("nats://nats.example", |options| {
            options.ca_file = Some("ca.pem".into())
        })
        .unwrap();
        check("tls://nats.example", |_| {}).unwrap();
    }

    #[test]
    fn a_password_in_a_url_is_refused_and_not_repeated() {
        let refused = check("nats://me:hunter2@127.0.0.1", |_| {}).unwrap_err();
        assert!(
            refused.contains("file") && !refused.contains("hunter2"),
            "{refused}"
        );
        let refused = check("nats:// hunter2", |_| {}).unwrap_err();
        assert!(
            refused.contains("URL 1") && !refused.contains("hunter2"),
            "{refused}"
        );
    }
}
