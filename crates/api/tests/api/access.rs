//! Who is let in, to what, and as whom a caller stands in audits.

#[path = "access/full_tenant.rs"]
mod full_tenant;
#[path = "access/roles.rs"]
mod roles;
#[path = "access/sweeps.rs"]
mod sweeps;

pub(crate) use full_tenant::{FullTenant, PLANTED};
use roles::differs;
pub(crate) use roles::{assert_as_written, in_order};
use sweeps::row_of;
pub(crate) use sweeps::{
    Credential, all_is_on, each_route_needs_its_role, one_tenant_reaches_nothing_of_another,
};

use crate::reply::Reply;
use crate::site::{Site, eventually};
use counterstep_api::{AuthSettings, Beside, TrustedPeers, all_routes};
use counterstep_contracts::access::{KeyView, NewKey, Role};
use counterstep_contracts::http::{Accepted, AuditTrail, Page};
use counterstep_contracts::operation::Access;
use counterstep_contracts::{Host, TaskId, Tenant};
use counterstep_kernel::access::api_keys::{self, KeySpec};
use counterstep_kernel::ports::TaskQuery;
use counterstep_kernel::turn::turn;
use counterstep_operations::Running;
use counterstep_steps::CancelToken;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::task::JoinHandle;

pub(crate) const NOTE: &str = r#"{"text":"hello"}"#;

/// A site that lets in holders of keys alone.
pub(crate) async fn locked() -> Site {
    Site::with(|api, engine| {
        all_is_on(api, engine);
        api.auth = AuthSettings::Keys;
    })
    .await
}

/// A new key, and its id.
pub(crate) async fn key(site: &Site, tenant: &str, role: Role) -> (String, String) {
    let spec = KeySpec {
        tenant: Tenant(tenant.to_owned()),
        subject: format!("{tenant}-{role}"),
        role,
        expires_in: None,
    };
    let ports = &site.engine.ports;
    let made = api_keys::make(&ports.store, ports.random.as_ref(), spec, "test").await;
    let (key, row) = made.expect("a key");
    (key.expose(), row.id)
}

pub(crate) async fn ask(site: &Site, key: &str, method: &str, path: &str, body: &str) -> Reply {
    let mut request = site.request(method, path).bearer_auth(key);
    if method == "POST" || method == "PUT" {
        request = request
            .header("content-type", "application/json")
            .body(body.to_owned());
    }
    site.send(request).await
}

async fn submit(site: &Site, key: &str) -> TaskId {
    let accepted: Accepted = ask(site, key, "POST", "/api/tasks/write-note", NOTE)
        .await
        .json(202);
    accepted.task_id
}

