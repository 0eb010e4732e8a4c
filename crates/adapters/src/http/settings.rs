//! From the settings of a service to a client for it: its URL, its secrets, and what is refused.

use crate::this_machine::is_this_machine;
use reqwest::header::{AUTHORIZATION, HeaderName};
use reqwest::{Client, Url, redirect};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an idle connection is kept for its next request. Many servers close an idle one after 5 s: a call
/// that meets that moment has no answer, and has used up an attempt for nothing.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// Minimum bytes of a secret.
const SHORTEST_SECRET: usize = 8;

/// Headers that are the engine's or the connection's, and no file's.
const TAKEN: &[&str] = &[
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "idempotency-key",
    "te",
    "traceparent",
    "transfer-encoding",
    "upgrade",
];

/// A service as the settings name it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceSettings {
    /// `https://HOST` or `https://HOST/PATH`; calls go below it.
    pub url: String,
    /// The token for `Authorization: Bearer`.
    pub token: Option<Token>,
    /// Files with the values of other headers, by header.
    pub header_files: BTreeMap<String, PathBuf>,
    /// PEM file with the only authorities that its certificate may come from.
    pub ca_file: Option<PathBuf>,
    /// Whether it may be another machine without TLS.
    pub allow_plaintext: bool,
}

/// Where a token comes from.
#[derive(Clone, PartialEq, Eq)]
pub enum Token {
    /// A file, read at every call, so that the token can be renewed.
    File(PathBuf),
    /// The token itself. It is never shown.
    Text(String),
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Text(_) => f.write_str("Text(…)"),
        }
    }
}

/// The settings of a service cannot be used. No message repeats a URL: it may carry a password.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Invalid name of a service.
    #[error(
        "setting `services`: `{0}` is no name of a service: expected 1 to 64 letters, digits, `_` and `-`"
    )]
    Name(String),
    /// Its URL.
    #[error("setting `services.{service}.url`: {why}")]
    Url {
        /// Name of the service.
        service: String,
        /// What is wrong, and what is expected.
        why: &'static str,
    },
    /// A header that is not a file's to give.
    #[error(
        "setting `services.{service}.header_files`: `{header}` is no header that a file can give"
    )]
    Header {
        /// Name of the service.
        service: String,
        /// The header.
        header: String,
    },
    /// A file.
    #[error("setting `services.{service}.{setting}`: the file `{}` cannot be read", path.display())]
    File {
        /// Name of the service.
        service: String,
        /// Which of its settings.
        setting: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// A file that holds no secret.
    #[error(
        "setting `services.{service}.{setting}`: the file `{}` holds less than {SHORTEST_SECRET} bytes, which is no secret; \
         write it under another name and rename it, so that no process reads half of it",
        path.display()
    )]
    Short {
        /// Name of the service.
        service: String,
        /// Which of its settings.
        setting: &'static str,
        /// Path of the file.
        path: PathBuf,
    },
    /// A token that is none.
    #[error(
        "invalid token of the service `{service}`: less than {SHORTEST_SECRET} bytes; expected a secret"
    )]
    ShortToken {
        /// Name of the service.
        service: String,
    },
    /// Its client, by its certificates.
    #[error("setting `services.{service}`: {why}")]
    Client {
        /// Name of the service.
        service: String,
        /// The error of the client, as text.
        why: String,
    },
}

impl OpenError {
    /// Which setting it is about, without what it says.
    pub(super) fn setting(&self) -> String {
        match self {
            Self::File {
                service, setting, ..
            }
            | Self::Short {
                service, setting, ..
            } => {
                format!("the file of the setting `services.{service}.{setting}` cannot be used")
            }
            Self::Name(_)
            | Self::Url { .. }
            | Self::Header { .. }
            | Self::ShortToken { .. }
            | Self::Client { .. } => "the settings of the service cannot be used".to_owned(),
        }
    }
}

