//! What must hold of key sets and access tokens, whatever the bytes: for the program `tokens` of `fuzz/`, and for a test
//! that reads its committed inputs. No part of the interface. Must not parse or judge either itself.

use super::parse;
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use counterstep_kernel::access::access_tokens::{
    AccessTokens, Algorithm, KeySource, PublicKey, TokenHolder, TokenRules, TokenVerifier,
};
use counterstep_kernel::ports::Clock;
use futures::FutureExt;
use futures::future::BoxFuture;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

const ISSUER: &str = "https://issuer.example";
const AUDIENCE: &str = "counterstep";
const TENANT: &str = "tenant";
/// 2027-01-15.
const NOW: u64 = 1_800_000_000;
/// The `kid` of the key that the program signs with.
const OWN: &str = "own";

static OWN_KEY: LazyLock<Ed25519KeyPair> =
    LazyLock::new(|| Ed25519KeyPair::from_seed_unchecked(&[7; 32]).expect("32 bytes"));

/// A time that does not pass.
#[derive(Debug)]
struct At(u64);

impl Clock for At {
    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn unix_millis(&self) -> u64 {
        self.0.saturating_mul(1000)
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// An issuer with these keys.
#[derive(Debug)]
struct Given(Vec<PublicKey>);

#[async_trait]
impl KeySource for Given {
    async fn keys(&self) -> Result<Vec<PublicKey>, String> {
        Ok(self.0.clone())
    }
}

fn rules() -> TokenRules {
    TokenRules {
        algorithms: Algorithm::ALL.to_vec(),
        tenant_claim: Some(TENANT.to_owned()),
        role_claim: "/access/roles".to_owned(),
        ..TokenRules::new(ISSUER, AUDIENCE)
    }
}

fn holder(rules: TokenRules, keys: &[PublicKey], now: u64, token: &str) -> Option<TokenHolder> {
    let source = Arc::new(Given(keys.to_vec()));
    let verifier = TokenVerifier::new(AccessTokens { rules, source }, Arc::new(At(now)));
    let found = verifier.holder(token).now_or_never();
    found.expect("nothing to wait for").ok()
}

/// Reads a key set up to a line break, a token in the same way, the header of another one, and its claims: that one is
/// signed with a key of the program's own. Whether one of the two was accepted.
///
/// # Panics
/// Where a rule is broken.
pub fn tokens(input: &[u8]) -> bool {
    let mut parts = input.splitn(4, |byte| *byte == b'\n');
    let mut part = || parts.next().unwrap_or_default();
    let (set, token, header, claims) = (part(), part(), part(), part());
    let mut keys = key_set(set);
    let given = std::str::from_utf8(token).is_ok_and(|token| accepted(&keys, token));
    let own = json!({"kty": "OKP", "crv": "Ed25519", "kid": OWN, "x": URL_SAFE_NO_PAD.encode(OWN_KEY.public_key())});
    keys.extend(key_set(json!({ "keys": [own] }).to_string().as_bytes()));
    given | accepted(&keys, &signed(header, claims))
}

/// The keys of a set, which is read as the same when only they stand in it.
fn key_set(set: &[u8]) -> Vec<PublicKey> {
    let Ok(keys) = parse(set) else {
        return Vec::new();
    };
    for key in &keys {
        assert!(!key.algorithms.is_empty(), "{key:?} is for nothing");
        for algorithm in Algorithm::ALL {
            let is_valid = key.check.is_valid(*algorithm, b"a message", b"");
            assert!(!is_valid, "{key:?}, {algorithm}: nothing is a signature");
        }
    }
    let read: Value = serde_json::from_slice(set).expect("it was read before");
    let all = read["keys"].as_array().expect("keys");
    let is_taken = |entry: &&Value| {
        let alone = json!({ "keys": [entry] }).to_string();
        parse(alone.as_bytes()).expect("a set").len() == 1
    };
    let taken: Vec<_> = all.iter().filter(is_taken).collect();
    let again = parse(json!({ "keys": taken }).to_string().as_bytes()).expect("a set");
    let shown = |keys: &[PublicKey]| -> Vec<_> {
        let one = |key: &PublicKey| (key.id.clone(), key.algorithms.clone());
        keys.iter().map(one).collect()
    };
    assert_eq!(shown(&again), shown(&keys), "{read}");
    keys
}

fn signed(header: &[u8], claims: &[u8]) -> String {
    let encode = |part: &[u8]| URL_SAFE_NO_PAD.encode(part);
    let signed = format!("{}.{}", encode(header), encode(claims));
    let signature = encode(OWN_KEY.sign(signed.as_bytes()).as_ref());
    format!("{signed}.{signature}")
}

/// Whether a token is accepted. One that is obeys the rules, and is refused where one of them is another.
fn accepted(keys: &[PublicKey], token: &str) -> bool {
    let Some(found) = holder(rules(), keys, NOW, token) else {
        return false;
    };
    let parts: Vec<_> = token.split('.').collect();
    let &[header, claims, signature] = parts.as_slice() else {
        panic!("{token}: {} parts", parts.len());
    };
    let decoded = |part: &str| URL_SAFE_NO_PAD.decode(part).expect("Base64");
    let read = |part: &str| serde_json::from_slice::<Value>(&decoded(part)).expect("JSON");
    let (header, claims) = (read(header), read(claims));
    assert!(header.get("crit").is_none(), "{header}");
    assert_eq!(claims["iss"], ISSUER, "{claims}");
    let is_for_us = match &claims["aud"] {
        Value::Array(all) => all.contains(&json!(AUDIENCE)),
        one => one == AUDIENCE,
    };
    assert!(is_for_us, "{claims}");
    let leeway = rules().leeway.as_secs();
    assert!(
        found.expires_at > NOW && claims["exp"].is_number(),
        "{claims}"
    );
    for begins in ["nbf", "iat"] {
        let begins = claims[begins].as_f64();
        let latest = (NOW + leeway + 1) as f64;
        assert!(begins.is_none_or(|it| it < latest), "{claims}");
    }
    assert_eq!(claims[TENANT], found.tenant.0, "{claims}");
    assert!(found.tenant.is_valid(), "{claims}");
    assert_eq!(claims["sub"], found.subject, "{claims}");
    assert!(
        (1..=100).contains(&found.subject.len())
            && found.subject.bytes().all(|byte| byte.is_ascii_graphic()),
        "{claims}"
    );

    let refused = |rules: TokenRules, keys: &[PublicKey], now: u64, token: &str, why: &str| {
        let found = holder(rules, keys, now, token);
        assert!(found.is_none(), "{why}: {token}");
    };
    refused(rules(), &[], NOW, token, "no key");
    // A clock counts milliseconds.
    if found.expires_at < u64::MAX / 1000 {
        refused(rules(), keys, found.expires_at, token, "it is over");
    }
    let others = |it: &Algorithm| header["alg"] != it.as_str();
    let algorithms = Algorithm::ALL.iter().copied().filter(others).collect();
    let with = TokenRules {
        algorithms,
        ..rules()
    };
    refused(with, keys, NOW, token, "another algorithm");
    let with = TokenRules {
        audience: "another".to_owned(),
        ..rules()
    };
    if !claims["aud"].to_string().contains("another") {
        refused(with, keys, NOW, token, "another audience");
    }
    let mut bytes = decoded(signature);
    *bytes.first_mut().expect("a signature") ^= 1;
    let message = token.strip_suffix(signature).expect("the end");
    let changed = format!("{message}{}", URL_SAFE_NO_PAD.encode(bytes));
    refused(rules(), keys, NOW, &changed, "another signature");
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    #[test]
    fn committed_inputs_of_tokens_keep_the_rules() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/tokens");
        let mut accepted = 0;
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            // Shown where a rule is broken.
            println!("{}", path.display());
            let is_accepted = tokens(&fs::read(&path).unwrap());
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            assert_eq!(is_accepted, name.starts_with("accepted_"), "{name}");
            accepted += usize::from(is_accepted);
        }
        assert!(accepted > 1, "the rules of what is accepted were not tried");
    }
}
