//! The public keys of an issuer of access tokens, as a JSON Web Key Set (RFC 7517): at a URL or in a file.
//! Must not decide which tokens are accepted.

#[cfg(any(feature = "fuzz", test))]
#[doc(hidden)]
pub mod fuzzed;
mod key;
#[cfg(test)]
mod wycheproof;

use crate::http::{OpenError, ReqwestServices, ServiceSettings};
use async_trait::async_trait;
use counterstep_kernel::access::access_tokens::{KeySource, PublicKey};
use counterstep_kernel::ports::{HttpServices, Method, ServiceRequest};
use counterstep_steps::error::chain;
use key::public_key;
use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::timeout;

/// Time limit of a request with its answer.
const LIMIT: Duration = Duration::from_secs(5);

/// Maximum bytes of a key set. Some issuers add certificates to their keys.
const LONGEST: usize = 256 << 10;

/// What the client calls the issuer.
const ISSUER: &str = "issuer";

/// A source of keys.
#[derive(Debug)]
pub struct Jwks(Place);

#[derive(Debug)]
enum Place {
    File(PathBuf),
    /// A client for its server, and the path there.
    Url(ReqwestServices, String),
}

/// A source that cannot be used. The URL is not repeated: it may hold a password.
#[derive(Debug, thiserror::Error)]
pub enum InvalidSource {
    /// The URL.
    #[error("{0}")]
    Url(&'static str),
    /// The file with the authorities for its certificate.
    #[error("{0}")]
    Authorities(String),
}

const EXPECTED: &str =
    "expected https://HOST/PATH, or http:// on this machine, or file:///PATH of a JSON Web Key Set";

impl Jwks {
    /// At `https://…`, at `http://…` of this machine, or at `file://PATH`; `ca_file`: a PEM file with the only
    /// authorities that the certificate may come from. Connects to nothing and reads no key.
    ///
    /// # Errors
    /// [`InvalidSource`].
    pub fn open(source: &str, ca_file: Option<PathBuf>) -> Result<Self, InvalidSource> {
        if let Some(path) = source.strip_prefix("file://").filter(|it| !it.is_empty()) {
            return Ok(Self(Place::File(path.into())));
        }
        let url = Url::parse(source).map_err(|_| InvalidSource::Url(EXPECTED))?;
        if !matches!(url.scheme(), "http" | "https") || url.fragment().is_some() {
            return Err(InvalidSource::Url(EXPECTED));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(InvalidSource::Url(
                "it has a user or a password in it: expected a URL that is open to all",
            ));
        }
        let service = ServiceSettings {
            url: url.origin().ascii_serialization(),
            ca_file,
            ..ServiceSettings::default()
        };
        let query = url.query().map(|query| format!("?{query}"));
        let path = format!("{}{}", url.path(), query.unwrap_or_default());
        let client = ReqwestServices::open(&BTreeMap::from([(ISSUER.to_owned(), service)]));
        Ok(Self(Place::Url(client.map_err(refused)?, path)))
    }
}

fn refused(error: OpenError) -> InvalidSource {
    match error {
        OpenError::Url { .. } => InvalidSource::Url(EXPECTED),
        OpenError::Client { why, .. } => InvalidSource::Authorities(why),
        other => InvalidSource::Authorities(chain(&other)),
    }
}

#[async_trait]
impl KeySource for Jwks {
    async fn keys(&self) -> Result<Vec<PublicKey>, String> {
        let set = match &self.0 {
            Place::File(path) => read(path)?,
            Place::Url(client, path) => {
                let fetched = timeout(LIMIT, fetch(client, path)).await;
                fetched.map_err(|_| format!("no answer within {LIMIT:?}"))??
            }
        };
        parse(&set)
    }
}

/// A small file on a local disk: no work for a thread of its own.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let (mut text, longest) = (Vec::new(), LONGEST as u64 + 1);
    std::fs::File::open(path)
        .and_then(|file| file.take(longest).read_to_end(&mut text))
        .map_err(|error| format!("the file `{}` cannot be read: {error}", path.display()))?;
    if text.len() > LONGEST {
        return Err(too_long());
    }
    Ok(text)
}

