//! Two views that are saved at the same moment, where there is room for one.

use super::lossy_store::{Fate, LostReplies};
use super::put;
use crate::site::Site;
use counterstep_contracts::http::Page;
use counterstep_contracts::view::{MOST_VIEWS, SavedView};
use counterstep_kernel::ports::Ports;
use counterstep_testkit::through::Through;
use serde_json::json;
use std::sync::Arc;

async fn names(site: &Site) -> Vec<String> {
    let views: Page<SavedView> = site.get("/api/views").await.json(200);
    views.items.into_iter().map(|it| it.name).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_views_that_are_saved_at_once_one_is_refused_where_there_is_room_for_one() {
    let site = Arc::new(Site::start().await);
    let open = json!({ "q": "open" });
    for no in 1..MOST_VIEWS {
        put(&site, &format!("/api/views/v{no}"), &open).await;
    }
    assert_eq!(names(&site).await.len(), MOST_VIEWS as usize - 1);
    let plain = site.engine.ports.store.clone();
    let (lossy, store) = plain.through(|store| Through::new(store, LostReplies::default()));
    let ports = Ports {
        store: lossy,
        ..site.engine.ports.clone()
    };
    let raced = site.beside(ports);
    // The other one is saved between the count and the write.
    let (other, view) = (site.clone(), open.clone());
    let between = move || -> futures::future::BoxFuture<'static, ()> {
        Box::pin(async move { put(&other, "/api/views/other", &view).await })
    };
    store.around.lose(0, Fate::Delayed, Box::new(between));
    let late = raced.request("PUT", "/api/views/late");
    let late = late.header("content-type", "application/json");
    let refused = raced.send(late.body(open.to_string())).await;
    let problem = refused.problem(429, "too-many-requests");
    let detail = problem["detail"].as_str().expect("a text");
    assert!(detail.contains("delete one"), "{detail}");
    let there = names(&site).await;
    assert_eq!(there.len(), MOST_VIEWS as usize);
    assert!(there.iter().any(|it| it == "other"), "{there:?}");
    // One that is there is changed all the same, and one that is deleted makes room.
    let changed = site.request("PUT", "/api/views/v1");
    let changed = changed.header("content-type", "application/json");
    let changed = site.send(changed.body(json!({ "q": "parked" }).to_string()));
    assert_eq!(changed.await.json::<SavedView>(200).q, "parked");
    let deleted = site.request("DELETE", "/api/views/v2");
    site.send(deleted).await.assert_status(204);
    put(&site, "/api/views/late", &open).await;
    let there = names(&site).await;
    assert!(there.iter().any(|it| it == "late"), "{there:?}");
}
