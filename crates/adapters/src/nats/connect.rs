//! The connection: retried indefinitely, with a bounded pause between tries, and what is known about it
//! for a health check.

use super::options::{NatsAuth, NatsOpenError, NatsOptions, addresses};
use super::refusals::Refusals;
use async_nats::connection::State;
use async_nats::{Client, ConnectOptions, Event};
use counterstep_kernel::ports::QueueError;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A connection, and the last thing that went wrong with it.
#[derive(Debug, Clone)]
pub(super) struct Link {
    pub(super) client: Client,
    problem: Arc<Mutex<Option<String>>>,
    connects: Arc<AtomicU64>,
    pub(super) refusals: Arc<Refusals>,
}

impl Link {
    /// Starts to connect; does not wait for a server that is not there.
    pub(super) async fn open(options: &NatsOptions) -> Result<Self, NatsOpenError> {
        let addresses = addresses(options)?;
        crate::tls::install_provider();
        let problem = Arc::new(Mutex::new(None));
        let noted = problem.clone();
        let connects = Arc::new(AtomicU64::new(0));
        let counted = connects.clone();
        let refusals = Arc::new(Refusals::default());
        let hears = refusals.clone();
        let connect = ConnectOptions::new()
            .name("counterstep")
            .custom_inbox_prefix(&options.inbox)
            // A process that starts before its server waits for it beside its work: messages are
            // only wake-ups.
            .retry_on_initial_connect()
            .max_reconnects(None)
            .reconnect_delay_callback(pause)
            .connection_timeout(options.timeout)
            .request_timeout(Some(options.timeout))
            // A server that went away without a word is noticed after two of these.
            .ping_interval(Duration::from_secs(5))
            .event_callback(move |event| {
                if matches!(event, Event::Connected) {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                hears.hear(&event);
                note(&noted, &event);
                std::future::ready(())
            });
        let connect = authenticate(connect, &options.auth)?;
        let connect = match &options.ca_file {
            Some(path) => {
                readable(path)?;
                connect
                    .add_root_certificates(path.clone())
                    .require_tls(true)
            }
            None => connect,
        };
        let connect = match &options.certificate {
            Some(ours) => {
                readable(&ours.cert_file)?;
                readable(&ours.key_file)?;
                connect
                    .add_client_certificate(ours.cert_file.clone(), ours.key_file.clone())
                    .require_tls(true)
            }
            None => connect,
        };
        let client = connect
            .connect(addresses)
            .await
            .map_err(|error| NatsOpenError::Client(error.to_string()))?;
        Ok(Self {
            client,
            problem,
            connects,
            refusals,
        })
    }

    /// Whether requests make sense at the moment.
    pub(super) fn check(&self) -> Result<(), QueueError> {
        match self.client.connection_state() {
            State::Connected => Ok(()),
            State::Pending | State::Disconnected => Err(QueueError(self.why())),
        }
    }

    /// Grows with each connection: behind another one there may be a server without our streams.
    pub(super) fn connects(&self) -> u64 {
        self.connects.load(Ordering::Relaxed)
    }

    fn why(&self) -> String {
        let problem = self.problem.lock();
        problem.as_ref().map_or_else(
            || "not connected to NATS".to_owned(),
            |problem| format!("not connected to NATS; the last problem was: {problem}"),
        )
    }
}

fn note(problem: &Mutex<Option<String>>, event: &Event) {
    let text = match event {
        Event::Connected => {
            tracing::info!("connected to NATS");
            *problem.lock() = None;
            return;
        }
        Event::Disconnected => {
            tracing::warn!("the connection to NATS was lost");
            return;
        }
        // This side closes it: tries to reconnect have no end.
        Event::Draining | Event::Closed => {
            tracing::debug!(%event, "NATS");
            return;
        }
        Event::SlowConsumer(_) | Event::LameDuckMode => {
            tracing::warn!(%event, "NATS");
            return;
        }
        Event::ServerError(error) => error.to_string(),
        Event::ClientError(error) => error.to_string(),
    };
    let mut last = problem.lock();
    // Every try to reconnect says the same: once is enough.
    if last.as_ref() != Some(&text) {
        tracing::warn!(error = %text, "NATS");
        *last = Some(text);
    }
}

/// From a tenth of a second to two seconds.
fn pause(attempts: usize) -> Duration {
    let doublings = u32::try_from(attempts.saturating_sub(1).min(5)).unwrap_or(5);
    Duration::from_millis(100 * 2_u64.pow(doublings)).min(Duration::from_secs(2))
}

fn authenticate(connect: ConnectOptions, auth: &NatsAuth) -> Result<ConnectOptions, NatsOpenError> {
    Ok(match auth {
        NatsAuth::None => connect,
        NatsAuth::UserPassword {
            user,
            password_file,
        } => connect.user_and_password(user.clone(), secret(password_file)?),
        NatsAuth::Secret(path) => {
            let secret = secret(path)?;
            match kind_of(&secret) {
                SecretKind::Credentials => {
                    connect
                        // The parser takes the last heading for one only with a line break behind it.
                        .credentials(&format!("{secret}\n"))
                        .map_err(|source| NatsOpenError::File {
                            path: path.clone(),
                            source,
                        })?
                }
                SecretKind::Nkey => connect.nkey(secret),
                SecretKind::Token => connect.token(secret),
            }
        }
    })
}

#[derive(Debug, PartialEq, Eq)]
enum SecretKind {
    Credentials,
    Nkey,
    Token,
}

/// Seeds begin with `S` and have 58 letters and digits; credentials are blocks with headings. What may be a private key is never taken
/// for a token, which the server would be sent as it is: the client refuses a key that is none.
fn kind_of(secret: &str) -> SecretKind {
    let is_base32 = |byte: u8| byte.is_ascii_uppercase() || (b'2'..=b'7').contains(&byte);
    if secret.contains('\n') || secret.contains("-----BEGIN") {
        SecretKind::Credentials
    } else if secret.starts_with('S') && secret.len() == 58 && secret.bytes().all(is_base32) {
        SecretKind::Nkey
    } else {
        SecretKind::Token
    }
}

/// A secret in a file, without the line break that editors leave behind it.
fn secret(path: &Path) -> Result<String, NatsOpenError> {
    let text = std::fs::read_to_string(path).map_err(|source| NatsOpenError::File {
        path: path.to_owned(),
        source,
    })?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(NatsOpenError::File {
            path: path.to_owned(),
            source: std::io::Error::other("it is empty"),
        }),
        secret => Ok(secret.to_owned()),
    }
}

