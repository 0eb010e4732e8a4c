//! Which requests a web page could have made a browser send, and which of those are refused. There
//! are no cookies here, and a page has no API key: what a browser adds is that it reaches the loopback
//! address, and that is what a page could use. Must not look at bodies, and decides nothing about
//! who a caller is.

use crate::app_state::Api;
use crate::mount_path::note_mount_path;
use crate::problem::HttpRefused;
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::http::header::{HOST, HeaderMap, ORIGIN};
use actix_web::http::uri::{Authority, Uri};
use actix_web::middleware::Next;
use actix_web::{Error, web};
use counterstep_contracts::ProblemCode;
use counterstep_operations::Refused;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// What monitors ask. They use the address of a pod, or the name of a service, and what they read
/// is no secret.
const FOR_MONITORS: &[&str] = &["/healthz", "/readyz", "/metrics"];

/// Whether what is at this address answers under any name.
pub(crate) fn is_for_monitors(path: &str) -> bool {
    FOR_MONITORS.contains(&path)
}

/// The names by which this interface may be addressed. `localhost` and every IP address always are:
/// a page gains nothing by an address, since only a name can be made to lead first to the page's
/// server and then to this one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedHosts {
    any: bool,
    names: BTreeSet<String>,
}

/// A name that cannot be allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid host `{0}`: expected a name as in `api.example.com`, without scheme, port and path, or `*` for any"
)]
pub struct InvalidHost(String);

impl AllowedHosts {
    /// Of names without port; `*` allows any.
    ///
    /// # Errors
    /// [`InvalidHost`], for what is no name.
    pub fn parse<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, InvalidHost> {
        let mut allowed = Self::default();
        for name in names {
            let host = host_of(name).filter(|host| host.len() == name.trim_end_matches('.').len());
            match host {
                _ if name == "*" => allowed.any = true,
                Some(host) if !host.contains('*') => drop(allowed.names.insert(host)),
                Some(_) | None => return Err(InvalidHost(name.to_owned())),
            }
        }
        Ok(allowed)
    }

    fn allows(&self, host: &str) -> bool {
        let Some(name) = host_of(host) else {
            return false;
        };
        let address = name.trim_start_matches('[').trim_end_matches(']');
        self.any
            || name == "localhost"
            || address.parse::<IpAddr>().is_ok()
            || self.names.contains(&name)
    }
}

/// The host of `host` or `host:port`, in lower case and without the dot that may end a name.
fn host_of(authority: &str) -> Option<String> {
    let parsed: Authority = authority.parse().ok()?;
    let host = parsed.host().trim_end_matches('.').to_ascii_lowercase();
    // `user@host` is for URLs, and no value of the header.
    (!host.is_empty() && !authority.contains('@')).then_some(host)
}

/// Wraps the routes.
pub(crate) async fn guard(
    api: web::Data<Api>,
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let path = note_mount_path(request.request(), &api.settings.path);
    if !FOR_MONITORS.contains(&path.as_str()) {
        check_host(request.headers(), &api.settings.allowed_hosts)
            .and_then(|()| check_origin(request.method(), request.headers()))
            .map_err(HttpRefused::from)?;
    }
    next.call(request).await
}

/// A name that its owner lets lead to this address makes this interface a part of the owner's site
/// (DNS rebinding): the page could read all of it.
pub(crate) fn check_host(headers: &HeaderMap, allowed: &AllowedHosts) -> Result<(), Refused> {
    let other = headers
        .get_all(HOST)
        .find(|value| !value.to_str().is_ok_and(|host| allowed.allows(host)));
    let Some(host) = other else { return Ok(()) };
    let host = String::from_utf8_lossy(host.as_bytes());
    let detail = format!(
        "this server does not answer for the host `{}`: use localhost or its IP address, or start it with \
         --allowed-hosts and the names by which it may be addressed",
        host.chars()
            .take(255)
            .flat_map(char::escape_default)
            .collect::<String>()
    );
    Err(Refused::new(ProblemCode::HostNotAllowed, detail).at("Host"))
}

