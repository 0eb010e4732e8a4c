//! The certificate with which this program proves itself to a server. Must not read the files: each
//! client wants them in a form of its own.

use std::path::PathBuf;

/// A certificate and its key, as PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate, and behind it those between it and the authority.
    pub cert_file: PathBuf,
    /// Its private key.
    pub key_file: PathBuf,
}