async fn fetch(client: &ReqwestServices, path: &str) -> Result<Vec<u8>, String> {
    let answer = client.call(ServiceRequest {
        service: ISSUER.to_owned(),
        method: Method::Get,
        path: path.to_owned(),
        headers: vec![("accept", "application/json".to_owned())],
        body: None,
        longest_answer: LONGEST,
    });
    let answer = answer.await.map_err(|error| chain(&error))?;
    match answer.status {
        _ if answer.cut => Err(too_long()),
        200 => Ok(answer.body.to_vec()),
        status => Err(format!("status {status}")),
    }
}

fn too_long() -> String {
    format!("the set of keys has more than {LONGEST} bytes")
}

/// The keys of a set that can be used. The others are no errors: a set may hold keys for other purposes, and of
/// kinds that are newer than this program.
fn parse(set: &[u8]) -> Result<Vec<PublicKey>, String> {
    #[derive(Deserialize)]
    struct Set {
        keys: Vec<Value>,
    }
    let set: Set = serde_json::from_slice(set)
        .map_err(|_| "expected a JSON object with an array `keys`".to_owned())?;
    Ok(set.keys.into_iter().filter_map(public_key).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[test]
    fn keys_come_over_tls_from_this_machine_or_from_a_file() {
        for source in [
            "https://issuer.example/.well-known/jwks.json",
            "https://issuer.example:8443/keys?p=b2c%201",
            "http://127.0.0.1:9/keys",
            "http://localhost/keys",
            "http://[::1]:9",
            "file:///etc/keys.json",
        ] {
            let opened = Jwks::open(source, None);
            assert!(opened.is_ok(), "{source}: {opened:?}");
        }
        for source in [
            "",
            "keys.json",
            "file://",
            "ftp://issuer.example/keys",
            "http://issuer.example/keys",
            "http://10.0.0.7/keys",
            "https://issuer.example/keys#1",
        ] {
            let refused = Jwks::open(source, None).unwrap_err().to_string();
            assert!(refused.contains("expected https://"), "{source}: {refused}");
        }
        let refused = Jwks::open("https://me:hunter2@issuer.example/keys", None).unwrap_err();
        assert!(!refused.to_string().contains("hunter2"), "{refused}");
    }

    /// What a server says that answers each request with this; `None`: with nothing.
    async fn fetched(answer: Option<String>) -> Result<usize, String> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let mut head = [0; 1024];
                let _ = socket.read(&mut head).await;
                match &answer {
                    Some(answer) => drop(socket.write_all(answer.as_bytes()).await),
                    None => std::future::pending().await,
                }
            }
        });
        let keys = Jwks::open(&url, None).unwrap().keys().await;
        keys.map(|keys| keys.len())
    }

    #[tokio::test]
    async fn what_a_server_answers_is_bounded_and_no_redirect_is_followed() {
        let answer = |head: &str, body: &str| {
            let length = body.len();
            Some(format!(
                "HTTP/1.1 {head}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            ))
        };
        let set = r#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
        assert_eq!(fetched(answer("200 OK", set)).await, Ok(1));
        let elsewhere = "302 Found\r\nlocation: /keys";
        assert_eq!(
            fetched(answer(elsewhere, set)).await,
            Err("status 302".to_owned())
        );
        let padded = format!("{set}{}", " ".repeat(LONGEST));
        let refused = fetched(answer("200 OK", &padded)).await.unwrap_err();
        assert!(refused.contains("more than"), "{refused}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_is_given_up() {
        let refused = fetched(None).await.unwrap_err();
        assert!(refused.contains("no answer within 5s"), "{refused}");
    }

    #[tokio::test]
    async fn a_file_that_holds_no_set_or_too_much_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let source = Jwks::open(&format!("file://{}", path.display()), None).unwrap();
        let missing = source.keys().await.unwrap_err();
        assert!(missing.contains("keys.json"), "{missing}");
        for (text, expected) in [
            ("[]".to_owned(), "an array `keys`"),
            ("{\"keys\": 1}".to_owned(), "an array `keys`"),
            (
                format!("{{\"keys\": [\"{}\"]}}", "x".repeat(LONGEST)),
                "more than",
            ),
        ] {
            std::fs::write(&path, text).unwrap();
            let refused = source.keys().await.unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        }
        std::fs::write(&path, "{\"keys\": [{\"kty\": \"new\"}, 7]}").unwrap();
        assert!(source.keys().await.unwrap().is_empty());
    }
}
