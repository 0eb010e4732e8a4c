//! The request headers that the routes read, each checked where it is read. Must not look at a
//! body.

use crate::app_state::Api;
use crate::problem::{malformed, webhooks_off};
use actix_web::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap, IF_NONE_MATCH};
use actix_web::{HttpMessage, HttpRequest};
use counterstep_contracts::ProblemCode;
use counterstep_kernel::webhooks::WebhookUrl;
use counterstep_operations::Refused;
use std::time::Duration;

/// What the body of a submission is, by its content type.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BodyKind {
    /// `application/json`.
    Json,
    /// `multipart/form-data` with this boundary.
    Form {
        /// Without the two hyphens.
        boundary: String,
    },
}

/// The kind of the body.
pub(crate) fn body_kind(request: &HttpRequest) -> Result<BodyKind, Refused> {
    let other = || {
        Refused::new(
            ProblemCode::UnsupportedMediaType,
            "send `Content-Type: application/json`, or multipart/form-data where there are files",
        )
        .at("Content-Type")
    };
    // Unpacking what a client packed would let a small body grow beyond every limit.
    if request
        .headers()
        .get_all(CONTENT_ENCODING)
        .any(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        let detail = "a compressed body is not accepted: send it without Content-Encoding";
        return Err(Refused::new(ProblemCode::UnsupportedMediaType, detail).at("Content-Encoding"));
    }
    let no_boundary = || {
        let detail = "the Content-Type of a form needs a `boundary` of 1 to 70 ASCII characters, in quotes where it is \
                      more than letters, digits and hyphens";
        malformed(detail).at("Content-Type")
    };
    let media_type = match request.mime_type() {
        Ok(Some(media_type)) => media_type,
        // An empty or unquoted boundary makes the whole header unreadable.
        Err(_)
            if request
                .content_type()
                .eq_ignore_ascii_case("multipart/form-data") =>
        {
            return Err(no_boundary());
        }
        Ok(None) | Err(_) => return Err(other()),
    };
    match media_type.essence_str() {
        "application/json" => match media_type.get_param("charset") {
            Some(charset) if !charset.as_str().eq_ignore_ascii_case("utf-8") => Err(other()),
            Some(_) | None => Ok(BodyKind::Json),
        },
        "multipart/form-data" => {
            let boundary = media_type
                .get_param("boundary")
                .map(|value| value.as_str().to_owned())
                .unwrap_or_default();
            if (1..=70).contains(&boundary.len())
                && boundary.bytes().all(|b| (b' '..=b'~').contains(&b))
            {
                Ok(BodyKind::Form { boundary })
            } else {
                Err(no_boundary())
            }
        }
        _ => Err(other()),
    }
}

/// The `Last-Event-ID`: up to which event of a stream the client has them all.
pub(crate) fn last_event_id(request: &HttpRequest) -> Result<Option<i64>, Refused> {
    // Empty, as of a client that has none yet, it counts as absent.
    let sent = request.headers().get_all("last-event-id");
    let mut sent = sent.filter(|value| !value.as_bytes().trim_ascii().is_empty());
    let Some(value) = sent.next() else {
        return Ok(None);
    };
    let id: Option<i64> = value.to_str().ok().and_then(|text| text.parse().ok());
    id.filter(|id| *id >= 0 && sent.next().is_none())
        .map(Some)
        .ok_or_else(|| {
            let detail = "`Last-Event-ID` is the id of an event of this stream, a whole number; to get all, leave it out";
            Refused::new(ProblemCode::MalformedParameter, detail).at("Last-Event-ID")
        })
}

/// The `Content-Length`, where there is one.
pub(crate) fn content_length(request: &HttpRequest) -> Option<u64> {
    request
        .headers()
        .get(CONTENT_LENGTH)?
        .to_str()
        .ok()?
        .parse()
        .ok()
}

/// The `Idempotency-Key`, where there is one. In quotes, as the draft of the IETF has it, and
/// without them, as most clients send it, it is the same key.
pub(crate) fn idempotency_key(request: &HttpRequest) -> Result<Option<String>, Refused> {
    let mut values = request.headers().get_all("idempotency-key");
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let key = value.to_str().ok().and_then(|text| {
        if text.starts_with('"') {
            unquoted(text)
        } else {
            Some(text.into())
        }
    });
    let key = key.filter(|key| is_key(key));
    match (key, values.next()) {
        (Some(key), None) => Ok(Some(key)),
        _ => {
            let detail = "invalid Idempotency-Key: expected one header of 1 to 255 visible ASCII characters without \
                          spaces, all of it in quotes or none";
            Err(Refused::new(ProblemCode::MalformedIdempotencyKey, detail).at("Idempotency-Key"))
        }
    }
}

