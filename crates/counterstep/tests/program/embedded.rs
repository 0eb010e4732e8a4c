//! An engine in servers of other programs, as the examples show it.

#[path = "../../examples/embedded_actix.rs"]
#[expect(
    dead_code,
    unreachable_pub,
    reason = "an example is a program of its own"
)]
mod in_actix;
#[path = "../../examples/embedded_axum.rs"]
#[expect(
    dead_code,
    unreachable_pub,
    reason = "an example is a program of its own"
)]
mod in_axum;

use counterstep::Settings;
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use std::net::TcpListener;
use tempfile::TempDir;
use tokio::sync::oneshot;

/// A folder for the engine, and an address for the server.
fn place() -> (TempDir, Settings, TcpListener, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = Settings::in_folder(folder.path());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("its address"));
    (folder, settings, listener, url)
}

/// The program's own route submits a task, and so does a request to the API below `/work`, whose
/// addresses lead through the same server.
async fn use_it(url: &str) {
    let http = Client::new();
    let greeted = http
        .get(format!("{url}/greet/Ada"))
        .send()
        .await
        .expect("an answer");
    assert_eq!(greeted.status(), StatusCode::OK);
    assert_eq!(greeted.text().await.expect("a text"), "good day, Ada");

    let submitted = http
        .post(format!("{url}/work/api/tasks/greet"))
        .json(&json!({"name": "Grace"}))
        .send()
        .await
        .expect("an answer");
    assert_eq!(submitted.status(), StatusCode::ACCEPTED);
    let location = submitted.headers()["location"].to_str().expect("a text");
    assert!(location.starts_with("/work/api/tasks/"), "{location}");
    let task: Value = http
        .get(format!("{url}{location}?wait=30s"))
        .send()
        .await
        .expect("an answer")
        .json()
        .await
        .expect("JSON");
    assert_eq!(task["response"], "good day, Grace", "{task}");

    let types: Value = http
        .get(format!("{url}/work/api/task-types"))
        .send()
        .await
        .expect("an answer")
        .json()
        .await
        .expect("JSON");
    assert_eq!(types["items"][0]["submit_to"], "/work/api/tasks/greet");
    for (path, expected) in [
        ("/work/readyz", StatusCode::OK),
        ("/work/api/nothing", StatusCode::NOT_FOUND),
        ("/api/tasks", StatusCode::NOT_FOUND),
    ] {
        let answer = http.get(format!("{url}{path}")).send().await;
        assert_eq!(answer.expect("an answer").status(), expected, "{path}");
    }
    // A page of another site is refused below the path as at the root.
    let foreign = http
        .post(format!("{url}/work/api/tasks/greet"))
        .header("Sec-Fetch-Site", "cross-site")
        .json(&json!({"name": "Eve"}))
        .send()
        .await
        .expect("an answer");
    assert_eq!(foreign.status(), StatusCode::FORBIDDEN);
    // And so is a page whose name was made to lead here.
    let rebound = http
        .get(format!("{url}/work/api/tasks"))
        .header("Host", "evil.example")
        .send()
        .await
        .expect("an answer");
    assert_eq!(rebound.status(), StatusCode::FORBIDDEN);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_runs_in_an_actix_server_and_stops_with_it() {
    let (_folder, settings, listener, url) = place();
    let (stop, stopped) = oneshot::channel::<()>();
    let until = async { drop(stopped.await) };
    let client = async {
        use_it(&url).await;
        drop(stop);
    };
    let (served, ()) = tokio::join!(in_actix::serve(listener, &settings, until), client);
    served.expect("it stops in order");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_runs_behind_an_axum_server_and_stops_with_it() {
    let (_folder, settings, listener, url) = place();
    let (stop, stopped) = oneshot::channel::<()>();
    let until = async { drop(stopped.await) };
    let client = async {
        use_it(&url).await;
        drop(stop);
    };
    let (served, ()) = tokio::join!(in_axum::serve(listener, &settings, until), client);
    served.expect("it stops in order");
}

/// Segments of a scope around it may be named as those of the interface are, and hold anything.
#[actix_web::test]
async fn a_scope_around_the_interface_may_have_segments_of_its_own() {
    use actix_web::{App, http::header, test, web};
    use counterstep::{ApiSettings, Roles, Service};
    let (_folder, settings, ..) = place();
    let registry = in_actix::tasks::tasks();
    let started = Service::start(registry, &settings, Roles::default()).await;
    let mut service = started.expect("it starts");
    let api = service.mount_api(ApiSettings::default());
    let around = web::scope("/customers/{id}").service(api.scope("/work"));
    let app = test::init_service(App::new().service(around)).await;
    let request = test::TestRequest::post()
        .uri("/customers/a%20b%0a/work/api/tasks/greet")
        .insert_header(("host", "localhost"))
        .set_json(json!({"name": "Ada"}));
    let submitted = test::call_service(&app, request.to_request()).await;
    assert_eq!(submitted.status().as_u16(), 202);
    let location = submitted
        .headers()
        .get(header::LOCATION)
        .expect("one")
        .to_str()
        .expect("text");
    assert!(
        location.starts_with("/customers/a%20b%0a/work/api/tasks/"),
        "{location}"
    );
    let request = test::TestRequest::get()
        .uri(location)
        .insert_header(("host", "localhost"));
    let found = test::call_service(&app, request.to_request()).await;
    assert_eq!(found.status().as_u16(), 200);
    service.stop().await.expect("it stops in order");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_value_cannot_be_made_of_is_an_error_at_the_start() {
    use counterstep::prelude::Registry;
    use counterstep::{Roles, Service};
    let (_folder, settings, ..) = place();
    let registry = Registry::new()
        .with::<in_actix::tasks::Greet>()
        .provide_with(|| async {
            Err::<in_actix::tasks::Manners, _>(std::io::Error::other("nothing listens"))
        });
    let refused = Service::start(registry, &settings, Roles::default()).await;
    let message = refused.expect_err("no manners").to_string();
    assert!(
        message.contains("Manners") && message.contains("nothing listens"),
        "{message}"
    );
    let missing = Registry::new().with::<in_actix::tasks::Greet>();
    let refused = Service::start(missing, &settings, Roles::default()).await;
    let message = refused.expect_err("no manners").to_string();
    assert!(message.contains("step `greet`"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_and_metrics_of_the_programs_own_stand_beside_those_of_the_api() {
    use actix_web::{HttpResponse, web};
    use counterstep::{ApiSettings, Beside, Roles, Service};
    let (_folder, settings, listener, url) = place();
    let beside = Beside::default()
        .routes(|config| {
            config.route("/menu", web::get().to(|| async { "soup" }));
            let gone = || async { HttpResponse::Gone().body("sold out") };
            config.route("/menu/fish", web::get().to(gone));
            config.route("/readyz", web::get().to(|| async { "mine" }));
        })
        .metrics(|text| text.push_str("# TYPE dishes gauge\ndishes 3"));
    let api = ApiSettings {
        beside,
        ..ApiSettings::default()
    };
    let roles = Roles {
        api: Some((listener, api)),
        ..Roles::default()
    };
    let service = Service::start(in_actix::tasks::tasks(), &settings, roles)
        .await
        .expect("it starts");
    let http = Client::new();
    let get = |path: &str, host: &'static str| {
        let request = http.get(format!("{url}{path}")).header("Host", host);
        async move {
            let answer = request.send().await.expect("an answer");
            (answer.status().as_u16(), answer.text().await.expect("text"))
        }
    };
    assert_eq!(get("/menu", "localhost").await, (200, "soup".to_owned()));
    let gone = get("/menu/fish", "localhost").await;
    assert_eq!(gone, (410, "sold out".to_owned()), "as it is");
    let (status, page) = get("/menu/meat", "localhost").await;
    assert!(status == 404 && page.contains("no-such-route"), "{page}");
    assert_eq!(get("/menu", "evil.example").await.0, 403, "the same guard");
    assert_ne!(get("/readyz", "localhost").await.1, "mine");
    let (_, metrics) = get("/metrics", "localhost").await;
    let own = metrics.find("\ndishes 3\n");
    assert!(
        own.is_some() && metrics.contains("counterstep_database_up 1"),
        "{metrics}"
    );
    service.stop().await.expect("it stops in order");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_without_a_role_serves_its_metrics_where_the_settings_say_until_it_stops() {
    use counterstep::{Roles, Service};
    use in_actix::tasks::{Greet, Guest, tasks};
    let (_folder, settings, listener, url) = place();
    // The address is free from here on.
    let address = listener.local_addr().expect("its address");
    drop(listener);
    let settings = Settings {
        metrics_listen: Some(address),
        ..settings
    };
    let service = Service::start(tasks(), &settings, Roles::default())
        .await
        .expect("it starts");
    let guest = Guest {
        name: "Ada".to_owned(),
    };
    let submitted = service.client().submit::<Greet>(&guest).await;
    submitted.expect("a task");
    let http = Client::new();
    let page = http.get(format!("{url}/metrics")).send().await;
    let page = page.expect("an answer").text().await.expect("a text");
    let line = "\ncounterstep_submissions_total{task_type=\"Greet\",outcome=\"accepted\"} 1\n";
    assert!(page.contains(line), "{page}");
    service.stop().await.expect("it stops in order");
    let after = http.get(format!("{url}/metrics")).send().await;
    assert!(after.is_err(), "{after:?}");
}
