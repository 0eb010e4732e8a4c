//! Which hosts are this machine.

use std::net::IpAddr;

/// Whether a host, with or without the brackets of an IPv6 address, means this machine: only there
/// is it safe to speak in the clear without having been told so.
#[must_use]
pub fn is_this_machine(host: &str) -> bool {
    let bare = host.trim_matches(['[', ']']);
    bare.eq_ignore_ascii_case("localhost")
        || bare
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}
