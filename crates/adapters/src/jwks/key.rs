//! One key of a set: what it may be used with, and how its signatures are checked. A key for anything else
//! but signatures, of another kind, or too weak, is none.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use counterstep_kernel::access::access_tokens::{Algorithm, PublicKey, SignatureCheck};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

/// Bits of the modulus of an RSA key.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

const RSA: &[Algorithm] = &[
    Algorithm::Rs256,
    Algorithm::Rs384,
    Algorithm::Rs512,
    Algorithm::Ps256,
    Algorithm::Ps384,
    Algorithm::Ps512,
];

/// A key as it stands in a set (RFC 7517, RFC 7518, RFC 8037).
#[derive(Debug, Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    used_for: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// What a key is made of.
#[derive(Debug)]
enum Key {
    Rsa(RsaPublicKeyComponents<Vec<u8>>),
    /// As a point, uncompressed.
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// The key of a set's entry; `None`: it is not for this.
pub(super) fn public_key(entry: Value) -> Option<PublicKey> {
    let jwk: Jwk = serde_json::from_value(entry).ok()?;
    let verifies = |ops: &Vec<String>| ops.iter().any(|it| it == "verify");
    if jwk.used_for.as_deref().is_some_and(|it| it != "sig")
        || !jwk.key_ops.as_ref().is_none_or(verifies)
    {
        return None;
    }
    let (key, fitting) = Key::of(&jwk)?;
    let is_named = |it: &Algorithm| jwk.alg.as_deref().is_none_or(|name| name == it.as_str());
    let algorithms: Vec<_> = fitting.iter().copied().filter(is_named).collect();
    (!algorithms.is_empty()).then(|| PublicKey {
        id: jwk.kid,
        algorithms,
        check: Arc::new(key),
    })
}

impl Key {
    fn of(jwk: &Jwk) -> Option<(Self, &'static [Algorithm])> {
        let bytes = |text: &Option<String>| URL_SAFE_NO_PAD.decode(text.as_ref()?).ok();
        let part = |text: &Option<String>, length| bytes(text).filter(|it| it.len() == length);
        let point = |length| Some([vec![4], part(&jwk.x, length)?, part(&jwk.y, length)?].concat());
        match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => {
                let (n, e) = (number(bytes(&jwk.n)?), number(bytes(&jwk.e)?));
                let is_strong = RSA_BITS.contains(&bits(&n));
                is_strong.then_some((Self::Rsa(RsaPublicKeyComponents { n, e }), RSA))
            }
            ("EC", Some("P-256")) => Some((Self::P256(point(32)?), &[Algorithm::Es256])),
            ("EC", Some("P-384")) => Some((Self::P384(point(48)?), &[Algorithm::Es384])),
            ("OKP", Some("Ed25519")) => {
                let key = part(&jwk.x, 32)?;
                Some((Self::Ed25519(key), &[Algorithm::EdDsa]))
            }
            _ => None,
        }
    }
}

/// Without the zeros that some issuers put in front.
fn number(bytes: Vec<u8>) -> Vec<u8> {
    bytes.into_iter().skip_while(|it| *it == 0).collect()
}

fn bits(number: &[u8]) -> usize {
    let unused = number.first().map_or(0, |first| first.leading_zeros());
    number.len() * 8 - unused as usize
}

