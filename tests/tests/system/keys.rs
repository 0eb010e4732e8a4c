//! API keys from the command line to the log: made in the database, sent from a file, revoked.

use counterstep_contracts::access::KeyView;
use counterstep_contracts::http::{Accepted, Page};
use counterstep_tests::command::{Ended, run};
use counterstep_tests::place::Place;
use counterstep_tests::rows::Rows;
use counterstep_tests::services::{self, Served};
use counterstep_tests::wait::{SOON, until_now};
use reqwest::{Method, RequestBuilder};
use serde_json::from_str;

fn keys(place: &Place, arguments: &[&str]) -> Ended {
    let data = place.data();
    let data = data.to_str().expect("UTF-8");
    run(
        place.path(),
        &[&["keys", "--data-dir", data], arguments].concat(),
    )
}

#[test]
fn a_key_lets_in_until_it_is_revoked_and_stands_nowhere_in_clear() {
    let place = Place::new();
    // Before there is any service, and any table.
    let made = keys(&place, &["create", "--subject", "kim", "--role", "operate"]);
    let key = made.assert_code(0).stdout.trim().to_owned();
    let secret = key.rsplit('_').next().expect("a secret");
    std::fs::write(place.path().join("kim.key"), format!("{key}\n")).expect("a file");
    std::fs::write(place.path().join("empty.key"), "\n").expect("a file");
    let served = services::api(&place, &["--auth", "keys", "--log", "trace"]);
    let list = |flags: &[&str]| {
        run(
            place.path(),
            &[&["tasks", "--url", served.api.url()], flags, &["list"]].concat(),
        )
    };
    list(&[]).assert_code(1).assert_says("unauthenticated");
    list(&["--token-file", "empty.key"])
        .assert_code(78)
        .assert_says("token_file");
    list(&["--token-file", "missing.key"])
        .assert_code(78)
        .assert_says("missing.key");
    let listed = list(&["--token-file", "kim.key"]);
    assert!(!listed.assert_code(0).stderr.contains("warning"));
    let away = "http://api.counterstep.invalid";
    let in_clear = ["tasks", "--url", away, "--token-file", "kim.key", "list"];
    let warned = run(place.path(), &in_clear);
    warned
        .assert_code(69)
        .assert_says("the key of `token_file` goes to api.counterstep.invalid without encryption");
    assert!(!warned.stderr.contains(secret), "{warned:?}");
    let in_query = format!("/api/tasks?api_key={key}");
    let asked = run(
        place.path(),
        &[
            "tasks",
            "--url",
            &format!("{}{in_query}", served.api.url()),
            "list",
        ],
    );
    asked.assert_code(1);
    let listed = keys(&place, &["list", "--json"]);
    let page: Page<KeyView> = from_str(&listed.assert_code(0).stdout).expect("JSON");
    assert_eq!(page.items.len(), 1);
    assert!(!listed.stdout.contains(secret), "{listed:?}");
    let shown = keys(&place, &["list"]);
    assert!(shown.assert_code(0).stdout.contains("kim"), "{shown:?}");
    keys(&place, &["revoke", "0000000000000000"])
        .assert_code(1)
        .assert_says("0000000000000000");
    keys(&place, &["revoke", &page.items[0].id])
        .assert_code(0)
        .assert_says("revoked");
    until_now("a key that is revoked is refused", SOON, || {
        let refused = list(&["--token-file", "kim.key"]);
        (refused.code == Some(1)).then_some(())
    });
    let audit = |arguments: &[&str]| {
        let data = place.data();
        let data = ["--data-dir", data.to_str().expect("UTF-8")];
        run(place.path(), &[&["audit"], &data[..], arguments].concat())
    };
    let changes = audit(&["changes"]);
    let said: Vec<&str> = changes.assert_code(0).stdout.lines().collect();
    assert_eq!(said.len(), 2, "{changes:?}");
    assert!(
        said[0].contains("key_made default/") && said[0].contains("by operator (command line)")
    );
    assert!(said[1].contains("key_revoked"), "{changes:?}");
    let heads = audit(&["heads"]);
    assert!(
        heads.assert_code(0).stdout.contains("administration 2 "),
        "{heads:?}"
    );
    std::fs::write(place.path().join("heads"), &heads.stdout).expect("a file");
    let verified = audit(&["verify", "--heads", "heads"]);
    assert!(
        verified.assert_code(0).stdout.contains("2 changes"),
        "{verified:?}"
    );
    let log = served.process.log();
    assert!(!log.contains(secret), "the log holds the secret");
    assert!(served.process.stop().success());
    let stored = std::fs::read(place.database()).expect("the database");
    let has_secret = stored
        .windows(secret.len())
        .any(|window| window == secret.as_bytes());
    assert!(!has_secret, "the database holds the secret");
}

