//! Callers by access token: which tokens are refused, whose keys count, and for how long.

use crate::access::{
    Credential, all_is_on, assert_as_written, each_route_needs_its_role,
    one_tenant_reaches_nothing_of_another,
};
use crate::issuer::{AUDIENCE, ISSUER, KeyServer, SigningKey, claims, encoded, rsa_modulus, rules};
use crate::site::{Site, eventually};
use async_trait::async_trait;
use counterstep_adapters::jwks::Jwks;
use counterstep_api::AuthSettings;
use counterstep_contracts::access::Role;
use counterstep_contracts::http::{Accepted, AuditTrail};
use counterstep_kernel::access::access_tokens::{
    AccessTokens, KeySource, PublicKey, TokenError, TokenFault, TokenVerifier,
};
use counterstep_testkit::TestClock;
use ring::hmac;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Semaphore;

/// A site that lets in holders of this server's tokens alone.
async fn site(keys: &KeyServer) -> Site {
    let tokens = keys.settings();
    Site::with(move |api, engine| {
        all_is_on(api, engine);
        api.auth = AuthSettings::Jwt(tokens);
    })
    .await
}

async fn status(site: &Site, token: &str) -> u16 {
    let request = site.request("GET", "/api/tasks").bearer_auth(token);
    site.send(request).await.status
}