/// A page may send forms and simple requests to any site, although it cannot read their answers.
/// Browsers say for each request which kind of page sends it (`Sec-Fetch-Site`), old ones and those
/// that do not trust the connection at least the page's origin. Another port of the same machine is
/// another origin: `same-site` is refused too.
pub(crate) fn check_origin(method: &Method, headers: &HeaderMap) -> Result<(), Refused> {
    if method.is_safe() {
        return Ok(());
    }
    let text = |name: &str| {
        headers
            .get(name)
            .map(|value| value.to_str().unwrap_or_default())
    };
    let own = match (text("sec-fetch-site"), text(ORIGIN.as_str())) {
        (Some(site), _) => matches!(site, "same-origin" | "none"),
        (None, Some(origin)) => {
            let origin: Option<Uri> = origin.parse().ok();
            let host = origin
                .as_ref()
                .and_then(Uri::authority)
                .map(Authority::as_str);
            host.is_some_and(|host| {
                text(HOST.as_str()).is_some_and(|own| own.eq_ignore_ascii_case(host))
            })
        }
        // No browser: it cannot be made to send anything by a page.
        (None, None) => true,
    };
    if own {
        return Ok(());
    }
    let detail = "a page of another site sends this request, which changes something: send it from a page of this \
                  origin, or from a program that is no browser";
    Err(Refused::new(ProblemCode::CrossSite, detail).at("Origin"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::http::header::{HeaderName, HeaderValue};

    fn headers(given: &[(&'static str, &'static str)]) -> HeaderMap {
        given
            .iter()
            .map(|&(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v)))
            .collect()
    }

    #[test]
    fn addresses_and_localhost_are_allowed_and_names_must_be_named() {
        let allowed = AllowedHosts::parse(["api.example.com", "Counterstep"]).unwrap();
        for host in [
            "localhost",
            "LOCALHOST:8080",
            "127.0.0.1:8080",
            "127.1.2.3",
            "10.1.2.3:80",
            "[::1]:8080",
            "[::1]",
            "api.example.com.",
            "API.example.com:443",
            "counterstep:8080",
        ] {
            assert!(allowed.allows(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "x@localhost",
            "localhost@evil.example",
            "sub.api.example.com",
            "a b",
            "2130706433",
        ] {
            assert!(!allowed.allows(host), "{host}");
        }
        assert!(AllowedHosts::parse(["*"]).unwrap().allows("evil.example"));
    }

    #[test]
    fn what_is_no_name_cannot_be_allowed() {
        for name in [
            "",
            "https://a.example",
            "a.example:80",
            "a.example/x",
            "a b",
            "*.example",
            "u@a.example",
        ] {
            let refused = AllowedHosts::parse([name]).unwrap_err().to_string();
            assert!(
                refused.starts_with(&format!("invalid host `{name}`: expected")),
                "{refused}"
            );
        }
    }

    #[test]
    fn only_its_own_pages_and_no_browser_change_anything() {
        let own = ("host", "localhost:8080");
        for (given, fine) in [
            (&[own][..], true),
            (&[own, ("sec-fetch-site", "same-origin")], true),
            (&[own, ("sec-fetch-site", "none")], true),
            (&[own, ("sec-fetch-site", "same-site")], false),
            (&[own, ("sec-fetch-site", "cross-site")], false),
            // What the browser says of the page comes before an origin, which a proxy may not have
            // rewritten.
            (
                &[
                    own,
                    ("sec-fetch-site", "same-origin"),
                    ("origin", "https://api.example.com"),
                ],
                true,
            ),
            (&[own, ("origin", "http://localhost:8080")], true),
            (&[own, ("origin", "http://localhost:3000")], false),
            (&[own, ("origin", "http://evil.example")], false),
            (&[own, ("origin", "null")], false),
        ] {
            for (method, safe) in [
                (Method::POST, false),
                (Method::PUT, false),
                (Method::DELETE, false),
                (Method::GET, true),
            ] {
                assert_eq!(
                    check_origin(&method, &headers(given)).is_ok(),
                    fine || safe,
                    "{method} {given:?}"
                );
            }
        }
    }
}
