//! What the browser keeps: the credential of a person who has signed in, a random value that forms are bound
//! to, and what a person has chosen. Must not decide who the caller is: the interface does.

use actix_web::http::header::{COOKIE, HeaderValue, SET_COOKIE};
use actix_web::{HttpRequest, HttpResponse};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The credential. Gone when the browser is closed.
const CREDENTIAL: &str = "counterstep_credential";

/// What tokens of forms are made of.
const FORMS: &str = "counterstep_forms";

/// A choice is kept for a year from when it was made, in seconds.
const YEAR: u32 = 365 * 86_400;

/// Sends a cookie along with an answer.
pub(crate) fn set(answer: &mut HttpResponse, cookie: Option<HeaderValue>) {
    if let Some(cookie) = cookie {
        answer.headers_mut().append(SET_COOKIE, cookie);
    }
}

/// What this browser keeps of a choice: any text, since a person may change a cookie.
pub(crate) fn choice<'a>(request: &'a HttpRequest, name: &str) -> Option<&'a str> {
    sent(request, name)
}

/// Keeps a choice; an empty one: none any more.
pub(crate) fn with_choice(
    request: &HttpRequest,
    path: &str,
    name: &str,
    value: &str,
) -> Option<HeaderValue> {
    let seconds = if value.is_empty() { 0 } else { YEAR };
    cookie(request, path, (name, value), Some(seconds))
}

/// The credential of this browser.
pub(crate) fn credential(request: &HttpRequest) -> Option<String> {
    let value = sent(request, CREDENTIAL)?;
    is_value(value).then(|| value.to_owned())
}

/// Whether a text can stand in a cookie: what cannot is no credential.
pub(crate) fn is_value(text: &str) -> bool {
    let is_octet = |byte: u8| byte.is_ascii_graphic() && !b"\",;\\".contains(&byte);
    !text.is_empty() && text.bytes().all(is_octet)
}

/// Keeps a credential; an empty one: none any more.
pub(crate) fn with_credential(
    request: &HttpRequest,
    path: &str,
    value: &str,
) -> Option<HeaderValue> {
    let seconds = value.is_empty().then_some(0);
    cookie(request, path, (CREDENTIAL, value), seconds)
}

/// The value that this browser's forms are bound to, and the cookie that keeps it where it is new.
pub(crate) fn of_forms(request: &HttpRequest, path: &str) -> (String, Option<HeaderValue>) {
    let is_ours =
        |value: &&str| value.len() == 32 && value.bytes().all(|it| it.is_ascii_hexdigit());
    match sent(request, FORMS).filter(is_ours) {
        Some(value) => (value.to_owned(), None),
        None => {
            let value = uuid::Uuid::now_v7().simple().to_string();
            let cookie = cookie(request, path, (FORMS, &value), None);
            (value, cookie)
        }
    }
}

/// What each form of a page sends along. Another site can neither read the cookie nor, where it could set
/// one, know the credential.
pub(crate) fn form_token(of_forms: &str, credential: Option<&str>) -> String {
    URL_SAFE_NO_PAD.encode(mac(of_forms, credential).finalize().into_bytes())
}

/// Whether a form has sent that.
pub(crate) fn is_form_token(token: &str, of_forms: &str, credential: Option<&str>) -> bool {
    let given = URL_SAFE_NO_PAD.decode(token).unwrap_or_default();
    // In constant time.
    mac(of_forms, credential).verify_slice(&given).is_ok()
}

fn mac(of_forms: &str, credential: Option<&str>) -> Hmac<Sha256> {
    // A key may have any length.
    let mut mac = Hmac::<Sha256>::new_from_slice(of_forms.as_bytes())
        .unwrap_or_else(|_| Hmac::new(&Default::default()));
    mac.update(credential.unwrap_or_default().as_bytes());
    mac
}

/// The value of a cookie, as the browser has sent it.
fn sent<'a>(request: &'a HttpRequest, name: &str) -> Option<&'a str> {
    let headers = request.headers().get_all(COOKIE);
    let mut pairs = headers
        .filter_map(|header| header.to_str().ok())
        .flat_map(|header| header.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

// By hand: all of it are these attributes, and the values need no encoding.
// `seconds`: how long the browser keeps it; `None`: until it is closed.
fn cookie(
    request: &HttpRequest,
    path: &str,
    (name, value): (&str, &str),
    seconds: Option<u32>,
) -> Option<HeaderValue> {
    // Behind a proxy that ends TLS, as `Forwarded` or `X-Forwarded-Proto` says. A client that lies about
    // it gets a cookie that its own browser does not send.
    let is_secure = request.connection_info().scheme() == "https";
    let secure = if is_secure { "; Secure" } else { "" };
    let age = seconds.map(|seconds| format!("; Max-Age={seconds}"));
    let age = age.unwrap_or_default();
    let cookie = format!("{name}={value}; Path={path}; HttpOnly; SameSite=Strict{secure}{age}");
    HeaderValue::try_from(cookie).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_for_these_pages_alone_and_no_script() {
        let plain = actix_web::test::TestRequest::default().to_http_request();
        let kept = with_credential(&plain, "/work/ui", "cs_a_b").unwrap();
        let all = "counterstep_credential=cs_a_b; Path=/work/ui; HttpOnly; SameSite=Strict";
        assert_eq!(kept, all);
        let https =
            actix_web::test::TestRequest::default().insert_header(("x-forwarded-proto", "https"));
        let gone = with_credential(&https.to_http_request(), "/ui", "").unwrap();
        assert!(gone.to_str().unwrap().ends_with("; Secure; Max-Age=0"));
        let sent = actix_web::test::TestRequest::default()
            .insert_header(("cookie", "a=b; counterstep_credential=x.y"));
        assert_eq!(credential(&sent.to_http_request()).as_deref(), Some("x.y"));
        assert!(!is_value("a;b") && !is_value("a b") && !is_value("") && is_value("cs_a-b.c"));
    }

    #[test]
    fn a_token_is_of_one_browser_and_one_credential() {
        let token = form_token("a", Some("key"));
        assert!(is_form_token(&token, "a", Some("key")));
        assert!(!is_form_token(&token, "b", Some("key")));
        assert!(!is_form_token(&token, "a", Some("other")));
        assert!(!is_form_token(&token, "a", None));
        assert!(!is_form_token("", "a", None) && !is_form_token("%", "a", None));
    }
}