/// A service that can be called.
#[derive(Debug)]
pub(super) struct Service {
    name: String,
    pub(super) url: Url,
    pub(super) client: Client,
    /// Header, setting and file of each secret that has a file.
    files: Vec<(String, &'static str, PathBuf)>,
    /// The token, where it has none.
    token: Option<String>,
}

impl Service {
    pub(super) fn open(name: &str, given: &ServiceSettings) -> Result<Self, OpenError> {
        let is_named = |c: u8| c.is_ascii_alphanumeric() || b"_-".contains(&c);
        if name.is_empty() || name.len() > 64 || !name.bytes().all(is_named) {
            return Err(OpenError::Name(name.escape_debug().to_string()));
        }
        let url = url(given).map_err(|why| OpenError::Url {
            service: name.to_owned(),
            why,
        })?;
        let (mut files, mut token) = (Vec::new(), None);
        match &given.token {
            None => {}
            Some(Token::File(file)) => {
                files.push((
                    AUTHORIZATION.as_str().to_owned(),
                    "token_file",
                    file.clone(),
                ));
            }
            Some(Token::Text(text)) => {
                let text = text.trim_end_matches(['\r', '\n']);
                if text.len() < SHORTEST_SECRET {
                    return Err(OpenError::ShortToken {
                        service: name.to_owned(),
                    });
                }
                token = Some(text.to_owned());
            }
        }
        for (header, file) in &given.header_files {
            let lower = header.to_ascii_lowercase();
            let free = !TAKEN.contains(&lower.as_str()) && lower != AUTHORIZATION.as_str();
            if !free || HeaderName::from_bytes(lower.as_bytes()).is_err() {
                let header = header.escape_debug().to_string();
                return Err(OpenError::Header {
                    service: name.to_owned(),
                    header,
                });
            }
            files.push((lower, "header_files", file.clone()));
        }
        let client = client(name, given)?;
        let service = Self {
            name: name.to_owned(),
            url,
            client,
            files,
            token,
        };
        service.secrets()?;
        Ok(service)
    }

    /// Headers and their secrets, those of files as they are now.
    pub(super) fn secrets(&self) -> Result<Vec<(String, String)>, OpenError> {
        let read = |(header, setting, path): &(String, &'static str, PathBuf)| {
            let text = read(&self.name, setting, path)?;
            let secret = String::from_utf8_lossy(&text)
                .trim_end_matches(['\r', '\n'])
                .to_owned();
            // A file that is just being written anew is empty for a moment. And what is so short
            // stands in many an answer, from which secrets are taken out.
            if secret.len() < SHORTEST_SECRET {
                return Err(OpenError::Short {
                    service: self.name.clone(),
                    setting,
                    path: path.clone(),
                });
            }
            Ok((header.clone(), secret))
        };
        let token = self
            .token
            .iter()
            .map(|token| Ok((AUTHORIZATION.as_str().to_owned(), token.clone())));
        token.chain(self.files.iter().map(read)).collect()
    }
}

/// Small files on a local disk, or in memory where an orchestrator mounts them: no work for a
/// thread of its own.
fn read(service: &str, setting: &'static str, path: &Path) -> Result<Vec<u8>, OpenError> {
    std::fs::read(path).map_err(|source| OpenError::File {
        service: service.to_owned(),
        setting,
        path: path.to_owned(),
        source,
    })
}

fn url(given: &ServiceSettings) -> Result<Url, &'static str> {
    let expected = "expected https://HOST or https://HOST/PATH";
    let url = Url::parse(&given.url).map_err(|_| expected)?;
    let host = url.host_str().unwrap_or_default();
    if !url.username().is_empty() || url.password().is_some() {
        return Err(
            "it has a user or a password in it: put a token into `token_file`, or a header into `header_files`",
        );
    }
    if url.query().is_some() || url.fragment().is_some() || host.is_empty() {
        return Err(expected);
    }
    match url.scheme() {
        "https" if cfg!(feature = "tls") => Ok(url),
        "https" => Err("this program was built without TLS: build it with `--features servers`"),
        "http" if is_this_machine(host) || given.allow_plaintext => Ok(url),
        "http" => Err(
            "it is another machine and has no TLS: use https://, or set `allow_plaintext` where the network \
                       between is trusted",
        ),
        _ => Err(expected),
    }
}

fn client(name: &str, given: &ServiceSettings) -> Result<Client, OpenError> {
    let failed = |error: reqwest::Error| OpenError::Client {
        service: name.to_owned(),
        why: counterstep_steps::error::chain(&error),
    };
    // Asked for also where the service speaks in the clear.
    #[cfg(feature = "tls")]
    crate::tls::install_provider();
    let builder = Client::builder()
        .redirect(redirect::Policy::none())
        .referer(false)
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .user_agent(concat!("counterstep/", env!("CARGO_PKG_VERSION")));
    // What is in the clear because it stays on this machine must not leave it by way of a proxy.
    let here = Url::parse(&given.url)
        .ok()
        .filter(|url| url.scheme() == "http");
    let here = here
        .and_then(|url| url.host_str().map(is_this_machine))
        .unwrap_or(false);
    let builder = if here { builder.no_proxy() } else { builder };
    let builder = match &given.ca_file {
        Some(path) => with_authorities(builder, name, path, failed)?,
        None => builder,
    };
    builder.build().map_err(failed)
}