async fn until(site: &Site, what: &str, token: &str, expected: u16) {
    eventually(what, || async {
        let found = status(site, token).await;
        if found == expected {
            Ok(())
        } else {
            Err(found)
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_wrong_with_a_token_is_found() {
    let clock = TestClock::new();
    let [rsa, ec, ed] = [
        SigningKey::rsa("r"),
        SigningKey::p256("e"),
        SigningKey::ed25519("d"),
    ];
    let stranger = SigningKey::p256("e");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("keys.json");
    let set = json!({"keys": [rsa.jwk(), ec.jwk(), ed.jwk()]});
    std::fs::write(&path, set.to_string()).expect("a file");
    let source = Jwks::open(&format!("file://{}", path.display()), None).expect("a source");
    let settings = AccessTokens {
        rules: rules(),
        source: Arc::new(source),
    };
    let verifier = TokenVerifier::new(settings, Arc::new(clock.clone()));
    let good = claims(&clock, "acme", &["read", "submit"]);
    let now = good["iat"].as_u64().expect("a time");
    for key in [&rsa, &ec, &ed] {
        let holder = verifier.holder(&key.token(&good)).await.expect("a token");
        assert_eq!(
            (holder.tenant.0.as_str(), holder.role),
            ("acme", Some(Role::Submit))
        );
        assert_eq!(holder.subject, "acme|web");
        assert_eq!(holder.expires_at, now + 630);
    }
    let with = |name: &str, value: Value| {
        let mut claims = good.clone();
        claims[name] = value;
        ec.token(&claims)
    };
    let without = |name: &str| {
        let mut claims = good.clone();
        claims.as_object_mut().expect("an object").remove(name);
        ec.token(&claims)
    };
    let head = |header: Value| ec.signed(&header, &good);
    let valid = ec.token(&good);
    let parts: Vec<&str> = valid.split('.').collect();
    let unsigned = |alg: &str| {
        let header = encoded(json!({"alg": alg, "kid": "e"}).to_string());
        format!("{header}.{}.", parts[1])
    };
    // The public key as a shared secret: what a verifier does that trusts `alg`.
    let confused = {
        let header = encoded(json!({"alg": "HS256", "kid": "r"}).to_string());
        let text = format!("{header}.{}", parts[1]);
        let key = hmac::Key::new(hmac::HMAC_SHA256, &rsa_modulus());
        format!("{text}.{}", encoded(hmac::sign(&key, text.as_bytes())))
    };
    let mut more = good.clone();
    more["roles"] = json!(["admin"]);
    let tampered = format!("{}.{}.{}", parts[0], encoded(more.to_string()), parts[2]);
    let mut huge = good.clone();
    huge["groups"] = json!("x".repeat(16 << 10));
    let cases = [
        (unsigned("none"), TokenFault::AlgorithmNotAllowed),
        (unsigned("None"), TokenFault::AlgorithmNotAllowed),
        (unsigned("ES256"), TokenFault::BadSignature),
        (confused, TokenFault::AlgorithmNotAllowed),
        (
            head(json!({"alg": "ES384", "kid": "e"})),
            TokenFault::AlgorithmNotAllowed,
        ),
        (
            head(json!({"alg": "RS256", "kid": "r"})),
            TokenFault::BadSignature,
        ),
        (
            head(json!({"alg": "RS256", "kid": "e"})),
            TokenFault::UnknownKey,
        ),
        (
            rsa.signed(&json!({"alg": "ES256", "kid": "r"}), &good),
            TokenFault::UnknownKey,
        ),
        (
            rsa.signed(&json!({"alg": "ES256", "kid": "e"}), &good),
            TokenFault::BadSignature,
        ),
        (
            head(json!({"alg": "ES256", "kid": "made-up"})),
            TokenFault::UnknownKey,
        ),
        (
            head(json!({"alg": "ES256", "kid": 7})),
            TokenFault::Malformed,
        ),
        (head(json!({"kid": "e"})), TokenFault::Malformed),
        (
            head(json!({"alg": "ES256", "kid": "e", "crit": ["exp"]})),
            TokenFault::Critical,
        ),
        (
            head(json!({"alg": "ES256", "kid": "e", "crit": null})),
            TokenFault::Critical,
        ),
        (
            head(json!({"alg": "ES256", "kid": "e", "typ": "logout+jwt"})),
            TokenFault::WrongType,
        ),
        // A key that the token brings along is not looked at.
        (
            stranger.signed(
                &json!({"alg": "ES256", "kid": "e", "jwk": stranger.jwk()}),
                &good,
            ),
            TokenFault::BadSignature,
        ),
        (tampered, TokenFault::BadSignature),
        (
            with("iss", json!("https://another.example/")),
            TokenFault::WrongIssuer,
        ),
        (with("iss", json!([ISSUER])), TokenFault::WrongIssuer),
        (without("iss"), TokenFault::WrongIssuer),
        (with("aud", json!("another")), TokenFault::WrongAudience),
        (
            with("aud", json!({AUDIENCE: true})),
            TokenFault::WrongAudience,
        ),
        (without("aud"), TokenFault::WrongAudience),
        (with("exp", json!(now - 31)), TokenFault::Expired),
        (
            with("exp", json!((now + 600).to_string())),
            TokenFault::MalformedTime,
        ),
        (without("exp"), TokenFault::MalformedTime),
        (with("nbf", json!(now + 40)), TokenFault::NotYetValid),
        (with("iat", json!(now + 40)), TokenFault::NotYetValid),
        (with("sub", json!("a b")), TokenFault::BadSubject),
        (without("sub"), TokenFault::BadSubject),
        (without("tenant"), TokenFault::BadTenant),
        (ec.token(&huge), TokenFault::TooLong),
        (ec.token(&json!([good])), TokenFault::Malformed),
        (format!("{valid}."), TokenFault::Malformed),
        (format!("{valid}="), TokenFault::Malformed),
        (parts[..2].join("."), TokenFault::Malformed),
        ("a.b.c".to_owned(), TokenFault::Malformed),
        ("\u{fc}.\u{0}.x".to_owned(), TokenFault::Malformed),
    ];
    for (token, fault) in cases {
        let found = verifier.holder(&token).await.map(|it| it.subject);
        assert_eq!(found, Err(TokenError::Invalid(fault)), "{token}");
    }
    // Without a `kid` it is the one key for the algorithm.
    let nameless = head(json!({"alg": "ES256"}));
    assert!(verifier.holder(&nameless).await.is_ok());
    clock.advance("11m");
    let found = verifier.holder(&valid).await;
    assert_eq!(found, Err(TokenError::Invalid(TokenFault::Expired)));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_bad_token_has_the_same_answer_and_one_without_a_role_is_403() {
    let (server, key) = (KeyServer::start(), SigningKey::ed25519("a"));
    server.serve(&[&key]);
    let site = site(&server).await;
    let good = key.token(&claims(&site.clock, "acme", &["submit"]));
    let path = "/api/tasks";
    let no_header = site.get(path).await;
    no_header.problem(401, "unauthenticated");
    let mut expired = claims(&site.clock, "acme", &["submit"]);
    expired["exp"] = json!(1);
    let forms = [
        "Bearer".to_owned(),
        "Bearer x".to_owned(),
        format!("Basic {good}"),
        format!("Bearer {}", &good[..good.len() - 2]),
        format!("Bearer {}", key.token(&expired)),
        format!("Bearer cs_{}_{}", "0".repeat(16), "0".repeat(64)),
    ];
    for form in &forms {
        let request = site.request("GET", path).header("authorization", form);
        let reply = site.send(request).await;
        reply.problem(401, "unauthenticated");
        assert_eq!(reply.body, no_header.body, "{form}");
    }
    for name in ["access_token", "token"] {
        let in_query = site.get(&format!("{path}?{name}={good}")).await;
        in_query.problem(401, "unauthenticated");
    }
    let twice = site
        .request("GET", path)
        .bearer_auth(&good)
        .bearer_auth(&good);
    site.send(twice)
        .await
        .problem(400, "malformed-authorization");
    for roles in [&[][..], &["viewer"]] {
        let token = key.token(&claims(&site.clock, "acme", roles));
        let request = site.request("GET", path).bearer_auth(token);
        site.send(request).await.problem(403, "forbidden");
    }
    assert_eq!(status(&site, &good).await, 200);
    let submitted = site
        .request("POST", "/api/tasks/write-note")
        .bearer_auth(&good)
        .header("content-type", "application/json")
        .body(r#"{"text":"hello"}"#);
    let task = site.send(submitted).await.json::<Accepted>(202).task_id;
    let audit = format!("/api/tasks/{task}/audit");
    let trail: AuditTrail = site
        .send(site.request("GET", &audit).bearer_auth(&good))
        .await
        .json(200);
    assert_eq!(trail.entries[0].actor, "client:acme|web");
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_and_tenants_of_tokens_count_as_those_of_keys() {
    let (server, key) = (KeyServer::start(), SigningKey::ed25519("a"));
    server.serve(&[&key]);
    let site = site(&server).await;
    let credential = |tenant: &str, role: Role| {
        Credential::bearer(&key.token(&claims(&site.clock, tenant, &[role.as_str()])))
    };
    let each: Vec<_> = Role::ALL
        .iter()
        .map(|role| (*role, credential("default", *role)))
        .collect();
    let [own, other] = ["acme", "umbra"].map(|tenant| credential(tenant, Role::Admin));
    assert_as_written(&each_route_needs_its_role(&site, &each, &own).await);
    one_tenant_reaches_nothing_of_another(&site, &own, &other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_key_counts_without_a_restart_and_a_removed_one_ends() {
    let server = KeyServer::start();
    let (old, new) = (SigningKey::ed25519("old"), SigningKey::p256("new"));
    server.serve(&[&old]);
    let site = site(&server).await;
    let by = |key: &SigningKey| {
        let mut claims = claims(&site.clock, "acme", &["read"]);
        claims["exp"] = json!(claims["iat"].as_u64().expect("a time") + 86_400);
        key.token(&claims)
    };
    let (by_old, by_new) = (by(&old), by(&new));
    assert_eq!(status(&site, &by_old).await, 200);
    assert_eq!(status(&site, &by_new).await, 401);
    server.serve(&[&old, &new]);
    site.clock.advance("11s");
    assert_eq!(status(&site, &by_new).await, 200);
    assert_eq!(status(&site, &by_old).await, 200);
    server.serve(&[&new]);
    site.clock.advance("5m");
    until(&site, "the removed key counts no longer", &by_old, 401).await;
    assert_eq!(status(&site, &by_new).await, 200);
    // Made-up keys: one request to the issuer for all of them.
    site.clock.advance("11s");
    let before = server.requests();
    let mut storm = Vec::new();
    for at in 0..40 {
        let header = json!({"alg": "ES256", "kid": format!("made-up-{at}")});
        let token = new.signed(&header, &claims(&site.clock, "acme", &["read"]));
        let request = site.request("GET", "/api/tasks").bearer_auth(token);
        storm.push(request.send());
    }
    for reply in futures::future::join_all(storm).await {
        assert_eq!(reply.expect("an answer").status(), 401);
    }
    assert_eq!(server.requests() - before, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_issuer_is_away_the_last_keys_count_for_four_hours() {
    let (server, key) = (KeyServer::start(), SigningKey::ed25519("a"));
    let site = site(&server).await;
    let token = || key.token(&claims(&site.clock, "acme", &["read"]));
    // It starts without the issuer, and is not ready.
    let ready = site.get("/readyz").await;
    let problem = ready.problem(503, "unavailable");
    let detail = problem["detail"].as_str().expect("a text");
    assert!(detail.contains("token_keys"), "{detail}");
    let refused = site.request("GET", "/api/tasks").bearer_auth(token());
    let refused = site.send(refused).await;
    refused.problem(503, "unavailable");
    assert_eq!(refused.header("retry-after"), Some("10"));
    assert_eq!(status(&site, "garbage").await, 401);
    server.serve(&[&key]);
    site.clock.advance("11s");
    until(&site, "the keys are known", &token(), 200).await;
    server.go_away();
    let before = server.requests();
    site.clock.advance("5m");
    eventually("the issuer has not answered", || async {
        let ready: Value = site.get("/readyz").await.json(200);
        match ready["parts"]["token_keys"] == "does not answer" {
            true => Ok(()),
            false => Err(ready),
        }
    })
    .await;
    assert!(server.requests() > before);
    assert_eq!(status(&site, &token()).await, 200);
    site.clock.advance("3h");
    assert_eq!(status(&site, &token()).await, 200);
    site.clock.advance("1h");
    assert_eq!(status(&site, &token()).await, 503);
    server.serve(&[&key]);
    site.clock.advance("11s");
    until(&site, "the keys are known again", &token(), 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_the_token_that_opened_it() {
    let (server, key) = (KeyServer::start(), SigningKey::ed25519("a"));
    server.serve(&[&key]);
    let site = site(&server).await;
    let token = key.token(&claims(&site.clock, "acme", &["submit"]));
    let submitted = site
        .request("POST", "/api/tasks/write-note")
        .bearer_auth(&token)
        .header("content-type", "application/json")
        .body(r#"{"text":"hello"}"#);
    let task = site.send(submitted).await.json::<Accepted>(202).task_id;
    let mut streams = Vec::new();
    for path in [
        format!("/api/tasks/{task}/events"),
        "/api/events".to_owned(),
    ] {
        let open = site.request("GET", &path).bearer_auth(&token).send().await;
        let open = open.expect("an answer");
        assert_eq!(open.status(), 200);
        streams.push(open);
    }
    // Past several heartbeats they are open: the token is valid.
    for stream in &mut streams {
        for _ in 0..5 {
            let chunk = stream.chunk().await.expect("the connection holds");
            assert!(chunk.is_some());
        }
    }
    site.clock.advance("11m");
    for mut stream in streams {
        while stream
            .chunk()
            .await
            .expect("the connection holds")
            .is_some()
        {}
    }
    assert_eq!(status(&site, &token).await, 401);
}

/// The keys in a file, which come once there is a permit for the read.
#[derive(Debug)]
struct Gated {
    file: Jwks,
    gate: Semaphore,
    reads: AtomicUsize,
}

#[async_trait]
impl KeySource for Gated {
    async fn keys(&self) -> Result<Vec<PublicKey>, String> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.gate.acquire().await.expect("it stays").forget();
        self.file.keys().await
    }
}

#[tokio::test]
async fn a_client_that_goes_away_during_a_read_of_the_keys_costs_others_nothing() {
    let clock = TestClock::new();
    let [old, new] = [SigningKey::p256("old"), SigningKey::p256("new")];
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("keys.json");
    let write = |keys: &[&SigningKey]| {
        let keys: Vec<_> = keys.iter().map(|key| key.jwk()).collect();
        std::fs::write(&path, json!({ "keys": keys }).to_string()).expect("a file");
    };
    let source = Arc::new(Gated {
        file: Jwks::open(&format!("file://{}", path.display()), None).expect("a source"),
        gate: Semaphore::new(1),
        reads: AtomicUsize::new(0),
    });
    let settings = AccessTokens {
        rules: rules(),
        source: source.clone(),
    };
    let verifier = TokenVerifier::new(settings, Arc::new(clock.clone()));
    write(&[&old]);
    let good = claims(&clock, "acme", &["read"]);
    verifier.holder(&old.token(&good)).await.expect("a token");
    write(&[&old, &new]);
    clock.advance("20s");
    let token = new.token(&good);
    for _ in 0..3 {
        let mut asked = Box::pin(verifier.holder(&token));
        let polled = futures::poll!(&mut asked);
        assert!(polled.is_pending(), "{polled:?}");
    }
    source.gate.add_permits(1);
    verifier.holder(&token).await.expect("a token");
    assert_eq!(source.reads.load(Ordering::Relaxed), 2);
}
