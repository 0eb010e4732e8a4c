//! How the API authenticates its callers, as a setting names it.

use serde::Deserialize;

/// How callers are authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum AuthMode {
    /// Not at all; on loopback only.
    #[default]
    None,
    /// By API keys.
    Keys,
    /// By a proxy, which sends the caller in headers.
    Proxy,
    /// By access tokens of an issuer.
    Jwt,
}
