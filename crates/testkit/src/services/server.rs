//! The services' HTTP: routes, the token, and how a planted trouble looks to the caller.

use super::TOKEN;
use super::ledger::{Answer, Ledger, Trouble};
use actix_web::dev::{Extensions, ServerHandle};
use actix_web::http::StatusCode;
use actix_web::http::header::LOCATION;
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::any::Any;
use std::future::Future;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;

type Shared = web::Data<Mutex<Ledger>>;

/// A server that stops with this.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) address: SocketAddr,
    handle: ServerHandle,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Sent at once; the end need not be waited for.
        drop(self.handle.stop(false));
    }
}

pub(super) fn start(ledger: Arc<Mutex<Ledger>>) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let ledger = Shared::from(ledger);
    let server = HttpServer::new(move || {
        App::new()
            .app_data(ledger.clone())
            .route("/inventory/reservations", web::post().to(reserve))
            .route("/inventory/reservations/{key}", web::delete().to(release))
            .route("/bank/charges", web::post().to(charge))
            .route("/bank/charges/{key}", web::get().to(look_up))
            .route("/bank/refunds", web::post().to(refund))
            .route("/shipping/shipments", web::post().to(ship))
            .route("/shipping/shipments/{key}", web::delete().to(recall))
            .route("/echo/{status}", web::route().to(echo))
    })
    .workers(1)
    .on_connect(keep_socket)
    .disable_signals()
    .listen(listener)
    .expect("the listener is usable")
    .run();
    let handle = server.handle();
    tokio::spawn(server);
    Running { address, handle }
}

/// A second handle on the connection, to cut it by.
fn keep_socket(connection: &dyn Any, data: &mut Extensions) {
    let stream = connection.downcast_ref::<actix_web::rt::net::TcpStream>();
    if let Some(Ok(socket)) = stream.map(|stream| stream.as_fd().try_clone_to_owned()) {
        data.insert(Arc::new(TcpStream::from(socket)));
    }
}

async fn reserve(request: HttpRequest, ledger: Shared, body: web::Json<Value>) -> HttpResponse {
    make(request, ledger, "inventory", body.into_inner()).await
}

async fn charge(request: HttpRequest, ledger: Shared, body: web::Json<Value>) -> HttpResponse {
    make(request, ledger, "bank", body.into_inner()).await
}

async fn look_up(request: HttpRequest, ledger: Shared, key: web::Path<String>) -> HttpResponse {
    let (key, named) = (key.into_inner(), "GET /bank/charges");
    let of = key.clone();
    answered(&request, &ledger.clone(), named, &of, async move {
        let found = lock(&ledger).find("bank", &key);
        found.unwrap_or_else(|| (404, json!({"error": "no such charge"})))
    })
    .await
}

async fn ship(request: HttpRequest, ledger: Shared, body: web::Json<Value>) -> HttpResponse {
    make(request, ledger, "shipping", body.into_inner()).await
}

async fn make(
    request: HttpRequest,
    ledger: Shared,
    service: &'static str,
    body: Value,
) -> HttpResponse {
    let named = format!("POST {}", request.path());
    let key = header(&request, "idempotency-key");
    let of = key.clone().unwrap_or_default();
    answered(&request, &ledger.clone(), &named, &of, async move {
        match key {
            Some(key) => lock(&ledger).make(service, &key, body),
            None => (400, json!({"error": "an Idempotency-Key is missing"})),
        }
    })
    .await
}

async fn release(request: HttpRequest, ledger: Shared, key: web::Path<String>) -> HttpResponse {
    take_back(
        request,
        ledger,
        "DELETE /inventory/reservations",
        "inventory",
        key.into_inner(),
    )
    .await
}

async fn recall(request: HttpRequest, ledger: Shared, key: web::Path<String>) -> HttpResponse {
    take_back(
        request,
        ledger,
        "DELETE /shipping/shipments",
        "shipping",
        key.into_inner(),
    )
    .await
}