#[cfg(feature = "tls")]
fn with_authorities(
    builder: reqwest::ClientBuilder,
    name: &str,
    path: &Path,
    failed: impl Fn(reqwest::Error) -> OpenError,
) -> Result<reqwest::ClientBuilder, OpenError> {
    let authorities =
        reqwest::Certificate::from_pem_bundle(&read(name, "ca_file", path)?).map_err(failed)?;
    if authorities.is_empty() {
        let why = format!(
            "the file `{}` of `ca_file` holds no certificate in PEM format",
            path.display()
        );
        return Err(OpenError::Client {
            service: name.to_owned(),
            why,
        });
    }
    Ok(builder.tls_certs_only(authorities))
}

#[cfg(not(feature = "tls"))]
fn with_authorities(
    builder: reqwest::ClientBuilder,
    _: &str,
    _: &Path,
    _: impl Fn(reqwest::Error) -> OpenError,
) -> Result<reqwest::ClientBuilder, OpenError> {
    // Nothing here speaks TLS, and the URL has been refused already where it would have to.
    Ok(builder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(url: &str, change: impl FnOnce(&mut ServiceSettings)) -> Result<Service, String> {
        let mut given = ServiceSettings {
            url: url.to_owned(),
            ..ServiceSettings::default()
        };
        change(&mut given);
        Service::open("bank", &given).map_err(|error| error.to_string())
    }

    #[test]
    fn a_url_that_cannot_be_used_is_refused_and_not_repeated() {
        for url in [
            "http://127.0.0.1:8080",
            "http://localhost/api/",
            "http://[::1]:1/x",
        ] {
            assert!(opened(url, |_| {}).is_ok(), "{url}");
        }
        for (url, said) in [
            ("", "expected https://HOST"),
            ("bank.example", "expected https://HOST"),
            ("ftp://bank.example", "expected https://HOST"),
            ("http://127.0.0.1/?a=b", "expected https://HOST"),
            ("http://me:hunter2@127.0.0.1/", "token_file"),
            ("http://bank.example", "allow_plaintext"),
        ] {
            let error = opened(url, |_| {}).unwrap_err();
            assert!(
                error.contains("services.bank.url") && error.contains(said),
                "{error}"
            );
            assert!(!error.contains("hunter2"), "{error}");
        }
        assert!(opened("http://bank.example", |given| given.allow_plaintext = true).is_ok());
    }

    #[test]
    fn a_token_is_sent_as_it_is_given_and_never_shown() {
        let of = |text: &str| {
            opened("http://localhost", |given| {
                given.token = Some(Token::Text(text.to_owned()))
            })
        };
        let sent = of("a-bearer-token\n").unwrap().secrets().unwrap();
        assert_eq!(
            sent,
            [("authorization".to_owned(), "a-bearer-token".to_owned())]
        );
        let error = of("hunter2\n").unwrap_err();
        assert!(
            error.contains("`bank`") && !error.contains("hunter2"),
            "{error}"
        );
        let settings = ServiceSettings {
            token: Some(Token::Text("hunter2".to_owned())),
            ..ServiceSettings::default()
        };
        assert!(!format!("{settings:?}").contains("hunter2"));
    }

    #[test]
    fn a_file_that_is_missing_and_a_header_that_is_taken_are_named() {
        let missing = PathBuf::from("/nowhere/token");
        let error = opened("http://localhost", |given| {
            given.token = Some(Token::File(missing.clone()))
        })
        .unwrap_err();
        assert!(
            error.contains("services.bank.token_file") && error.contains("/nowhere/token"),
            "{error}"
        );
        for header in ["Idempotency-Key", "authorization", "Host", "a b", ""] {
            let files = BTreeMap::from([(header.to_owned(), missing.clone())]);
            let error = opened("http://localhost", |given| given.header_files = files).unwrap_err();
            assert!(error.contains("no header that a file can give"), "{error}");
        }
    }
}
