//! An issuer of access tokens: its keys, what it signs with them, and a server of their public halves.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use counterstep_adapters::jwks::Jwks;
use counterstep_kernel::access::access_tokens::{AccessTokens, Algorithm, TokenRules};
use counterstep_testkit::TestClock;
use parking_lot::{Mutex, MutexGuard};
use ring::rand::SystemRandom;
use ring::rsa::{self, KeyPairComponents, PublicKeyComponents};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
};
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub(crate) const ISSUER: &str = "https://issuer.example/";
pub(crate) const AUDIENCE: &str = "counterstep";

/// The published example of RFC 7515, A.2: a new pair takes seconds to find.
const RSA: [(&str, &str); 8] = [
    (
        "n",
        "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ",
    ),
    ("e", "AQAB"),
    (
        "d",
        "Eq5xpGnNCivDflJsRQBXHx1hdR1k6Ulwe2JZD50LpXyWPEAeP88vLNO97IjlA7_GQ5sLKMgvfTeXZx9SE-7YwVol2NXOoAJe46sui395IW_GO-pWJ1O0BkTGoVEn2bKVRUCgu-GjBVaYLU6f3l9kJfFNS3E0QbVdxzubSu3Mkqzjkn439X0M_V51gfpRLI9JYanrC4D4qAdGcopV_0ZHHzQlBjudU2QvXt4ehNYTCBr6XCLQUShb1juUO1ZdiYoFaFQT5Tw8bGUl_x_jTj3ccPDVZFD9pIuhLhBOneufuBiB4cS98l2SR_RQyGWSeWjnczT0QU91p1DhOVRuOopznQ",
    ),
    (
        "p",
        "4BzEEOtIpmVdVEZNCqS7baC4crd0pqnRH_5IB3jw3bcxGn6QLvnEtfdUdiYrqBdss1l58BQ3KhooKeQTa9AB0Hw_Py5PJdTJNPY8cQn7ouZ2KKDcmnPGBY5t7yLc1QlQ5xHdwW1VhvKn-nXqhJTBgIPgtldC-KDV5z-y2XDwGUc",
    ),
    (
        "q",
        "uQPEfgmVtjL0Uyyx88GZFF1fOunH3-7cepKmtH4pxhtCoHqpWmT8YAmZxaewHgHAjLYsp1ZSe7zFYHj7C6ul7TjeLQeZD_YwD66t62wDmpe_HlB-TnBA-njbglfIsRLtXlnDzQkv5dTltRJ11BKBBypeeF6689rjcJIDEz9RWdc",
    ),
    (
        "dp",
        "BwKfV3Akq5_MFZDFZCnW-wzl-CCo83WoZvnLQwCTeDv8uzluRSnm71I3QCLdhrqE2e9YkxvuxdBfpT_PI7Yz-FOKnu1R6HsJeDCjn12Sk3vmAktV2zb34MCdy7cpdTh_YVr7tss2u6vneTwrA86rZtu5Mbr1C1XsmvkxHQAdYo0",
    ),
    (
        "dq",
        "h_96-mK1R_7glhsum81dZxjTnYynPbZpHziZjeeHcXYsXaaMwkOlODsWa7I9xXDoRwbKgB719rrmI2oKr6N3Do9U0ajaHF-NKJnwgjMd2w9cjz3_-kyNlxAr2v4IKhGNpmM5iIgOS1VZnOZ68m6_pbLBSp3nssTdlqvd0tIiTHU",
    ),
    (
        "qi",
        "IYd7DHOhrWvxkwPQsRM2tOgrjbcrfvtQJipd-DlcxyVuuM9sQLdgjVk2oy26F0EmpScGLq2MowX7fhd_QJQ3ydy5cY7YIBi87w93IKLEdfnbJtoOPLUW0ITrJReOgo1cq9SbsxYawBgfp_gh6A5603k2-ZQwVK0JKSHuLFkuQ3U",
    ),
];

fn rsa_part(name: &str) -> Vec<u8> {
    let part = RSA.iter().find(|(of, _)| *of == name).expect("a part");
    URL_SAFE_NO_PAD.decode(part.1).expect("Base64")
}

/// The modulus of the RSA key.
pub(crate) fn rsa_modulus() -> Vec<u8> {
    rsa_part("n")
}

pub(crate) fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A key pair and its `kid`.
#[derive(Debug)]
pub(crate) struct SigningKey {
    pub(crate) kid: &'static str,
    pair: Pair,
}

#[derive(Debug)]
enum Pair {
    Rsa(rsa::KeyPair),
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl SigningKey {
    pub(crate) fn rsa(kid: &'static str) -> Self {
        let parts = KeyPairComponents {
            public_key: PublicKeyComponents {
                n: rsa_part("n"),
                e: rsa_part("e"),
            },
            d: rsa_part("d"),
            p: rsa_part("p"),
            q: rsa_part("q"),
            dP: rsa_part("dp"),
            dQ: rsa_part("dq"),
            qInv: rsa_part("qi"),
        };
        let pair = rsa::KeyPair::from_components(&parts).expect("a key pair");
        Self {
            kid,
            pair: Pair::Rsa(pair),
        }
    }

    pub(crate) fn p256(kid: &'static str) -> Self {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key pair");
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random);
        Self {
            kid,
            pair: Pair::P256(pair.expect("a key pair")),
        }
    }

