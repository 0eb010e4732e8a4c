//! Callers by the headers of a proxy that authenticates them: `Counterstep-Subject`, `Counterstep-Tenant`,
//! `Counterstep-Role`. Only connections from the proxy's own addresses are believed. Must not read a
//! forwarding header: those say who the proxy's client is, not who the proxy is.

use actix_web::HttpRequest;
use counterstep_contracts::access::Role;
use counterstep_contracts::{ProblemCode, Tenant};
use counterstep_kernel::access::api_keys::is_subject;
use counterstep_kernel::webhooks::{AllowedNets, InvalidNet};
use counterstep_operations::{Caller, Refused};

const SUBJECT: &str = "counterstep-subject";
const TENANT: &str = "counterstep-tenant";
const ROLE: &str = "counterstep-role";

/// The addresses of proxies whose headers are believed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedPeers(AllowedNets);

/// A text that names no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid peer `{0}`: expected an IP address or a network, as 10.0.0.7 or 10.0.0.0/24")]
pub struct InvalidPeer(String);

impl TrustedPeers {
    /// Of IP addresses and networks.
    ///
    /// # Errors
    /// [`InvalidPeer`], for what is neither.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, InvalidPeer> {
        AllowedNets::parse(texts)
            .map(Self)
            .map_err(|InvalidNet(text)| InvalidPeer(text))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn caller(&self, request: &HttpRequest) -> Result<Caller, Refused> {
        let peer = request.peer_addr().map(|peer| peer.ip());
        if !peer.is_some_and(|peer| self.0.contains(peer)) {
            let detail = "this server takes requests from its proxy alone: send them there";
            return Err(Refused::new(ProblemCode::Unauthenticated, detail));
        }
        let missing = |name: &str| {
            let detail =
                format!("missing header `{name}` from the proxy, which has to send the caller");
            Refused::new(ProblemCode::Unauthenticated, detail).at(name)
        };
        let subject = header(request, SUBJECT)?.ok_or_else(|| missing(SUBJECT))?;
        let role = header(request, ROLE)?.ok_or_else(|| missing(ROLE))?;
        let tenant = header(request, TENANT)?;
        let tenant = tenant.map_or_else(Tenant::default, |text| Tenant(text.to_owned()));
        if !is_subject(subject) {
            return Err(malformed(SUBJECT, "1 to 100 of A-Z a-z 0-9 . _ @ -"));
        }
        if !tenant.is_valid() {
            return Err(malformed(TENANT, "1 to 64 of A-Z a-z 0-9 . _ -"));
        }
        Ok(Caller {
            tenant,
            subject: Some(subject.to_owned()),
            key: None,
            expires_at: None,
            address: None,
            role: role
                .parse::<Role>()
                .map_err(|_| malformed(ROLE, "read, submit, operate or admin"))?,
        })
    }
}

/// The one value of a header. A client's own may stand beside the proxy's: then none is believed.
fn header<'a>(request: &'a HttpRequest, name: &'static str) -> Result<Option<&'a str>, Refused> {
    let mut given = request.headers().get_all(name);
    let value = given.next().map(|value| value.to_str());
    if given.next().is_some() {
        return Err(malformed(name, "one value"));
    }
    value
        .transpose()
        .map_err(|_| malformed(name, "visible ASCII characters"))
}

fn malformed(name: &'static str, expected: &str) -> Refused {
    let detail = format!("invalid header `{name}` of the proxy: expected {expected}");
    Refused::new(ProblemCode::MalformedAuthorization, detail).at(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::test::TestRequest;

    const FULL: [(&str, &str); 3] = [(SUBJECT, "kim"), (TENANT, "acme"), (ROLE, "operate")];

    fn caller(peer: &str, headers: &[(&'static str, &'static str)]) -> Result<Caller, ProblemCode> {
        let peers =
            TrustedPeers::parse(["10.0.0.7", "192.168.1.0/24", "::ffff:172.16.0.9"]).unwrap();
        let request = TestRequest::default().peer_addr(peer.parse().unwrap());
        let add = |request: TestRequest, &header: &_| request.append_header(header);
        let request = headers.iter().fold(request, add);
        let found = peers.caller(&request.to_http_request());
        found.map_err(|refused| refused.code())
    }

    #[test]
    fn only_the_proxy_is_believed() {
        let kim = Caller {
            tenant: Tenant("acme".to_owned()),
            subject: Some("kim".to_owned()),
            key: None,
            expires_at: None,
            address: None,
            role: Role::Operate,
        };
        for peer in [
            "10.0.0.7:1",
            "192.168.1.9:1",
            "[::ffff:10.0.0.7]:1",
            "172.16.0.9:1",
        ] {
            assert_eq!(caller(peer, &FULL), Ok(kim.clone()), "{peer}");
        }
        for peer in ["10.0.0.8:1", "127.0.0.1:1", "[::1]:1"] {
            assert_eq!(caller(peer, &FULL), Err(ProblemCode::Unauthenticated));
        }
    }

    #[test]
    fn a_header_that_is_missing_doubled_or_malformed_is_refused() {
        let peer = "10.0.0.7:1";
        let no_tenant = caller(peer, &[FULL[0], FULL[2]]);
        assert_eq!(no_tenant.map(|it| it.tenant), Ok(Tenant::default()));
        for (headers, code) in [
            (&[FULL[1], FULL[2]][..], ProblemCode::Unauthenticated),
            (&[FULL[0], FULL[1]], ProblemCode::Unauthenticated),
            (
                &[FULL[0], FULL[1], FULL[2], (TENANT, "other")],
                ProblemCode::MalformedAuthorization,
            ),
            (
                &[(SUBJECT, "a b"), FULL[2]],
                ProblemCode::MalformedAuthorization,
            ),
            (
                &[FULL[0], (TENANT, "../x"), FULL[2]],
                ProblemCode::MalformedAuthorization,
            ),
            (
                &[FULL[0], (ROLE, "root")],
                ProblemCode::MalformedAuthorization,
            ),
        ] {
            assert_eq!(caller(peer, headers), Err(code), "{headers:?}");
        }
    }

    #[test]
    fn what_is_no_address_is_no_peer() {
        for text in ["", "proxy", "10.0.0.0/33", "10.0.0"] {
            let refused = TrustedPeers::parse([text]).unwrap_err().to_string();
            assert!(
                refused.starts_with(&format!("invalid peer `{text}`: expected")),
                "{refused}"
            );
        }
    }
}
