//! From the settings to clients that may be connected: TLS, passwords, and what is refused.

use super::RedisOptions;
use ::redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, TlsCertificates,
};
use std::path::{Path, PathBuf};

/// The settings for Redis cannot be used. No message repeats a URL: it may carry a password.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No server at all.
    #[error("no Redis server is given: expected at least one URL such as redis://localhost:6379")]
    NoServer,
    /// Not a URL of a Redis server.
    #[error(
        "URL number {number} of the Redis servers is not usable: {why}; expected redis://host:port or rediss://host:port"
    )]
    Url {
        /// From 1.
        number: usize,
        /// What the parser says.
        why: String,
    },
    /// Another machine, without TLS.
    #[error(
        "the Redis server {server} is another machine and its URL has no TLS: use rediss://, or allow plaintext explicitly"
    )]
    Plaintext {
        /// Host and port.
        server: String,
    },
    /// TLS without a check of the server.
    #[error(
        "the URL of the Redis server {server} switches the check of its certificate off: remove `#insecure`, and give a CA file"
    )]
    Unchecked {
        /// Host and port.
        server: String,
    },
    /// A certificate of ours, and a server that does not ask for any.
    #[error(
        "the Redis server {server} is given a client certificate and its URL has no TLS: use rediss://"
    )]
    CertificateWithoutTls {
        /// Host and port.
        server: String,
    },
    /// The prefix of the keys.
    #[error("the prefix of the Redis keys is empty: expected a name such as `counterstep`")]
    NoPrefix,
    /// A file that the settings name.
    #[error("the file `{}` cannot be read", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// The CA file.
    #[error("the file `{}` holds no usable certificates in PEM format: {why}", path.display())]
    Certificates {
        /// Path of the file.
        path: PathBuf,
        /// What the parser says.
        why: String,
    },
}

/// A client of each server. Connects to nothing yet.
pub(super) fn clients(options: &RedisOptions) -> Result<Vec<Client>, OpenError> {
    if options.urls.is_empty() {
        return Err(OpenError::NoServer);
    }
    if options.prefix.is_empty() {
        return Err(OpenError::NoPrefix);
    }
    // rustls asks for the process's provider when the first connection is made.
    crate::tls::install_provider();
    let password = options.password_file.as_deref().map(read).transpose()?;
    let ca = options.ca_file.as_deref().map(read).transpose()?;
    let ours = match &options.certificate {
        Some(ours) => Some(ClientTlsConfig {
            client_cert: read(&ours.cert_file)?,
            client_key: read(&ours.key_file)?,
        }),
        None => None,
    };
    let certificates = TlsCertificates {
        client_tls: ours,
        root_cert: ca,
    };
    let mut clients = Vec::with_capacity(options.urls.len());
    for (number, url) in (1..).zip(&options.urls) {
        let unusable = |error: ::redis::RedisError| OpenError::Url {
            number,
            why: error.to_string(),
        };
        let mut server = url.as_str().into_connection_info().map_err(unusable)?;
        if let Some(password) = &password {
            let text = String::from_utf8_lossy(password);
            let settings = server
                .redis_settings()
                .clone()
                .set_password(text.trim_end_matches(['\r', '\n']));
            server = server.set_redis_settings(settings);
        }
        clients.push(
            client(server, &certificates, options).map_err(|refused| match refused {
                Refused::Open(error) => error,
                Refused::Client(error) => unusable(error),
            })?,
        );
    }
    Ok(clients)
}

enum Refused {
    Open(OpenError),
    Client(::redis::RedisError),
}

fn client(
    server: ConnectionInfo,
    certificates: &TlsCertificates,
    options: &RedisOptions,
) -> Result<Client, Refused> {
    let name = server.addr().to_string();
    match server.addr() {
        ConnectionAddr::Tcp(host, _)
            if !options.allow_plaintext && !crate::tls::is_this_machine(host) =>
        {
            Err(Refused::Open(OpenError::Plaintext { server: name }))
        }
        ConnectionAddr::Tcp(..) if certificates.client_tls.is_some() => {
            Err(Refused::Open(OpenError::CertificateWithoutTls {
                server: name,
            }))
        }
        ConnectionAddr::TcpTls { insecure: true, .. } => {
            Err(Refused::Open(OpenError::Unchecked { server: name }))
        }
        ConnectionAddr::TcpTls { .. } => {
            let (ca, ours) = (
                certificates.root_cert.as_deref(),
                options.certificate.as_ref(),
            );
            // The library does not say which file it cannot use.
            let path = || {
                options
                    .ca_file
                    .clone()
                    .or_else(|| ours.map(|ours| ours.cert_file.clone()))
                    .unwrap_or_default()
            };
            if ca.is_some_and(|ca| !ca.windows(PEM.len()).any(|at| at == PEM)) {
                let why = "it has no certificate in it".to_owned();
                return Err(Refused::Open(OpenError::Certificates { path: path(), why }));
            }
            Client::build_with_tls(server, certificates.clone()).map_err(|error| {
                match ca.is_some() || ours.is_some() {
                    true => Refused::Open(OpenError::Certificates {
                        path: path(),
                        why: error.to_string(),
                    }),
                    false => Refused::Client(error),
                }
            })
        }
        _ => Client::open(server).map_err(Refused::Client),
    }
}

const PEM: &[u8] = b"-----BEGIN CERTIFICATE-----";

fn read(path: &Path) -> Result<Vec<u8>, OpenError> {
    std::fs::read(path).map_err(|source| OpenError::File {
        path: path.to_owned(),
        source,
    })
}
