//! Certificates of single servers, as the settings file has them. Must not know what counts for a server.

use serde::Deserialize;
use std::path::PathBuf;

/// Certificates of a server, in the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    pub(super) ca_file: Option<PathBuf>,
    pub(super) cert_file: Option<PathBuf>,
    pub(super) key_file: Option<PathBuf>,
}

/// A server by its name in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TlsServer {
    /// PostgreSQL.
    Database,
    /// NATS.
    Nats,
    /// Redis.
    Redis,
    /// The issuer of access tokens, for its keys.
    Issuer,
    /// The collector of spans.
    Collector,
}

impl TlsServer {
    /// Whether a URL, or one of several, asks for TLS.
    pub(super) fn is_asked_by(self, url: &str) -> bool {
        match self {
            Self::Database => {
                url.contains("sslmode=require") || url.contains("sslmode=verify-full")
            }
            Self::Nats => url.contains("tls://"),
            Self::Redis => url.contains("rediss://"),
            // The client takes a scheme in capitals, too.
            Self::Issuer | Self::Collector => url
                .get(..8)
                .is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://")),
        }
    }
}
