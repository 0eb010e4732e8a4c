//! An engine in an actix-web server: the server's own routes submit tasks, and the engine's HTTP
//! interface answers below `/work`.

#[path = "embedded_main.rs"]
#[expect(dead_code, reason = "it has a main function of its own")]
pub mod tasks;

use actix_web::{App, HttpResponse, HttpServer, Responder, web};
use counterstep::client::Client;
use counterstep::{ApiSettings, Service, Settings};
use std::net::TcpListener;
use tasks::{Greet, Guest};

async fn greet(client: web::Data<Client>, name: web::Path<String>) -> impl Responder {
    let guest = Guest {
        name: name.into_inner(),
    };
    let answered = match client.submit::<Greet>(&guest).await {
        Ok(task) => task.response().await,
        Err(refused) => Err(refused),
    };
    match answered {
        Ok(greeting) => HttpResponse::Ok().body(greeting),
        Err(error) => HttpResponse::InternalServerError().body(error.to_string()),
    }
}

/// Serves on `listener` until `until` is over.
///
/// # Errors
/// When the engine or the server cannot start.
pub async fn serve(
    listener: TcpListener,
    settings: &Settings,
    until: impl Future<Output = ()>,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut service = Service::start(tasks::tasks(), settings, tasks::roles()).await?;
    let api = service.mount_api(ApiSettings::default());
    let client = web::Data::new(service.client());
    let server = HttpServer::new(move || {
        App::new()
            .app_data(client.clone())
            .route("/greet/{name}", web::get().to(greet))
            .service(api.scope("/work"))
    })
    .disable_signals()
    .listen(listener)?
    .run();
    let handle = server.handle();
    let served = tokio::spawn(server);
    until.await;
    // First the requests, then the tasks that they may have submitted.
    handle.stop(true).await;
    served.await??;
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
