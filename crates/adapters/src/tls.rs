//! Encryption of connections: rustls with ring, the one provider of this program.

use std::net::IpAddr;

/// Makes ring the process's provider. Clients of HTTP and of the servers ask for it, also where they speak in the
/// clear; a provider that the program's author has installed before stays.
pub fn install_provider() {
    // The error says that one is there, and one is all that is needed.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Whether a host, with or without the brackets of an IPv6 address, means this machine: only there is it safe to speak
/// in the clear without having been told so.
pub(crate) fn is_this_machine(host: &str) -> bool {
    let bare = host.trim_matches(['[', ']']);
    bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}
