//! Where webhooks may go: to `https` addresses of the public internet, and where the operator allows it to
//! named networks. Must not resolve a name: who connects checks what it resolves to.

use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use url::{Host, Url};

/// Maximum characters of an address.
const LONGEST: usize = 2_000;

/// Networks of the IANA registries of special-purpose IPv4 addresses that no public server has, and
/// addresses inside of clouds that look public.
const PRIVATE_V4: &[(Ipv4Addr, u8)] = &[
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    // Azure's platform, as its virtual machines see it.
    (Ipv4Addr::new(168, 63, 129, 16), 32),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    // Multicast, and all above it.
    (Ipv4Addr::new(224, 0, 0, 0), 3),
];

/// The same within the global unicast addresses of IPv6, outside of which there is no public server.
/// Those that carry an IPv4 address to somewhere (6to4, Teredo) are among them.
const PRIVATE_V6: &[(Ipv6Addr, u8)] = &[
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0x0db8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// Networks that webhooks may reach although they are private, without TLS and at any port; and ports besides that of their scheme that
/// they may reach elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedNets {
    nets: Vec<IpNet>,
    ports: Vec<u16>,
}

/// A text that names no network and no port.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid network or port `{0}`: expected an IP address, a network or a port, as 10.0.0.7, 10.0.0.0/24 or :8443"
)]
pub struct InvalidNet(pub String);

impl AllowedNets {
    /// Of IP addresses, networks, and ports with a colon before them.
    ///
    /// # Errors
    /// [`InvalidNet`], for what is neither.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, InvalidNet> {
        let mut allowed = Self::default();
        for text in texts {
            let invalid = || InvalidNet(text.escape_debug().to_string());
            let port = text.strip_prefix(':').and_then(|port| port.parse().ok());
            if let Some(port) = port.filter(|port| *port != 0) {
                allowed.ports.push(port);
                continue;
            }
            let address = text.parse::<IpAddr>().map(IpNet::from);
            let net = address.or_else(|_| text.parse::<IpNet>());
            allowed
                .nets
                .push(net.map(canonical).map_err(|_| invalid())?);
        }
        Ok(allowed)
    }

    /// Whether there is no network.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nets.is_empty()
    }

    /// Whether an address is in one of them.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.nets.iter().any(|net| net.contains(&address))
    }

    /// Whether webhooks may reach an address; `in_clear`: without TLS.
    #[must_use]
    pub fn admits(&self, address: IpAddr, in_clear: bool) -> bool {
        self.contains(address) || (!in_clear && is_public(address))
    }
}

/// IPv4 addresses written as IPv6 (`::ffff:10.0.0.7`) as what they are, like the addresses that are compared.
fn canonical(net: IpNet) -> IpNet {
    let v4 = match net {
        IpNet::V6(v6) if v6.prefix_len() >= 96 => v6.addr().to_ipv4_mapped().map(|v4| (v4, v6)),
        _ => None,
    };
    v4.and_then(|(v4, v6)| IpNet::new(v4.into(), v6.prefix_len() - 96).ok())
        .unwrap_or(net)
}

/// Whether an address can be that of a public server.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => !is_in_v4(v4),
        IpAddr::V6(v6) => {
            let is_global = v6.segments()[0] & 0xe000 == 0x2000;
            let is_special = PRIVATE_V6.iter().any(|(net, bits)| {
                let mask = u128::MAX << (128 - u32::from(*bits));
                v6.to_bits() & mask == net.to_bits()
            });
            is_global && !is_special
        }
    }
}

fn is_in_v4(address: Ipv4Addr) -> bool {
    PRIVATE_V4.iter().any(|(net, bits)| {
        let mask = u32::MAX << (32 - u32::from(*bits));
        address.to_bits() & mask == net.to_bits()
    })
}

/// An address to which a webhook may go, as far as it says by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookUrl(String);