    pub(crate) fn ed25519(kid: &'static str) -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key pair");
        let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).expect("a key pair");
        Self {
            kid,
            pair: Pair::Ed25519(pair),
        }
    }

    pub(crate) fn alg(&self) -> &'static str {
        match self.pair {
            Pair::Rsa(_) => "RS256",
            Pair::P256(_) => "ES256",
            Pair::Ed25519(_) => "EdDSA",
        }
    }

    /// Its public half, as it stands in a set.
    pub(crate) fn jwk(&self) -> Value {
        match &self.pair {
            Pair::Rsa(_) => {
                json!({"kty": "RSA", "kid": self.kid, "use": "sig", "n": RSA[0].1, "e": RSA[1].1})
            }
            Pair::P256(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({"kty": "EC", "kid": self.kid, "crv": "P-256", "x": encoded(x), "y": encoded(y)})
            }
            Pair::Ed25519(pair) => {
                json!({"kty": "OKP", "kid": self.kid, "crv": "Ed25519", "x": encoded(pair.public_key())})
            }
        }
    }

    /// A token of these claims.
    pub(crate) fn token(&self, claims: &Value) -> String {
        self.signed(
            &json!({"alg": self.alg(), "kid": self.kid, "typ": "at+jwt"}),
            claims,
        )
    }

    /// A token with this header.
    pub(crate) fn signed(&self, header: &Value, claims: &Value) -> String {
        let text = format!(
            "{}.{}",
            encoded(header.to_string()),
            encoded(claims.to_string())
        );
        let signature = self.signature(text.as_bytes());
        format!("{text}.{}", encoded(signature))
    }

    pub(crate) fn signature(&self, text: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                let signed = pair.sign(&RSA_PKCS1_SHA256, &random, text, &mut signature);
                signed.expect("a signature");
                signature
            }
            Pair::P256(pair) => {
                let signed = pair.sign(&random, text).expect("a signature");
                signed.as_ref().to_vec()
            }
            Pair::Ed25519(pair) => pair.sign(text).as_ref().to_vec(),
        }
    }
}

/// What a token has to claim for ten minutes from now.
pub(crate) fn claims(clock: &TestClock, tenant: &str, roles: &[&str]) -> Value {
    let now = counterstep_kernel::ports::Clock::unix_millis(clock) / 1000;
    json!({
        "iss": ISSUER, "aud": [AUDIENCE, "another"], "sub": format!("{tenant}|web"), "tenant": tenant,
        "roles": roles, "iat": now, "nbf": now, "exp": now + 600,
    })
}

pub(crate) fn rules() -> TokenRules {
    // One fewer than there are: a token may name it.
    let algorithms = Algorithm::ALL.iter().copied();
    TokenRules {
        algorithms: algorithms.filter(|it| *it != Algorithm::Es384).collect(),
        tenant_claim: Some("tenant".to_owned()),
        ..TokenRules::new(ISSUER, AUDIENCE)
    }
}

/// A server of a set of keys.
#[derive(Debug)]
pub(crate) struct KeyServer {
    address: SocketAddr,
    served: Arc<Mutex<Served>>,
}

#[derive(Debug, Default)]
struct Served {
    /// `None`: it answers with 503.
    set: Option<Value>,
    requests: usize,
}

impl KeyServer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        listener.set_nonblocking(true).expect("a socket");
        let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
        let served = Arc::<Mutex<Served>>::default();
        let answers = served.clone();
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    if socket.read_buf(&mut head).await.unwrap_or(0) == 0 {
                        break;
                    }
                }
                let answer = {
                    let mut served = lock(&answers);
                    served.requests += 1;
                    let (status, body) = match &served.set {
                        Some(set) => ("200 OK", set.to_string()),
                        None => ("503 Service Unavailable", String::new()),
                    };
                    format!(
                        "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                        body.len()
                    )
                };
                let _ = socket.write_all(answer.as_bytes()).await;
            }
        });
        Self { address, served }
    }

    /// Serves these keys from now on.
    pub(crate) fn serve(&self, keys: &[&SigningKey]) {
        let keys: Vec<_> = keys.iter().map(|key| key.jwk()).collect();
        lock(&self.served).set = Some(json!({ "keys": keys }));
    }

    /// Answers with 503 from now on.
    pub(crate) fn go_away(&self) {
        lock(&self.served).set = None;
    }

    pub(crate) fn requests(&self) -> usize {
        lock(&self.served).requests
    }

    /// Accepts tokens of its keys.
    pub(crate) fn settings(&self) -> AccessTokens {
        let source = Jwks::open(&format!("http://{}/keys", self.address), None);
        AccessTokens {
            rules: rules(),
            source: Arc::new(source.expect("a source")),
        }
    }
}

fn lock(served: &Mutex<Served>) -> MutexGuard<'_, Served> {
    served.lock()
}
