//! Encryption of connections: rustls with ring, the one provider of this program.

pub(crate) use crate::this_machine::is_this_machine;

/// Makes ring the process's provider. Clients of HTTP and of the servers ask for it, also where
/// they speak in the clear; a provider that the program's author has installed before stays.
pub fn install_provider() {
    // The error says that one is there, and one is all that is needed.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
