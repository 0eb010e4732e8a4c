//! Operations whose client goes away: what has begun comes to its end.

use super::lossy_store::{Fate, LostReplies};
use super::{Request, everything, request_for};
use crate::administration::entries;
use crate::site::{Site, eventually};
use actix_web::App;
use actix_web::test::{TestRequest, init_service};
use counterstep_api::{ApiSettings, MountedApi, all_routes};
use counterstep_kernel::ports::Ports;
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_operations::ALL;
use counterstep_steps::CancelToken;
use counterstep_testkit::through::Through;
use futures::future::{Either, select};
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::oneshot;

/// How often an operation is begun anew where it had nothing to change.
const TRIES: u32 = 20;

/// What is seen of an operation that is done: the audit of changes beside tasks, or that of the task, or a list where it has no entry
/// in either.
async fn seen(site: &Site, id: &str, request: &Request) -> String {
    let list = match (id, request.task) {
        // Without the webhook's id and `/send`.
        ("sendWebhook", _) => {
            let list = request.path.rsplitn(3, '/').last();
            list.expect("the webhooks of a task").to_owned()
        }
        ("sendTestAlert", _) => "/api/alerts".to_owned(),
        ("runSchedule", _) => "/api/tasks".to_owned(),
        (_, Some(task)) => format!("/api/tasks/{task}/audit"),
        _ => return format!("{:?}", entries(site).await),
    };
    String::from_utf8(site.get(&list).await.body).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_that_changes_something_comes_to_its_end_where_its_client_goes_away() {
    let site = Site::with(everything).await;
    let (lossy, store) = site
        .engine
        .ports
        .store
        .clone()
        .through(|store| Through::new(store, LostReplies::default()));
    let ports = Ports {
        store: lossy,
        ..site.engine.ports.clone()
    };
    let (mut api, mut settings) = (ApiSettings::default(), EngineSettings::default());
    everything(&mut api, &mut settings);
    let engine = Engine::new(ports, Arc::new(crate::types::all()), settings, "api");
    let mounted = MountedApi::new(engine, api, CancelToken::new());
    // In this process, where the future of a request is dropped when the test drops it.
    let service = init_service(App::new().service(mounted.scope("/in"))).await;
    for about in ALL.iter().map(|it| it.declared.about) {
        if !about.changes() {
            continue;
        }
        let is_its = |method: &str, path: &str| (method, path) == (about.verb.name(), about.path);
        let mut routes = all_routes();
        let route = routes.find(|it| is_its(it.method, it.path));
        let mut left = TRIES;
        let (request, before, go_on) = loop {
            let request = request_for(&site, route.expect("its route")).await;
            let before = seen(&site, about.id, &request).await;
            let (reached, is_reached) = oneshot::channel();
            let (go_on, goes_on) = oneshot::channel::<()>();
            store.around.lose(
                0,
                Fate::Delayed,
                Box::new(|| {
                    Box::pin(async {
                        let _ = (reached.send(()), goes_on.await);
                    })
                }),
            );
            let method = about.verb.name().parse().expect("a method");
            let call = TestRequest::with_uri(&format!("/in{}", request.path))
                .method(method)
                .insert_header(("content-type", "application/json"))
                .set_payload(request.body.to_string())
                .to_request();
            let call = actix_web::dev::Service::call(&service, call);
            match select(pin!(is_reached), pin!(call)).await {
                Either::Left((Ok(()), _dropped)) => break (request, before, go_on),
                Either::Left((Err(_), _)) => panic!("{}: it changes nothing", about.id),
                // A bulk operation that ended before.
                Either::Right(_) if about.id.ends_with("BulkOperation") && left > 0 => left -= 1,
                Either::Right((answer, _)) => {
                    let answer = answer.map(|it| it.status());
                    panic!("{}: it is over without a change: {answer:?}", about.id)
                }
            }
        };
        go_on.send(()).expect("it goes on after its client");
        eventually(about.id, async || {
            let after = seen(&site, about.id, &request).await;
            (after != before).then_some(()).ok_or(after)
        })
        .await;
    }
}
