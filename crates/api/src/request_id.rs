//! The id of a request: in its answer, and in every line of the log that the request led to, so
//! that the one is found by the other. It means nothing to tasks.

use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use counterstep_kernel::ports::Random;

/// The header of requests and answers.
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

const LONGEST: usize = 128;

/// The id that a proxy in front gave the request, or a new one. A given one that is long, or that
/// could be mistaken for anything but an id in a log line, is replaced by a new one.
pub(crate) fn of(headers: &HeaderMap, random: &dyn Random) -> HeaderValue {
    let plain = |value: &&HeaderValue| {
        let bytes = value.as_bytes();
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=@".contains(byte);
        (1..=LONGEST).contains(&bytes.len()) && bytes.iter().all(is_plain)
    };
    match headers.get(X_REQUEST_ID).filter(plain) {
        Some(given) => given.clone(),
        None => new(random),
    }
}

fn new(random: &dyn Random) -> HeaderValue {
    let id = uuid::Builder::from_random_bytes(random.bits().to_be_bytes()).into_uuid();
    // A UUID is no more than hexadecimal digits and hyphens.
    HeaderValue::try_from(id.to_string()).unwrap_or_else(|_| HeaderValue::from_static("-"))
}
