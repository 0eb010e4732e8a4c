//! The vectors of Project Wycheproof (Apache-2.0, github.com/C2SP/wycheproof: `json_web_signature_test.json` and
//! `ed25519_test.json`), as far as they are of kinds of keys that are taken. `wycheproof.json` has them by key: a token
//! is its number, whether it is valid, and its text; a vector of Ed25519 has message and signature as hexadecimal digits.

use super::key::public_key;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use counterstep_kernel::access::access_tokens::{Algorithm, PublicKey};
use serde::Deserialize;
use serde_json::Value;

/// Called valid, though the key names PS256 and the token PS384: a key that names an algorithm is for that alone.
const OF_ANOTHER_ALGORITHM: [u32; 2] = [346, 350];

#[derive(Deserialize)]
struct Group {
    key: Value,
    #[serde(default)]
    tokens: Vec<(u32, bool, String)>,
    #[serde(default)]
    ed25519: Vec<(u32, bool, String, String)>,
}

/// Whether the key takes a token, whatever it claims.
fn takes(key: &PublicKey, token: &str) -> Option<bool> {
    let [head, claims, signature] = token.split('.').collect::<Vec<_>>().try_into().ok()?;
    let header = URL_SAFE_NO_PAD.decode(head).ok()?;
    let header: Value = serde_json::from_slice(&header).ok()?;
    let mut all = Algorithm::ALL.iter().copied();
    let named = all.find(|one| header["alg"] == one.as_str())?;
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    let message = format!("{head}.{claims}");
    let fits = key.algorithms.contains(&named);
    Some(fits && key.check.is_valid(named, message.as_bytes(), &signature))
}

fn bytes(digits: &str) -> Vec<u8> {
    let pairs = (0..digits.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits"))
        .collect()
}

#[test]
fn each_vector_is_taken_or_refused_as_it_says() {
    let groups: Vec<Group> =
        serde_json::from_str(include_str!("wycheproof.json")).expect("vectors");
    let mut seen = [0, 0];
    for group in groups {
        let key = public_key(group.key.clone());
        for (number, is_valid, token) in group.tokens {
            let is_valid = is_valid && !OF_ANOTHER_ALGORITHM.contains(&number);
            let taken = key.as_ref().and_then(|key| takes(key, &token));
            assert_eq!(
                taken.unwrap_or(false),
                is_valid,
                "vector {number} of {}",
                group.key
            );
            seen[usize::from(is_valid)] += 1;
        }
        for (number, is_valid, message, signature) in group.ed25519 {
            let key = key.as_ref().expect("a key");
            let taken = key
                .check
                .is_valid(Algorithm::EdDsa, &bytes(&message), &bytes(&signature));
            assert_eq!(taken, is_valid, "vector {number} of Ed25519, {}", group.key);
            seen[usize::from(is_valid)] += 1;
        }
    }
    assert_eq!(seen, [390, 120]);
}
