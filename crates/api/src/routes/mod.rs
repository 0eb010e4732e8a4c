//! The addresses, and which methods each takes. One file a resource; none of them decides anything
//! about tasks.

mod address;
mod answer;
mod audit;
mod batch;
mod cancel;
mod children;
mod dead_letters;
mod events;
mod health;
mod list;
pub(crate) mod metrics;
mod operator;
mod plan_and_why;
mod result;
mod schedules;
mod signals;
mod submit;
mod task;
mod types;

use crate::problem::Refused;
use crate::settings::ApiSettings;
use actix_web::{Resource, web};
use answer::Answer;
use counterstep_contracts::ProblemCode;

/// Adds every route, and the program's own after them.
pub(crate) fn configure(config: &mut web::ServiceConfig, settings: &ApiSettings) {
    const READ: &str = "GET, HEAD";
    config
        .service(
            // One address for a task and for a task type: which it is, the method says.
            resource("/api/tasks/{id}", "GET, HEAD, POST, DELETE")
                .route(web::get().to(task::get))
                .route(web::head().to(task::get))
                .route(web::post().to(submit::post))
                .route(web::delete().to(cancel::delete)),
        )
        .service(
            resource("/api/tasks/{id}/signals/{name}", "POST").route(web::post().to(signals::post)),
        )
        .service(resource("/api/tasks/{id}/batch", "POST").route(web::post().to(batch::post)))
        .service(read("/api/tasks", READ, list::get))
        .service(read("/api/tasks/{id}/audit", READ, audit::get))
        .service(read("/api/tasks/{id}/children", READ, children::get))
        .service(read("/api/events", READ, events::of_many))
        .service(read("/api/tasks/{id}/events", READ, events::of_task))
        .service(read("/api/tasks/{id}/plan", READ, plan_and_why::plan))
        .service(read("/api/tasks/{id}/why", READ, plan_and_why::why))
        .service(
            resource("/api/tasks/{id}/resolve", "POST").route(web::post().to(operator::resolve)),
        )
        .service(resource("/api/tasks/{id}/retry", "POST").route(web::post().to(operator::retry)))
        .service(
            resource("/api/tasks/{id}/recoveries", "POST")
                .route(web::post().to(operator::recoveries)),
        )
        .service(read("/api/dead-letters", READ, dead_letters::get))
        .service(read("/api/tasks/{id}/result/{name:.+}", READ, result::get))
        .service(read("/api/schedules", READ, schedules::list))
        .service(
            resource("/api/schedules/{name}", "GET, HEAD, PUT, DELETE")
                .route(web::get().to(schedules::get))
                .route(web::head().to(schedules::get))
                .route(web::put().to(schedules::put))
                .route(web::delete().to(schedules::delete)),
        )
        .service(
            resource("/api/schedules/{name}/pause", "POST").route(web::post().to(schedules::pause)),
        )
        .service(
            resource("/api/schedules/{name}/resume", "POST")
                .route(web::post().to(schedules::resume)),
        )
        .service(
            resource("/api/schedules/{name}/run", "POST").route(web::post().to(schedules::run)),
        )
        .service(read("/api/task-types", READ, types::get))
        .service(
            resource("/api/task-types/{id}/disable", "POST").route(web::post().to(types::disable)),
        )
        .service(
            resource("/api/task-types/{id}/enable", "POST").route(web::post().to(types::enable)),
        )
        .service(read("/api/workers", READ, metrics::workers))
        .service(read("/healthz", READ, health::live))
        .service(read("/readyz", READ, health::ready));
    if settings.metrics_listener.is_none() {
        config.service(read("/metrics", READ, metrics::metrics));
    }
    settings.beside.configure(config);
    config.default_service(web::to(nothing_here));
}

/// An address that can only be read. HEAD is answered like GET; the server leaves the body out.
fn read<F, Args>(path: &str, allow: &'static str, handler: F) -> Resource
where
    F: actix_web::Handler<Args, Output = Answer> + Clone,
    Args: actix_web::FromRequest + 'static,
{
    resource(path, allow)
        .route(web::get().to(handler.clone()))
        .route(web::head().to(handler))
}

fn resource(path: &str, allow: &'static str) -> Resource {
    web::resource(path).default_service(web::to(move || async move {
        Answer::Err(Refused::method(allow))
    }))
}

async fn nothing_here() -> Answer {
    Err(Refused::new(
        ProblemCode::NoSuchRoute,
        "the addresses of this interface begin with /api/",
    ))
}
