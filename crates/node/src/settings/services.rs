//! Services that steps call, as the file names them.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// `[services.NAME]`.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Where it is; no part of it is a secret.
    pub url: String,
    /// File with a token for `Authorization: Bearer`.
    pub token_file: Option<PathBuf>,
    /// Files with the values of other headers, by header.
    #[serde(default)]
    pub header_files: BTreeMap<String, PathBuf>,
    /// PEM file with the authorities that its certificate may come from.
    pub ca_file: Option<PathBuf>,
    /// Whether it may be another machine without TLS.
    #[serde(default)]
    pub allow_plaintext: bool,
}

/// Without the URL: whoever wrote a password into it is told so elsewhere, and not by repeating it.
impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("token_file", &self.token_file).finish_non_exhaustive()
    }
}