async fn trail(site: &Site, key: &str, task: TaskId) -> AuditTrail {
    let path = format!("/api/tasks/{task}/audit");
    ask(site, key, "GET", &path, "").await.json(200)
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_valid_key_the_answer_is_401_and_always_the_same() {
    let site = locked().await;
    let (key, id) = key(&site, "acme", Role::Admin).await;
    let path = "/api/tasks";
    let no_header = site.get(path).await;
    no_header.problem(401, "unauthenticated");
    assert_eq!(
        no_header.header("www-authenticate"),
        Some("Bearer realm=\"counterstep\"")
    );
    let unknown = format!("cs_{}_{}", "0".repeat(16), "0".repeat(64));
    let wrong_secret = format!("cs_{id}_{}", "0".repeat(64));
    let cut = &key[..key.len() - 1];
    let forms = [
        "Bearer ".to_owned(),
        "Bearer".to_owned(),
        format!("Bearer {unknown}"),
        format!("Bearer {wrong_secret}"),
        format!("Bearer {cut}"),
        format!("Basic {key}"),
        key.clone(),
    ];
    for form in &forms {
        let reply = site
            .send(site.request("GET", path).header("authorization", form))
            .await;
        reply.problem(401, "unauthenticated");
        assert_eq!(reply.body, no_header.body, "{form}");
    }
    let in_query = site.get(&format!("{path}?api_key={key}")).await;
    in_query.problem(401, "unauthenticated");
    ask(&site, &key, "GET", path, "").await.assert_status(200);
    let lower = site
        .request("GET", path)
        .header("authorization", format!("bearer  {key}"));
    site.send(lower).await.assert_status(200);
    let revoked = ask(&site, &key, "DELETE", &format!("/api/keys/{id}"), "").await;
    assert!(revoked.json::<KeyView>(200).revoked_at.is_some());
    let reply = ask(&site, &key, "GET", path, "").await;
    reply.problem(401, "unauthenticated");
    assert_eq!(reply.body, no_header.body, "revoked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_the_database_does_not_find_in_time_is_answered_503() {
    let site = locked().await;
    let silenced = site.clock.silence();
    // More than are read side by side.
    let asked: Vec<_> = (0..8)
        .map(|id| {
            let unknown = format!("cs_{id:016}_{}", "0".repeat(64));
            let request = site.request("GET", "/api/tasks").bearer_auth(unknown);
            tokio::spawn(request.send())
        })
        .collect();
    eventually("a read without an answer", || async {
        match silenced.waiting() {
            0 => Err("nothing is read"),
            _ => Ok(()),
        }
    })
    .await;
    eventually("an answer to each request", || async {
        site.clock.advance("5s");
        match asked.iter().all(JoinHandle::is_finished) {
            true => Ok(()),
            false => Err("a request waits"),
        }
    })
    .await;
    for answer in asked {
        let answer = answer.await.expect("no panic").expect("an answer");
        Reply::of(answer).await.problem(503, "unavailable");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_the_key_that_opened_it() {
    let site = locked().await;
    let (admin, _) = key(&site, "acme", Role::Admin).await;
    let (reader, id) = key(&site, "acme", Role::Read).await;
    let task = submit(&site, &admin).await;
    let mut streams = Vec::new();
    for path in [
        format!("/api/tasks/{task}/events"),
        "/api/events".to_owned(),
    ] {
        let open = site.request("GET", &path).bearer_auth(&reader).send().await;
        let open = open.expect("an answer");
        assert_eq!(open.status(), 200);
        streams.push(open);
    }
    ask(&site, &admin, "DELETE", &format!("/api/keys/{id}"), "")
        .await
        .assert_status(200);
    for mut stream in streams {
        while stream
            .chunk()
            .await
            .expect("the connection holds")
            .is_some()
        {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_has_expired_is_refused() {
    let site = locked().await;
    let (admin, _) = key(&site, "default", Role::Admin).await;
    let asked = json!({"subject": "guest", "role": "read", "expires_in": "1h"}).to_string();
    let made = ask(&site, &admin, "POST", "/api/keys", &asked).await;
    assert_eq!(made.header("cache-control"), Some("no-store"));
    let made: NewKey = made.json(201);
    ask(&site, &made.key, "GET", "/api/tasks", "")
        .await
        .assert_status(200);
    let row = site.engine.ports.store.api_key(&made.view.id).await;
    let mut row = row.expect("the store answers").rows.remove(0);
    assert!(
        !format!("{row:?}").contains(&made.key[20..]),
        "only a hash is stored"
    );
    row.expires_at = Some(row.created_at);
    row.rev = row.rev.next();
    assert!(
        site.engine
            .ports
            .store
            .put_api_key(&row)
            .await
            .expect("a write")
    );
    // What was read counts for some seconds: another server has not read it.
    let other = site.beside_locked(site.engine.ports.clone());
    ask(&other, &made.key, "GET", "/api/tasks", "")
        .await
        .problem(401, "unauthenticated");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_credentials_are_400_and_headers_of_a_proxy_are_ignored() {
    let site = locked().await;
    let (key, _) = key(&site, "acme", Role::Read).await;
    let twice = site
        .request("GET", "/api/tasks")
        .bearer_auth(&key)
        .bearer_auth(&key);
    site.send(twice)
        .await
        .problem(400, "malformed-authorization");
    let (submitter, _) = self::key(&site, "acme", Role::Submit).await;
    let spoofed = site
        .request("POST", "/api/tasks/write-note")
        .bearer_auth(&submitter)
        .header("counterstep-tenant", "other")
        .header("x-tenant", "other")
        .header("content-type", "application/json")
        .body(NOTE);
    let task = site.send(spoofed).await.json::<Accepted>(202).task_id;
    let record = counterstep_kernel::record::load::read(&site.engine, task).await;
    let record = record.expect("the store answers").expect("a task");
    assert_eq!(record.task.tenant, Tenant("acme".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_each_role_may_use_its_routes_and_those_of_the_roles_below() {
    let site = locked().await;
    let credential =
        async |tenant: &str, role: Role| Credential::bearer(&key(&site, tenant, role).await.0);
    let mut each = Vec::new();
    for role in Role::ALL {
        each.push((*role, credential("default", *role).await));
    }
    let of_another = credential("acme", Role::Admin).await;
    assert_as_written(&each_route_needs_its_role(&site, &each, &of_another).await);
}

/// The calls come from the table; the wanted answers do not.
#[tokio::test(flavor = "multi_thread")]
async fn an_operation_that_is_declared_for_another_role_is_not_as_the_file_wants() {
    let declared_for = async |access: Access| {
        let mut operations = counterstep_operations::ALL.to_vec();
        let pause = operations
            .iter_mut()
            .find(|it| it.declared.about.id == "pauseQueue");
        pause.expect("it is declared").declared.about.access = access;
        let operations: &'static [Running] = operations.leak();
        let site = Site::with(|api, engine| {
            all_is_on(api, engine);
            api.auth = AuthSettings::Keys;
            api.beside = Beside::default().operations(operations);
        })
        .await;
        let mut each = Vec::new();
        for role in Role::ALL {
            let (token, _) = key(&site, "default", *role).await;
            each.push((*role, Credential::bearer(&token)));
        }
        let (token, _) = key(&site, "acme", Role::Admin).await;
        let pause = all_routes().find(|it| it.path == "/api/queues/{name}/pause");
        let pause = pause.expect("its route");
        row_of(&site, pause, &each, &Credential::bearer(&token)).await
    };
    assert!(!differs(&declared_for(Access::Installation).await));
    for access in [
        Access::Role(Role::Admin),
        Access::Role(Role::Operate),
        Access::Open,
    ] {
        let row = declared_for(access).await;
        assert!(differs(&row), "{row:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_one_tenant_reaches_nothing_of_another_on_any_route() {
    let site = locked().await;
    let (own, _) = key(&site, "acme", Role::Admin).await;
    let (other, _) = key(&site, "umbra", Role::Admin).await;
    let [own, other] = [own, other].map(|token| Credential::bearer(&token));
    one_tenant_reaches_nothing_of_another(&site, &own, &other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_and_tenants_that_a_proxy_names_count_as_those_of_keys() {
    let site = Site::with(|api, engine| {
        all_is_on(api, engine);
        let peers = TrustedPeers::parse(["127.0.0.1"]).expect("an address");
        api.auth = AuthSettings::Proxy(peers);
    })
    .await;
    let each: Vec<_> = Role::ALL
        .iter()
        .map(|role| (*role, Credential::proxied("default", *role)))
        .collect();
    let [own, other] = ["acme", "umbra"].map(|tenant| Credential::proxied(tenant, Role::Admin));
    assert_as_written(&each_route_needs_its_role(&site, &each, &own).await);
    one_tenant_reaches_nothing_of_another(&site, &own, &other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_cannot_be_read_is_an_error_to_its_tenant_and_none_to_another() {
    let site = locked().await;
    let (own, _) = key(&site, "acme", Role::Admin).await;
    let (other, _) = key(&site, "umbra", Role::Admin).await;
    for (make, status, code) in [
        ("", 500, "internal"),
        (r#","make":["broken"]"#, 503, "unavailable"),
    ] {
        let task = submit(&site, &own).await;
        let script = format!(r#"{{"victim":"{task}"{make}}}"#);
        let spoils = ask(&site, &own, "POST", "/api/tasks/spoils", &script).await;
        let spoils = spoils.json::<Accepted>(202).task_id;
        turn(&site.engine, Host::Worker, spoils, &CancelToken::new()).await;
        for path in ["", "/audit", "/log", "/why", "/events"] {
            let path = format!("/api/tasks/{task}{path}");
            let refused = ask(&site, &own, "GET", &path, "").await;
            // That its rows cannot be read is why the task stands.
            match path.ends_with("/why") {
                true => assert!(matches!(refused.status, 200 | 503), "{}", refused.status),
                false => drop(refused.problem(status, code)),
            }
            let refused = ask(&site, &other, "GET", &path, "").await;
            refused.problem(404, "no-such-task");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_two_tenants_tell_each_of_its_own() {
    let site = locked().await;
    let (own, _) = key(&site, "acme", Role::Submit).await;
    let (other, _) = key(&site, "umbra", Role::Submit).await;
    let theirs = submit(&site, &other).await;
    // Their stream has read the task before the other tenant asks for it.
    let path = format!("/api/tasks/{theirs}/events");
    let follow = |key: &str| site.request("GET", &path).bearer_auth(key);
    let open = follow(&other).send().await.expect("an answer");
    assert_eq!(open.status(), 200);
    let (status, text) = site.beginning(follow(&own)).await;
    assert_eq!(status, 404, "{text}");
    let mine = submit(&site, &own).await;
    let all = site.request("GET", "/api/events").bearer_auth(&own);
    let (_, text) = site.beginning(all).await;
    assert!(text.contains(&mine.to_string()), "{text}");
    assert!(!text.contains(&theirs.to_string()), "{text}");
    drop(open);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_asks_too_often_or_for_too_many_streams_is_429_and_others_are_not() {
    let site = Site::with(|api, _| {
        api.auth = AuthSettings::Keys;
        api.requests_per_second = std::num::NonZeroU32::new(4);
        api.streams_per_caller = 2;
        api.event_heartbeat = Duration::from_millis(50);
    })
    .await;
    let (busy, _) = key(&site, "acme", Role::Read).await;
    let (other, _) = key(&site, "umbra", Role::Read).await;
    let mut refused = None;
    for _ in 0..50 {
        let reply = ask(&site, &busy, "GET", "/api/tasks", "").await;
        if reply.status == 429 {
            refused = Some(reply);
            break;
        }
        reply.assert_status(200);
    }
    let refused = refused.expect("fifty in less than a dozen seconds are too many");
    refused.problem(429, "too-many-requests");
    assert_eq!(refused.header("retry-after"), Some("1"));
    ask(&site, &other, "GET", "/api/tasks", "")
        .await
        .assert_status(200);
    let open = || {
        site.request("GET", "/api/events")
            .bearer_auth(&other)
            .send()
    };
    let streams = [
        open().await.expect("an answer"),
        open().await.expect("an answer"),
    ];
    assert!(streams.iter().all(|it| it.status() == 200));
    let third = ask(&site, &other, "GET", "/api/events", "").await;
    third.problem(429, "too-many-requests");
    drop(streams);
    eventually("their places are free again", || async {
        let status = site
            .status(site.request("GET", "/api/events").bearer_auth(&other))
            .await;
        if status == 200 { Ok(()) } else { Err(status) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_idempotency_key_of_another_tenant_is_another_key() {
    let site = locked().await;
    let send = async |key: &str| {
        let request = site
            .request("POST", "/api/tasks/write-note")
            .bearer_auth(key)
            .header("idempotency-key", "one")
            .header("content-type", "application/json")
            .body(NOTE);
        site.send(request).await.json::<Accepted>(202).task_id
    };
    let (own, _) = key(&site, "acme", Role::Submit).await;
    let (other, _) = key(&site, "umbra", Role::Submit).await;
    let first = send(&own).await;
    assert_ne!(send(&other).await, first);
    assert_eq!(send(&own).await, first);
}

#[tokio::test(flavor = "multi_thread")]
async fn audits_name_the_caller_and_keep_its_own_words_as_a_note() {
    let site = locked().await;
    site.run_worker();
    let (operator, _) = key(&site, "acme", Role::Operate).await;
    let (submitter, _) = key(&site, "acme", Role::Submit).await;
    let (reader, _) = key(&site, "acme", Role::Read).await;
    ask(&site, &reader, "POST", "/api/tasks/asks-a-person", NOTE)
        .await
        .problem(403, "forbidden");
    let accepted = ask(&site, &submitter, "POST", "/api/tasks/asks-a-person", NOTE).await;
    let task = accepted.json::<Accepted>(202).task_id;
    let parked = async || {
        let path = format!("/api/tasks/{task}?wait=30s");
        let view: Value = ask(&site, &submitter, "GET", &path, "").await.json(200);
        view["status"].clone()
    };
    assert_eq!(parked().await, "dead_lettered");
    let decision = r#"{"as":"done","note":"seen to","actor":"the president"}"#;
    let path = format!("/api/tasks/{task}/resolve");
    ask(&site, &submitter, "POST", &path, decision)
        .await
        .problem(403, "forbidden");
    ask(&site, &operator, "POST", &path, decision)
        .await
        .assert_status(200);
    let trail = trail(&site, &submitter, task).await;
    assert_eq!(trail.entries[0].actor, "client:acme-submit");
    let last = trail.entries.last().expect("an entry");
    assert_eq!(last.actor, "operator:acme-operate");
    assert_eq!(last.details["note"], "seen to (by the president)");
    let cancelled = submit(&site, &submitter).await;
    let path = format!("/api/tasks/{cancelled}");
    let _ = ask(&site, &submitter, "DELETE", &path, "").await;
    let actors: Vec<_> = self::trail(&site, &submitter, cancelled).await.entries;
    assert!(actors.iter().any(|it| it.actor == "client:acme-submit"));
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_made_listed_and_revoked_over_http_and_bad_ones_are_422() {
    let site = locked().await;
    let (admin, _) = key(&site, "default", Role::Admin).await;
    for (body, at) in [
        (json!({"subject": "", "role": "read"}), ""),
        (json!({"subject": "a b", "role": "read"}), ""),
        (
            json!({"subject": "x", "role": "read", "tenant": "../y"}),
            "",
        ),
        (json!({"subject": "x", "role": "root"}), "role"),
        (
            json!({"subject": "x", "role": "read", "expires_in": "0s"}),
            "expires_in",
        ),
        (
            json!({"subject": "x", "role": "read", "is_root": true}),
            "is_root",
        ),
    ] {
        let refused = ask(&site, &admin, "POST", "/api/keys", &body.to_string()).await;
        let problem = refused.problem(422, "invalid-request");
        assert!(
            at.is_empty() || problem["pointer"] == at,
            "{body}: {problem}"
        );
    }
    let asked = json!({"subject": "shop", "role": "submit", "tenant": "acme"}).to_string();
    let made: NewKey = ask(&site, &admin, "POST", "/api/keys", &asked)
        .await
        .json(201);
    assert_eq!(
        (made.view.tenant.as_str(), made.view.role),
        ("acme", Role::Submit)
    );
    assert_eq!(made.view.created_by, "operator:default-admin");
    submit(&site, &made.key).await;
    let listed = ask(&site, &admin, "GET", "/api/keys", "").await;
    let text = String::from_utf8_lossy(&listed.body).into_owned();
    assert!(
        !text.contains(&made.key[20..]),
        "a list holds no secret: {text}"
    );
    let page: Page<KeyView> = listed.json(200);
    assert_eq!(page.items.len(), 2);
    let gone = format!("/api/keys/{}", "0".repeat(16));
    ask(&site, &admin, "DELETE", &gone, "")
        .await
        .problem(404, "no-such-key");
    let query = TaskQuery {
        tenant: Some(Tenant("acme".to_owned())),
        limit: 9,
        ..TaskQuery::default()
    };
    let lines = site.engine.ports.store.list(&query).await;
    assert_eq!(lines.expect("the store answers").lines.len(), 1);
}