#[test]
fn why_an_access_token_is_refused_stands_in_the_log_and_the_token_does_not() {
    let place = Place::new();
    let keys = place.path().join("keys.json");
    std::fs::write(&keys, r#"{"keys":[]}"#).expect("a file");
    let keys = format!("file://{}", keys.display());
    let settings = [
        "--auth",
        "jwt",
        "--jwt-issuer",
        "https://issuer.example",
        "--jwt-audience",
        "counterstep",
        "--jwt-keys",
        &keys,
        "--log",
        "trace",
    ];
    let served = services::api(&place, &settings);
    // `{"alg":"ES256","kid":"a"}`, no claims, and no signature of any key.
    let signature = "c2lnbmVkLWJ5LW5vLWtleQ";
    let token = format!("eyJhbGciOiJFUzI1NiIsImtpZCI6ImEifQ.e30.{signature}");
    std::fs::write(place.path().join("a.token"), &token).expect("a file");
    let url = served.api.url();
    let flags = ["tasks", "--url", url, "--token-file", "a.token", "list"];
    run(place.path(), &flags)
        .assert_code(1)
        .assert_says("unauthenticated");
    let in_query = format!("{url}/api/tasks?jwt={token}");
    run(place.path(), &["tasks", "--url", &in_query, "list"]).assert_code(1);
    let log = served.process.log();
    assert!(log.contains("no key of the issuer fits"), "{log}");
    assert!(!log.contains(signature), "the log holds the token");
    assert!(served.process.stop().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_behind_a_proxy_believes_the_headers_of_its_proxy_alone() {
    let place = Place::new();
    let named = async |served: &Served, headers: &[(&str, &str)], path: &str| {
        let request = served.api.request(Method::GET, path);
        let add =
            |request: RequestBuilder, (name, value): &(&str, &str)| request.header(*name, *value);
        let sent = headers.iter().fold(request, add).send().await;
        sent.expect("an answer").status().as_u16()
    };
    let kim = [
        ("counterstep-subject", "kim"),
        ("counterstep-role", "read"),
        ("counterstep-tenant", "acme"),
    ];
    let proxied = ["--auth", "proxy", "--auth-proxies"];
    let served = services::api(&place, &[&proxied[..], &["127.0.0.0/8"]].concat());
    for (headers, path, status) in [
        (&kim[..], "/api/tasks", 200),
        (&kim, "/api/keys", 403),
        (&kim[..1], "/api/tasks", 401),
        (&[], "/api/tasks", 401),
        (&[("authorization", "Bearer kim")], "/api/tasks", 401),
        (&[kim[0], kim[1], kim[1]], "/api/tasks", 400),
        (&[kim[0], ("counterstep-role", "root")], "/api/tasks", 400),
        (&[], "/healthz", 200),
    ] {
        let found = named(&served, headers, path).await;
        assert_eq!(found, status, "{path}: {headers:?}");
    }
    let order = serde_json::json!({"account": "a", "item": "i", "quantity": 1, "amount_cents": 1});
    let mut submitter = kim;
    submitter[1].1 = "submit";
    let request = served
        .api
        .request(Method::POST, "/api/tasks/place-order")
        .json(&order);
    let add = |request: RequestBuilder, (name, value): &(&str, &str)| request.header(*name, *value);
    let sent = submitter.iter().fold(request, add).send().await;
    let accepted: Accepted = sent.expect("an answer").json().await.expect("a body");
    let known = Rows::of(&place).await.task(accepted.task_id).await;
    assert_eq!(known.record.task.tenant.0, "acme");
    assert_eq!(known.history.audit[0].entry.actor, "client:kim");
    assert!(served.process.stop().success());
    // Elsewhere is the proxy: from this machine nothing is believed, whatever a header says of where it comes from.
    let served = services::api(&place, &[&proxied[..], &["10.0.0.7"]].concat());
    let forwarded = [
        &kim[..],
        &[
            ("x-forwarded-for", "10.0.0.7"),
            ("forwarded", "for=10.0.0.7"),
        ],
    ]
    .concat();
    assert_eq!(named(&served, &forwarded, "/api/tasks").await, 401);
    assert!(served.process.stop().success());
}

#[test]
fn what_can_be_no_key_and_no_way_to_authenticate_is_refused_by_name() {
    let place = Place::new();
    let create = ["create", "--subject", "kim", "--role"];
    keys(&place, &[&create[..], &["root"]].concat())
        .assert_code(2)
        .assert_says("root");
    keys(
        &place,
        &[&create[..], &["read", "--expires-in", "0s"]].concat(),
    )
    .assert_code(2)
    .assert_says("expires-in");
    keys(
        &place,
        &[&create[..], &["read", "--tenant", "../x"]].concat(),
    )
    .assert_code(78)
    .assert_says("tenant");
    keys(&place, &["create", "--subject", "a b", "--role", "read"])
        .assert_code(78)
        .assert_says("subject");
    for (flags, says) in [
        (&["--auth", "proxy"][..], "auth_proxies"),
        (
            &["--auth", "keys", "--auth-proxies", "10.0.0.7"],
            "auth_proxies",
        ),
        (
            &["--auth", "proxy", "--auth-proxies", "a.example"],
            "a.example",
        ),
        (&["--auth", "jwt"], "jwt_issuer"),
        (&["--auth", "jwt", "--jwt-issuer", "a"], "jwt_audience"),
        (
            &[
                "--auth",
                "keys",
                "--jwt-issuer",
                "a",
                "--jwt-audience",
                "b",
                "--jwt-keys",
                "file:///keys.json",
            ],
            "--auth jwt",
        ),
        (
            &[
                "--auth",
                "jwt",
                "--jwt-issuer",
                "a",
                "--jwt-audience",
                "b",
                "--jwt-keys",
                "http://10.0.0.7/keys",
            ],
            "jwt_keys",
        ),
    ] {
        let listen = ["api", "--listen", "127.0.0.1:0"];
        run(place.path(), &[&listen[..], flags].concat())
            .assert_code(78)
            .assert_says(says);
    }
    run(place.path(), &["api", "--auth", "password"])
        .assert_code(2)
        .assert_says("password");
}