// The client reads certificates with each connect, where an unreadable file would only be one more
// failed try.
fn readable(path: &Path) -> Result<(), NatsOpenError> {
    std::fs::read(path)
        .map(drop)
        .map_err(|source| NatsOpenError::File {
            path: path.to_owned(),
            source,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_what_it_is() {
        let seed = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
        let credentials =
            format!("-----BEGIN NATS USER JWT-----\ne30\n------END NATS USER JWT------\n{seed}");
        let of_an_account = seed.replacen("SU", "SA", 1);
        let alone =
            format!("-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------");
        for (secret, kind) in [
            (credentials.as_str(), SecretKind::Credentials),
            (&alone, SecretKind::Credentials),
            (seed, SecretKind::Nkey),
            (&of_an_account, SecretKind::Nkey),
            (&seed[..57], SecretKind::Token),
            ("SU-planted", SecretKind::Token),
        ] {
            assert_eq!(kind_of(secret), kind, "{secret}");
        }
    }

    #[test]
    fn credentials_are_taken_with_and_without_a_line_break_at_their_end() {
        const TEXT: &str = "-----BEGIN NATS USER JWT-----
eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.e30.c2ln
------END NATS USER JWT------

-----BEGIN USER NKEY SEED-----
SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY
------END USER NKEY SEED------";
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("nats");
        for end in ["", "\n", "\r\n"] {
            std::fs::write(&file, format!("{TEXT}{end}")).unwrap();
            let given = authenticate(ConnectOptions::new(), &NatsAuth::Secret(file.clone()));
            assert!(given.is_ok(), "{end:?}: {:?}", given.err());
        }
    }

    #[test]
    fn the_pause_between_two_tries_is_bounded() {
        assert_eq!(pause(0), Duration::from_millis(100));
        assert_eq!(pause(3), Duration::from_millis(400));
        assert_eq!(pause(usize::MAX), Duration::from_secs(2));
    }
}