impl SignatureCheck for Key {
    // Which algorithm goes with which kind of key stands here and nowhere else.
    fn is_valid(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let checked = match (self, algorithm) {
            (Self::Rsa(key), Algorithm::Rs256) => {
                key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
            (Self::Rsa(key), Algorithm::Rs384) => {
                key.verify(&RSA_PKCS1_2048_8192_SHA384, message, signature)
            }
            (Self::Rsa(key), Algorithm::Rs512) => {
                key.verify(&RSA_PKCS1_2048_8192_SHA512, message, signature)
            }
            (Self::Rsa(key), Algorithm::Ps256) => {
                key.verify(&RSA_PSS_2048_8192_SHA256, message, signature)
            }
            (Self::Rsa(key), Algorithm::Ps384) => {
                key.verify(&RSA_PSS_2048_8192_SHA384, message, signature)
            }
            (Self::Rsa(key), Algorithm::Ps512) => {
                key.verify(&RSA_PSS_2048_8192_SHA512, message, signature)
            }
            (Self::P256(key), Algorithm::Es256) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key).verify(message, signature)
            }
            (Self::P384(key), Algorithm::Es384) => {
                UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, key).verify(message, signature)
            }
            (Self::Ed25519(key), Algorithm::EdDsa) => {
                UnparsedPublicKey::new(&ED25519, key).verify(message, signature)
            }
            _ => return false,
        };
        checked.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// RFC 7515, A.2.
    const RS256: &str = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
    const N: &str = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";

    /// RFC 7515, A.3.
    const ES256: &str = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
    const X: &str = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
    const Y: &str = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0";

    /// RFC 8037, A.4.
    const EDDSA: &str = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
    const ED: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";

    fn rsa() -> Value {
        json!({"kty": "RSA", "n": N, "e": "AQAB"})
    }

    fn p256() -> Value {
        json!({"kty": "EC", "crv": "P-256", "x": X, "y": Y})
    }

    fn ed25519() -> Value {
        json!({"kty": "OKP", "crv": "Ed25519", "x": ED})
    }

    fn checks(key: &Value, algorithm: Algorithm, token: &str) -> bool {
        let key = public_key(key.clone()).unwrap();
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        key.check.is_valid(algorithm, signed.as_bytes(), &signature)
    }

    #[test]
    fn the_examples_of_the_standards_are_valid_and_each_with_its_own_algorithm_alone() {
        let examples = [
            (rsa(), Algorithm::Rs256, RS256),
            (p256(), Algorithm::Es256, ES256),
            (ed25519(), Algorithm::EdDsa, EDDSA),
        ];
        for (key, own, token) in &examples {
            for algorithm in Algorithm::ALL {
                let expected = algorithm == own;
                assert_eq!(checks(key, *algorithm, token), expected, "{algorithm}");
            }
            let changed = token.replacen("eyJ", "eyK", 1);
            assert!(!checks(key, *own, &changed), "{own}");
            for (_, other, of_another) in examples.iter().filter(|it| it.1 != *own) {
                assert!(!checks(key, *own, of_another), "{own} {other}");
                assert!(!checks(key, *other, of_another), "{own} {other}");
            }
        }
    }

    #[test]
    fn a_key_says_what_it_is_for() {
        let with = |mut key: Value, name: &str, value: Value| {
            key[name] = value;
            public_key(key).map(|key| key.algorithms)
        };
        assert_eq!(public_key(rsa()).unwrap().algorithms, RSA);
        let named = with(rsa(), "alg", json!("PS256"));
        assert_eq!(named, Some(vec![Algorithm::Ps256]));
        assert_eq!(
            with(ed25519(), "use", json!("sig")),
            Some(vec![Algorithm::EdDsa])
        );
        assert_eq!(
            with(p256(), "key_ops", json!(["verify"])),
            Some(vec![Algorithm::Es256])
        );
        // As some issuers write it.
        let padded = URL_SAFE_NO_PAD.encode([vec![0], URL_SAFE_NO_PAD.decode(N).unwrap()].concat());
        let mut key = rsa();
        key["n"] = json!(padded);
        assert!(checks(&key, Algorithm::Rs256, RS256));
        for (key, name, value) in [
            (rsa(), "use", json!("enc")),
            (rsa(), "key_ops", json!(["encrypt"])),
            (rsa(), "alg", json!("RSA-OAEP")),
            (rsa(), "alg", json!("HS256")),
            (p256(), "alg", json!("RS256")),
            (rsa(), "kty", json!("oct")),
            (p256(), "crv", json!("secp256k1")),
            (p256(), "x", json!(ED.to_owned() + "AA")),
            (p256(), "y", Value::Null),
            (ed25519(), "crv", json!("X25519")),
            (ed25519(), "x", json!("!")),
            (rsa(), "kid", json!(7)),
        ] {
            assert_eq!(with(key, name, value.clone()), None, "{name} {value}");
        }
    }

    #[test]
    fn an_rsa_key_has_2048_bits_at_least() {
        let of = |bytes: Vec<u8>| {
            let mut key = rsa();
            key["n"] = json!(URL_SAFE_NO_PAD.encode(bytes));
            public_key(key).is_some()
        };
        let modulus = URL_SAFE_NO_PAD.decode(N).unwrap();
        assert!(of(modulus.clone()));
        assert!(!of(modulus[..128].to_vec()), "1024 bits");
        // 2047 bits.
        assert!(!of([&[0x7f], &modulus[1..]].concat()));
        assert!(!of(vec![0xff; 1025]), "8200 bits");
        assert!(!of(vec![0; 256]));
        assert!(!of(Vec::new()));
    }
}
