//! An engine in an axum server. The engine's HTTP interface is an actix-web one: it listens on the
//! loopback address alone, and the axum server passes on what is below `/work`.

#[path = "embedded_main.rs"]
#[expect(dead_code, reason = "it has a main function of its own")]
pub mod tasks;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Router, routing};
use axum_reverse_proxy::{HostBehaviour, ProxyPolicy, ReverseProxy};
use counterstep::client::Client;
use counterstep::{ApiSettings, Roles, Service, Settings};
use std::net::TcpListener;
use tasks::{Greet, Guest};

async fn greet(
    State(client): State<Client>,
    Path(name): Path<String>,
) -> Result<String, (StatusCode, String)> {
    let answered = match client.submit::<Greet>(&Guest { name }).await {
        Ok(task) => task.response().await,
        Err(refused) => Err(refused),
    };
    answered.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

/// Serves on `listener` until `until` is over.
///
/// # Errors
/// When the engine or the server cannot start.
pub async fn serve(
    listener: TcpListener,
    settings: &Settings,
    until: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Box<dyn std::error::Error>> {
    let behind = TcpListener::bind("127.0.0.1:0")?;
    let address = behind.local_addr()?;
    let api = ApiSettings {
        path: "/work".to_owned(),
        ..ApiSettings::default()
    };
    let roles = Roles {
        api: Some((behind, api)),
        ..tasks::roles()
    };
    let service = Service::start(tasks::tasks(), settings, roles).await?;
    // The engine judges by the `Host` of the client's request whether a page may have sent it.
    let policy = ProxyPolicy::new().with_host_behaviour(HostBehaviour::Preserve);
    let proxy = ReverseProxy::new("/work", format!("http://{address}/work")).with_policy(policy);
    let work: Router<Client> = proxy.into();
    let app = Router::new()
        .route("/greet/{name}", routing::get(greet))
        .merge(work)
        .with_state(service.client());
    listener.set_nonblocking(true)?;
    axum::serve(tokio::net::TcpListener::from_std(listener)?, app)
        .with_graceful_shutdown(until)
        .await?;
    service.stop().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let settings = Settings::in_folder(folder.path());
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    println!("http://{address}/greet/Ada and http://{address}/work/api/tasks");
    let interrupted = async { drop(tokio::signal::ctrl_c().await) };
    serve(listener, &settings, interrupted).await
}