/// Whether a text can be an idempotency key.
pub(crate) fn is_key(key: &str) -> bool {
    (1..=255).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The text of a string in quotes (RFC 8941), where it is one and nothing else.
fn unquoted(text: &str) -> Option<String> {
    let mut inner = text.strip_prefix('"')?.strip_suffix('"')?.chars();
    let mut out = String::new();
    while let Some(c) = inner.next() {
        match c {
            '"' => return None,
            '\\' => out.push(inner.next().filter(|c| matches!(c, '"' | '\\'))?),
            c => out.push(c),
        }
    }
    Some(out)
}

/// How long an answer may be waited for by `Prefer: wait=10` (RFC 7240), in seconds. What cannot be
/// read of a preference is ignored, as that text demands.
pub(crate) fn preferred_wait(request: &HttpRequest) -> Option<Duration> {
    let values = request
        .headers()
        .get_all("prefer")
        .filter_map(|value| value.to_str().ok());
    let mut preferences = values
        .flat_map(|value| value.split(','))
        .filter_map(|preference| {
            let (name, value) = preference.split(';').next()?.split_once('=')?;
            name.trim()
                .eq_ignore_ascii_case("wait")
                .then(|| value.trim().trim_matches('"').to_owned())
        });
    preferences.next()?.parse().ok().map(Duration::from_secs)
}

/// Where the client is told when its task comes to rest: the header `Counterstep-Webhook`.
pub(crate) fn webhook(api: &Api, request: &HttpRequest) -> Result<Option<WebhookUrl>, Refused> {
    let mut given = request.headers().get_all("counterstep-webhook");
    let Some(header) = given.next() else {
        return Ok(None);
    };
    if given.next().is_some() {
        let detail = "the request names several addresses: send one Counterstep-Webhook";
        return Err(Refused::new(ProblemCode::InvalidWebhook, detail).at("Counterstep-Webhook"));
    }
    webhook_at(api, header.to_str().unwrap_or_default()).map(Some)
}

/// An address that a client names for a webhook.
pub(crate) fn webhook_at(api: &Api, text: &str) -> Result<WebhookUrl, Refused> {
    if api.settings.webhooks.is_none() {
        return Err(webhooks_off().at("Counterstep-Webhook"));
    }
    let read = WebhookUrl::parse(text, &api.engine.settings.webhook_allow);
    read.map_err(|error| {
        Refused::new(ProblemCode::InvalidWebhook, error.to_string()).at("Counterstep-Webhook")
    })
}

/// The `traceparent`, where it is well-formed (W3C Trace Context); one that is not is ignored, as
/// that text demands.
pub(crate) fn traceparent(headers: &HeaderMap) -> Option<String> {
    let text = headers.get("traceparent")?.to_str().ok()?;
    is_traceparent(text).then(|| text.to_owned())
}

fn is_traceparent(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [version, trace, parent, flags] = parts[..] else {
        return false;
    };
    let is_hex = |part: &str, length: usize| {
        part.len() == length
            && part
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let is_zero = |part: &str| part.bytes().all(|b| b == b'0');
    is_hex(version, 2)
        && version != "ff"
        && is_hex(trace, 32)
        && !is_zero(trace)
        && is_hex(parent, 16)
        && !is_zero(parent)
        && is_hex(flags, 2)
}

/// Whether `If-None-Match` names this ETag, or any.
pub(crate) fn has_current(request: &HttpRequest, etag: &str) -> bool {
    let values = request
        .headers()
        .get_all(IF_NONE_MATCH)
        .filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::test::TestRequest;

    #[test]
    fn only_a_well_formed_traceparent_is_taken() {
        assert!(is_traceparent(
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        ));
        for text in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert!(!is_traceparent(text), "{text}");
        }
    }

    #[test]
    fn a_boundary_may_be_quoted() {
        let request = TestRequest::default()
            .insert_header(("content-type", "multipart/form-data; boundary=\"a b\""))
            .to_http_request();
        assert_eq!(
            body_kind(&request).unwrap(),
            BodyKind::Form {
                boundary: "a b".to_owned()
            }
        );
    }

    #[test]
    fn a_key_is_the_same_with_and_without_quotes() {
        let key = |text: &str| {
            let request = TestRequest::default()
                .insert_header(("idempotency-key", text))
                .to_http_request();
            idempotency_key(&request).ok().flatten()
        };
        assert_eq!(
            (key("abc"), key("\"abc\"")),
            (Some("abc".into()), Some("abc".into()))
        );
        assert_eq!(key(r#""a\"b\\c""#), Some(r#"a"b\c"#.into()));
        for text in [
            r#"""#, r#""""#, r#""abc"#, r#""a b""#, r#""a"b""#, r#""a\""#, r#""a\b""#, "a b", "",
        ] {
            assert_eq!(key(text), None, "{text}");
        }
    }

    #[test]
    fn a_preference_that_cannot_be_read_is_ignored() {
        for (text, expected) in [
            ("wait=10", Some(10)),
            ("respond-async, Wait = 10; x=y", Some(10)),
            ("wait=\"3\"", Some(3)),
            ("wait=30s", None),
            ("wait", None),
            ("respond-async", None),
            ("wait=-1", None),
        ] {
            let request = TestRequest::default()
                .insert_header(("prefer", text))
                .to_http_request();
            assert_eq!(
                preferred_wait(&request),
                expected.map(Duration::from_secs),
                "{text}"
            );
        }
    }

    #[test]
    fn etags_are_compared_weakly() {
        for (header, expected) in [
            ("\"r1\"", true),
            ("W/\"r1\"", true),
            ("\"r0\", \"r1\"", true),
            ("*", true),
            ("\"r2\"", false),
            ("r1", false),
        ] {
            let request = TestRequest::default()
                .insert_header(("if-none-match", header))
                .to_http_request();
            assert_eq!(has_current(&request, "\"r1\""), expected, "{header}");
        }
    }
}
