//! What is read from an answer beside its body.

use bytes::Bytes;
use reqwest::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};
use std::time::{Duration, SystemTime};

/// What stands in the place of a secret.
const SECRET: &[u8] = b"[secret]";

/// `Retry-After` as a duration: seconds, or a date. A date is compared with the answer's own
/// `Date`, where it has one: clocks differ, and this is the other side's.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: HeaderName| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .map(str::trim)
    };
    let after = text(RETRY_AFTER)?;
    if !after.is_empty() && after.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that overflows stands for a very long wait; the caller has a bound of its own.
        return Some(Duration::from_secs(
            after.parse().unwrap_or(u64::from(u32::MAX)),
        ));
    }
    let until = httpdate::parse_http_date(after).ok()?;
    let said = text(DATE).and_then(|date| httpdate::parse_http_date(date).ok());
    Some(
        until
            .duration_since(said.unwrap_or(now))
            .unwrap_or_default(),
    )
}

/// The body with each occurrence of a secret taken out.
pub(super) fn without(body: Bytes, secret: &str) -> Bytes {
    let secret = secret.as_bytes();
    let found = |rest: &[u8]| rest.windows(secret.len()).position(|at| at == secret);
    if secret.is_empty() || found(&body).is_none() {
        return body;
    }
    let (mut clean, mut rest) = (Vec::with_capacity(body.len()), &body[..]);
    while let Some(at) = found(rest) {
        clean.extend_from_slice(&rest[..at]);
        clean.extend_from_slice(SECRET);
        rest = &rest[at + secret.len()..];
    }
    clean.extend_from_slice(rest);
    clean.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(retry_after_text: &str, date: Option<&str>) -> Option<u64> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, retry_after_text.parse().unwrap());
        headers.extend(date.map(|date| (DATE, date.parse().unwrap())));
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:00 GMT").unwrap();
        retry_after(&headers, now).map(|after| after.as_secs())
    }

    #[test]
    fn retry_after_is_read_as_seconds_and_as_a_date() {
        let until = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(after("0", None), Some(0));
        assert_eq!(after(" 120 ", None), Some(120));
        assert_eq!(after(until, None), Some(37));
        assert_eq!(
            after(until, Some("Sun, 06 Nov 1994 08:49:30 GMT")),
            Some(7),
            "by the clock of who says it"
        );
        assert_eq!(
            after(until, Some("Sun, 06 Nov 1994 09:00:00 GMT")),
            Some(0),
            "that time has passed"
        );
        assert_eq!(after("Sunday, 06-Nov-94 08:49:37 GMT", None), Some(37));
        assert_eq!(
            after("99999999999999999999999", None),
            Some(u64::from(u32::MAX))
        );
        for nothing in ["", "soon", "-5", "1.5"] {
            assert_eq!(after(nothing, None), None, "{nothing}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), SystemTime::UNIX_EPOCH), None);
    }

    #[test]
    fn a_secret_that_a_service_repeats_is_taken_out() {
        let clean = |body: &'static str| without(Bytes::from_static(body.as_bytes()), "s3cret");
        assert_eq!(
            clean("Bearer s3cret, s3crets3cret!"),
            "Bearer [secret], [secret][secret]!"
        );
        assert_eq!(clean("s3cre"), "s3cre");
        assert_eq!(without(Bytes::from_static(b"x"), ""), "x");
    }
}