/// An address to which no webhook goes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid address of a webhook: {0}")]
pub struct InvalidUrl(&'static str);

impl WebhookUrl {
    /// Reads an address as a browser does: `127.1` and `2130706433` are 127.0.0.1.
    ///
    /// # Errors
    /// [`InvalidUrl`].
    pub fn parse(text: &str, allowed: &AllowedNets) -> Result<Self, InvalidUrl> {
        if text.len() > LONGEST || !text.bytes().all(|it| it.is_ascii_graphic()) {
            return Err(InvalidUrl("expected up to 2,000 visible ASCII characters"));
        }
        let url = Url::parse(text)
            .map_err(|_| InvalidUrl("expected a URL, as https://example.com/hook"))?;
        let in_clear = match url.scheme() {
            "https" => false,
            "http" if !allowed.is_empty() => true,
            _ => return Err(InvalidUrl("expected https")),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(InvalidUrl("expected no user and no password"));
        }
        if url.fragment().is_some() {
            return Err(InvalidUrl("expected no fragment"));
        }
        let address = match url.host() {
            None => return Err(InvalidUrl("expected a host")),
            Some(Host::Ipv4(v4)) => Some(IpAddr::V4(v4)),
            Some(Host::Ipv6(v6)) => Some(IpAddr::V6(v6)),
            Some(Host::Domain(name)) => {
                if allowed.is_empty() && is_local(name) {
                    return Err(InvalidUrl("expected a public host"));
                }
                None
            }
        };
        if address.is_some_and(|address| !allowed.admits(address, in_clear)) {
            return Err(InvalidUrl("expected a public address"));
        }
        // Other ports are other protocols, whose servers might take the body for theirs.
        let is_usual = url.port().is_none();
        let is_within = address.is_some_and(|address| allowed.contains(address));
        if !is_usual && !is_within && !url.port().is_some_and(|port| allowed.ports.contains(&port))
        {
            return Err(InvalidUrl(
                "expected port 443, or one that the operator allows",
            ));
        }
        Ok(Self(url.into()))
    }

    /// The address in its normal form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Names that lead to this machine or stay in its network.
fn is_local(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    let ends = |last: &str| name == last || name.ends_with(&format!(".{last}"));
    !name.contains('.')
        || ["localhost", "local", "internal", "localdomain"]
            .into_iter()
            .any(ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(text: &str) -> bool {
        WebhookUrl::parse(text, &AllowedNets::default()).is_ok()
    }

    #[test]
    fn only_https_to_the_public_internet_is_taken() {
        for text in [
            "https://example.com/hook?x=1",
            "https://example.com:443/",
            "https://8.8.8.8/",
            "https://[2606:4700::1111]/",
        ] {
            assert!(takes(text), "{text}");
        }
        for text in [
            "http://example.com/",
            "https://127.0.0.1/",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://0177.0.0.1/",
            "https://127.1/",
            "https://0/",
            "https://[::1]/",
            "https://[::]/",
            "https://[::ffff:127.0.0.1]/",
            "https://[::ffff:7f00:1]/",
            "https://[64:ff9b::7f00:1]/",
            "https://[2002:7f00:1::]/",
            "https://[fe80::1]/",
            "https://[fd00::1]/",
            "https://169.254.169.254/latest/meta-data",
            "https://10.1.2.3/",
            "https://172.16.0.1/",
            "https://192.168.1.1/",
            "https://100.64.0.1/",
            "https://100.100.100.200/",
            "https://168.63.129.16/",
            "https://[::ffff:168.63.129.16]/",
            "https://192.0.0.8/",
            "https://198.18.0.1/",
            "https://224.0.0.1/",
            "https://255.255.255.255/",
            "https://\u{2460}\u{2461}\u{2466}.0.0.1/",
            "https://%31%32%37.0.0.1/",
            "https://localhost/",
            "https://LOCALHOST./",
            "https://a.localhost/",
            "https://printer/",
            "https://db.internal/",
            "https://user@example.com/",
            "https://user:secret@example.com/",
            "https://example.com/#x",
            "https://example.com:22/",
            "https://example.com:25/",
            "https://example.com:8443/",
            "https://example.com:80/",
            "https://example.com:0/",
            "file:///etc/passwd",
            "gopher://example.com/",
            "https:///",
            "https://",
            "//example.com/",
            "example.com",
            "",
            "https://exa mple.com/",
            "https://example.com/\r\nx: y",
        ] {
            assert!(!takes(text), "{text}");
        }
        assert!(!takes(&format!(
            "https://example.com/{}",
            "x".repeat(2_000)
        )));
    }

    #[test]
    fn networks_that_the_operator_allows_are_taken_without_tls_too() {
        let allowed = AllowedNets::parse(["127.0.0.0/8", "10.1.2.3", "fd00::/8", ":8443"]).unwrap();
        let takes = |text: &str| WebhookUrl::parse(text, &allowed).is_ok();
        for text in [
            "http://127.0.0.1:8080/hook",
            "http://127.1/",
            "https://10.1.2.3/",
            "http://[fd12::1]/",
            "http://[::ffff:127.0.0.1]/",
            "https://example.com/",
            "https://example.com:8443/",
            "http://receiver:8443/",
            // What it resolves to is known when it is sent.
            "http://receiver/",
        ] {
            assert!(takes(text), "{text}");
        }
        for text in [
            "http://8.8.8.8/",
            "http://receiver:8080/",
            "https://example.com:22/",
            "http://10.1.2.4/",
            "https://169.254.169.254/",
            "ftp://127.0.0.1/",
        ] {
            assert!(!takes(text), "{text}");
        }
        for text in ["10.0.0.0/33", ":", ":0", ":65536", "8443"] {
            assert!(AllowedNets::parse([text]).is_err(), "{text}");
        }
        let port = AllowedNets::parse([":8443"]).unwrap();
        assert!(WebhookUrl::parse("https://example.com:8443/", &port).is_ok());
        assert!(WebhookUrl::parse("http://example.com:8443/", &port).is_err());
    }

    #[test]
    fn a_network_of_ipv4_addresses_may_be_written_as_ipv6() {
        let nets = AllowedNets::parse(["::ffff:10.1.2.3", "::ffff:192.168.0.0/112"]).unwrap();
        for (address, is_in) in [
            ("10.1.2.3", true),
            ("::ffff:10.1.2.3", true),
            ("192.168.7.9", true),
            ("10.1.2.4", false),
            ("192.169.0.1", false),
        ] {
            assert_eq!(nets.contains(address.parse().unwrap()), is_in, "{address}");
        }
    }
}
