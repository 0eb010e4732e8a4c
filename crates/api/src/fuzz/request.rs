//! What stands around a body: headers and query string. What is accepted has the form that the
//! documentation gives it, and is accepted again when it is written in that form.

use super::{json, line};
use crate::auth::bearer;
use crate::headers;
use crate::label_header;
use crate::origins::{AllowedHosts, check_host, check_origin};
use crate::request_id;
use crate::routes::fuzzed;
use actix_web::HttpRequest;
use actix_web::http::Method;
use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::http::uri::Uri;
use actix_web::test::TestRequest;
use counterstep_contracts::Labels;
use counterstep_contracts::labels::{MOST_LABELS, is_label_name};
use counterstep_kernel::access::api_keys::ApiKey;
use counterstep_kernel::ports::Random;
use counterstep_kernel::webhooks::{AllowedNets, WebhookUrl};
use std::sync::LazyLock;

static SOME_NETS: LazyLock<AllowedNets> = LazyLock::new(|| {
    AllowedNets::parse(["127.0.0.0/8", "10.1.2.3", "fd00::/8"]).expect("these are networks")
});

/// Headers of one request, at most: the server's own limit is near.
const MOST_HEADERS: usize = 64;

/// Reads a request: its query string up to a line break; headers as `name: value`, a line each; an empty line; the body.
///
/// # Panics
/// Where a rule is broken.
pub fn request(input: &[u8]) {
    let (query, mut rest) = line(input);
    let mut request = TestRequest::default();
    if let Ok(query) = std::str::from_utf8(query)
        && let Ok(uri) = Uri::try_from(format!("/api/tasks?{query}"))
    {
        request = request.uri(&uri.to_string());
    }
    for _ in 0..MOST_HEADERS {
        let (header, after) = line(rest);
        rest = after;
        if header.is_empty() {
            break;
        }
        let Some(colon) = memchr::memchr(b':', header) else {
            continue;
        };
        let name = HeaderName::from_bytes(header[..colon].trim_ascii());
        let value = HeaderValue::from_bytes(header[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            request = request.append_header((name, value));
        }
    }
    let request = request.method(Method::GET).to_http_request();
    head(&request);
    labels(&request);
    credential(&request);
    webhook(&request);
    fuzzed::query(&request);
    fuzzed::range(&request);
    json::body(rest);
}

fn head(request: &HttpRequest) {
    let _ = headers::body_kind(request);
    let _ = headers::content_length(request);
    let _ = headers::preferred_wait(request);
    let _ = headers::has_current(request, "\"r1\"");
    if let Ok(Some(id)) = headers::last_event_id(request) {
        assert!(id >= 0, "{id}");
    }
    if let Ok(Some(key)) = headers::idempotency_key(request) {
        assert!(
            (1..=255).contains(&key.len()) && key.bytes().all(|it| it.is_ascii_graphic()),
            "{key:?}"
        );
        let quoted = key.replace('\\', "\\\\").replace('"', "\\\"");
        let again = with("idempotency-key", &format!("\"{quoted}\""));
        assert_eq!(headers::idempotency_key(&again).ok().flatten(), Some(key));
    }
    if let Some(parent) = headers::traceparent(request.headers()) {
        assert_eq!(parent.len(), 55, "{parent:?}");
    }
    let id = request_id::of(request.headers(), &Fixed);
    assert!(
        id.to_str().is_ok_and(|id| (1..=128).contains(&id.len())),
        "{id:?}"
    );
    let hosts = request
        .headers()
        .get("host")
        .and_then(|value| value.to_str().ok());
    let named = AllowedHosts::parse(hosts);
    if named.is_ok_and(|named| hosts.is_some() && named != AllowedHosts::default()) {
        let allowed = AllowedHosts::parse(hosts).expect("it was read");
        let own = with("host", hosts.unwrap_or_default());
        assert!(
            hosts == Some("*") || check_host(own.headers(), &allowed).is_ok(),
            "{hosts:?}"
        );
    }
    let _ = check_host(request.headers(), &AllowedHosts::default());
    let _ = check_origin(&Method::POST, request.headers());
}

fn labels(request: &HttpRequest) {
    let Ok(labels) = label_header::labels(request) else {
        return;
    };
    assert!(labels.len() <= MOST_LABELS);
    let mut written = Vec::new();
    for (name, value) in labels.iter() {
        assert!(is_label_name(name), "{name:?}");
        assert!(
            (1..=256).contains(&value.len()) && !value.contains(char::is_control),
            "{value:?}"
        );
        let value = value.replace('\\', "\\\\").replace('"', "\\\"");
        written.push(format!("{name}=\"{value}\""));
    }
    let again = label_header::labels(&with("counterstep-label", &written.join(", ")));
    let again: Labels = again.expect("these are labels");
    assert_eq!(again, labels);
}

fn credential(request: &HttpRequest) {
    let Ok(token) = bearer::token(request) else {
        return;
    };
    assert!(
        !token.is_empty() && token.trim() == token,
        "a blank at an end of a token"
    );
    if let Some(key) = ApiKey::parse(token) {
        assert_eq!(key.expose(), token);
        assert!(key.id().len() == 16, "{key:?}");
    }
}

fn webhook(request: &HttpRequest) {
    let Some(text) = request.headers().get("counterstep-webhook") else {
        return;
    };
    let text = text.to_str().unwrap_or_default();
    for allowed in [&AllowedNets::default(), &*SOME_NETS] {
        let Ok(url) = WebhookUrl::parse(text, allowed) else {
            continue;
        };
        let url = url.as_str();
        let is_tls = url.starts_with("https://");
        assert!(
            is_tls || (url.starts_with("http://") && !allowed.is_empty()),
            "{url}"
        );
        let authority = url.split('/').nth(2).unwrap_or_default();
        assert!(!authority.is_empty() && !authority.contains('@'), "{url}");
        assert!(
            !url.contains('#') && url.bytes().all(|it| it.is_ascii_graphic()),
            "{url}"
        );
        // The task's row has the normal form, and who delivers reads it again.
        let again = WebhookUrl::parse(url, allowed);
        assert_eq!(again.as_ref().map(WebhookUrl::as_str), Ok(url), "{text}");
    }
}

/// A request with one header.
fn with(name: &'static str, value: &str) -> HttpRequest {
    let value = HeaderValue::from_bytes(value.as_bytes()).expect("no control characters");
    let request = TestRequest::default().append_header((HeaderName::from_static(name), value));
    request.to_http_request()
}

/// Ids need not differ here.
#[derive(Debug)]
struct Fixed;

impl Random for Fixed {
    fn bits(&self) -> u128 {
        7
    }
}
