//! Sweeps over the table of routes, for each way in which callers are authenticated: that each route needs its
//! role, and that a caller of one tenant reaches nothing of another.

use super::full_tenant::{FullTenant, PLANTED};
use super::roles::Row;
use crate::site::Site;
use counterstep_api::{ApiSettings, RouteView, all_routes};
use counterstep_contracts::access::{NewKey, Role};
use counterstep_kernel::EngineSettings;
use counterstep_kernel::access::result_links::LinkSecrets;
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use std::time::Duration;

/// Who sends a request: the headers that say so.
#[derive(Debug, Clone)]
pub(crate) struct Credential(Vec<(&'static str, String)>);

impl Credential {
    pub(crate) fn bearer(token: &str) -> Self {
        Self(vec![("authorization", format!("Bearer {token}"))])
    }

    /// As a proxy names its client.
    pub(crate) fn proxied(tenant: &str, role: Role) -> Self {
        Self(vec![
            ("counterstep-subject", format!("{tenant}-{role}")),
            ("counterstep-tenant", tenant.to_owned()),
            ("counterstep-role", role.to_string()),
        ])
    }

    pub(crate) fn on(&self, request: RequestBuilder) -> RequestBuilder {
        let add = |request: RequestBuilder, (name, value): &(_, _)| request.header(*name, value);
        self.0.iter().fold(request, add)
    }
}

/// Everything that a sweep asks for is switched on.
pub(crate) fn all_is_on(api: &mut ApiSettings, engine: &mut EngineSettings) {
    crate::webhooks::sending(&["127.0.0.0/8"])(api, engine);
    let secret = LinkSecrets::line([1, 1]);
    api.links = Some(LinkSecrets::parse(&secret).expect("a secret"));
    api.event_heartbeat = Duration::from_millis(50);
    api.event_poll = Duration::from_millis(20);
}

/// With a credential of each role in the default tenant, and one of an administrator of another: what they are answered,
/// behind one without a credential.
pub(crate) async fn each_route_needs_its_role(
    site: &Site,
    each: &[(Role, Credential)],
    of_another: &Credential,
) -> Vec<Row> {
    let mut rows = Vec::new();
    for route in all_routes() {
        let row = row_of(site, route, each, of_another).await;
        let [without, statuses @ .., another] = &row.1[..] else {
            panic!("{row:?}");
        };
        assert_eq!(*without == 401, route.role.is_some(), "{route:?}");
        for ((role, _), status) in each.iter().zip(statuses) {
            if route.role.is_some_and(|needed| *role < needed) {
                assert_eq!(*status, 403, "{role} {route:?}");
            } else {
                assert!(
                    *status != 401 && *status != 403,
                    "{role} {route:?}: {status}"
                );
            }
        }
        assert_eq!(
            *another == 403,
            route.is_of_installation,
            "{route:?}: {another}"
        );
        rows.push(row);
    }
    assert!(rows.len() > 60, "{rows:?}");
    rows
}

/// What callers of a route are answered.
pub(crate) async fn row_of(
    site: &Site,
    route: RouteView,
    each: &[(Role, Credential)],
    of_another: &Credential,
) -> Row {
    let spare = "0".repeat(16);
    let path = route.path.replace("{id}", &spare).replace("{name}", "x");
    let path = path.replace("{name:.+}", "x");
    let without = site.send(site.request(route.method, &path)).await;
    let mut statuses = vec![without.status];
    if without.status == 401 {
        drop(without.problem(401, "unauthenticated"));
    }
    // What it answers to one who may ask is for other tests; a stream of events has no end.
    let credentials = each.iter().map(|(_, credential)| credential);
    for by in credentials.chain([of_another]) {
        let status = site.status(by.on(site.request(route.method, &path))).await;
        statuses.push(status);
    }
    (format!("{} {}", route.method, route.path), statuses)
}

async fn send(
    site: &Site,
    by: &Credential,
    route: RouteView,
    (path, body): (&str, &Value),
) -> (u16, String) {
    let mut request = by.on(site.request(route.method, path));
    if route.method == "POST" || route.method == "PUT" {
        request = request
            .header("content-type", "application/json")
            .body(body.to_string());
    }
    site.beginning(request).await
}

/// A receiver of webhooks that takes none.
const NOWHERE: &str = "http://127.0.0.1:1/";

/// What lists a tenant's own, and what it has to hold of the planted.
const LISTS: [&str; 7] = [
    "/api/tasks",
    "/api/events",
    "/api/dead-letters",
    "/api/bulk-operations",
    "/api/schedules",
    "/api/views",
    "/api/keys",
];

/// With a credential of an administrator of each of two tenants, none of them the default one.
pub(crate) async fn one_tenant_reaches_nothing_of_another(
    site: &Site,
    own: &Credential,
    other: &Credential,
) {
    site.run_worker();
    let mut umbra = FullTenant {
        site,
        admin: other,
        webhook: NOWHERE.to_owned(),
        ids: Vec::new(),
    };
    umbra.task_in("asks-a-person", "dead_lettered").await;
    umbra.key().await;
    umbra.bulk().await;
    let tells = |text: &str, umbra: &FullTenant<'_>| {
        let ids = umbra.ids.iter().map(String::as_str);
        let found = ids.chain([PLANTED]).find(|it| text.contains(it));
        found.map(str::to_owned)
    };
    let (mut reached, mut listed) = (0, 0);
    for route in all_routes().filter(|route| route.role.is_some()) {
        if route.is_of_installation {
            let (status, text) = send(site, own, route, (route.path, &json!({}))).await;
            assert_eq!(status, 403, "{route:?}: {text}");
            continue;
        }
        if route.method == "PUT"
            && ["/api/schedules/{name}", "/api/views/{name}"].contains(&route.path)
        {
            continue;
        }
        if route.path.contains('{') {
            let Some((path, body)) = umbra.target(route).await else {
                continue;
            };
            let before = umbra.trail(&path).await;
            let (status, text) = send(site, own, route, (&path, &body)).await;
            assert_eq!(status, 404, "{route:?}: {text}");
            let told = tells(&text.replace(&path, ""), &umbra);
            assert_eq!(told, None, "{route:?}: {text}");
            let after = umbra.trail(&path).await;
            assert_eq!(
                after, before,
                "{route:?}: nothing is noted of those who asked"
            );
            let (status, text) = send(site, other, route, (&path, &body)).await;
            assert!((200..300).contains(&status), "{route:?}: {status} {text}");
            reached += 1;
            if path.starts_with("/api/schedules/") && route.method != "DELETE" {
                umbra.forget_schedule().await;
            }
            continue;
        }
        umbra.schedule().await;
        umbra.view().await;
        let body = match route.path {
            "/api/bulk-operations" => {
                json!({"action": "redrive", "filter": {}, "note": "x", "preview": true})
            }
            "/api/keys" => json!({"subject": "own", "role": "read"}),
            _ => Value::Null,
        };
        let (status, text) = send(site, own, route, (route.path, &body)).await;
        assert!((200..300).contains(&status), "{route:?}: {status} {text}");
        assert_eq!(tells(&text, &umbra), None, "{route:?}: {text}");
        let is_list = route.method == "GET" && LISTS.contains(&route.path);
        let mut tries = 0;
        loop {
            let (status, text) = send(site, other, route, (route.path, &body)).await;
            assert!((200..300).contains(&status), "{route:?}: {status} {text}");
            // A stream may begin with a sign of life, before its first event.
            let is_told = tells(&text, &umbra).is_some();
            if is_told || !is_list {
                break;
            }
            tries += 1;
            assert!(tries < 50, "{route:?}: {text}");
        }
        listed += usize::from(is_list);
        umbra.forget_schedule().await;
    }
    assert_eq!(listed, LISTS.len());
    assert!(reached > 20, "{reached}");
    names_are_each_tenants_own(site, own, &mut umbra).await;
}

/// A name takes nothing away from another tenant's, and a key for another tenant is made for none of them.
async fn names_are_each_tenants_own(site: &Site, own: &Credential, umbra: &mut FullTenant<'_>) {
    umbra.schedule().await;
    let path = format!("/api/schedules/{PLANTED}");
    let before: Value = umbra.ask("GET", &path, "").await.json(200);
    let acme = FullTenant {
        site,
        admin: own,
        webhook: NOWHERE.to_owned(),
        ids: Vec::new(),
    };
    let other = json!({"type": "WriteNote", "request": {"text": "own"}, "cron": "0 1 * * *"});
    acme.ask("PUT", &path, &other.to_string())
        .await
        .assert_status(201);
    let after: Value = umbra.ask("GET", &path, "").await.json(200);
    assert_eq!(after, before);
    umbra.view().await;
    let path = format!("/api/views/{PLANTED}");
    acme.ask("PUT", &path, r#"{"q":"open"}"#)
        .await
        .assert_status(200);
    let views: Value = umbra.ask("GET", "/api/views", "").await.json(200);
    assert_eq!(views["items"][0]["q"], format!("{PLANTED} since:1h"));
    let for_other = json!({"subject": "own", "role": "read", "tenant": "umbra"});
    let refused = acme.ask("POST", "/api/keys", &for_other.to_string()).await;
    assert_eq!(refused.problem(403, "forbidden")["pointer"], "tenant");
    let for_own = json!({"subject": "own", "role": "admin", "tenant": "acme"});
    let made: NewKey = acme
        .ask("POST", "/api/keys", &for_own.to_string())
        .await
        .json(201);
    assert_eq!(made.view.tenant, "acme");
}