async fn refund(request: HttpRequest, ledger: Shared, body: web::Json<Value>) -> HttpResponse {
    let key = body["charge"].as_str().unwrap_or_default().to_owned();
    take_back(request, ledger, "POST /bank/refunds", "bank", key).await
}

async fn take_back(
    request: HttpRequest,
    ledger: Shared,
    named: &str,
    service: &'static str,
    key: String,
) -> HttpResponse {
    let of = key.clone();
    answered(&request, &ledger.clone(), named, &of, async move {
        lock(&ledger).take_back(service, &key)
    })
    .await
}

/// Says what it was sent.
async fn echo(request: HttpRequest, status: web::Path<u16>, body: web::Bytes) -> HttpResponse {
    let query = web::Query::<std::collections::BTreeMap<String, String>>::from_query(
        request.query_string(),
    );
    let mut query = query.map(web::Query::into_inner).unwrap_or_default();
    let headers: Value = request
        .headers()
        .iter()
        .map(|(name, value)| {
            (
                name.to_string(),
                Value::from(String::from_utf8_lossy(value.as_bytes())),
            )
        })
        .collect::<serde_json::Map<_, _>>()
        .into();
    let mut response = HttpResponse::build(StatusCode::from_u16(*status).expect("a status"));
    if (300..400).contains(&*status) {
        response.insert_header((LOCATION, "/echo/200"));
    }
    if let Some(after) = query.remove("retry_after") {
        response.insert_header(("Retry-After", after));
    }
    response.json(json!({
        "method": request.method().as_str(),
        "uri": request.uri().to_string(),
        "headers": headers,
        "body": String::from_utf8_lossy(&body),
    }))
}

/// Does the work and answers, unless something goes wrong.
async fn answered(
    request: &HttpRequest,
    ledger: &Shared,
    named: &str,
    key: &str,
    work: impl Future<Output = Answer> + 'static,
) -> HttpResponse {
    if header(request, "authorization").as_deref() != Some(&format!("Bearer {TOKEN}")) {
        return HttpResponse::Unauthorized().json(json!({"error": "no token of ours"}));
    }
    let trouble = lock(ledger).strike(named, key);
    lock(ledger).traces.extend(header(request, "traceparent"));
    match trouble {
        None => reply(work.await),
        Some(Trouble::Refuses(status, after)) => {
            let mut response = HttpResponse::build(StatusCode::from_u16(status).expect("a status"));
            if let Some(after) = after {
                response.insert_header(("Retry-After", after));
            }
            response.json(json!({"error": "as planted"}))
        }
        Some(Trouble::CutBefore) => cut(request),
        Some(Trouble::CutAfter) => {
            work.await;
            cut(request)
        }
        Some(Trouble::Silent) => {
            work.await;
            std::future::pending().await
        }
        Some(Trouble::Late(delay)) => {
            // On its own: a caller that has hung up takes this function with it, not the work.
            lock(ledger).late += 1;
            let ledger = ledger.clone();
            let late = actix_web::rt::spawn(async move {
                tokio::time::sleep(delay).await;
                let answer = work.await;
                lock(&ledger).late -= 1;
                answer
            });
            reply(late.await.expect("the work is done"))
        }
        Some(Trouble::Garbled) => {
            work.await;
            HttpResponse::Ok().body("<html>not what you think</html>")
        }
    }
}

fn reply((status, body): Answer) -> HttpResponse {
    HttpResponse::build(StatusCode::from_u16(status).expect("a status")).json(body)
}

fn cut(request: &HttpRequest) -> HttpResponse {
    let socket = request
        .conn_data::<Arc<TcpStream>>()
        .expect("the connection");
    let _ = socket.shutdown(Shutdown::Both);
    HttpResponse::InternalServerError().finish()
}

fn header(request: &HttpRequest, name: &str) -> Option<String> {
    request
        .headers()
        .get(name)
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned)
}

fn lock(ledger: &Shared) -> parking_lot::MutexGuard<'_, Ledger> {
    ledger.lock()
}
