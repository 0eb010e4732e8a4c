//! The addresses of the pages. Must not show anything.

use crate::failed::Answer;
use crate::pages::{
    bulk, limits, overview, parked, queues, schedules, submit, task, tasks, types, workers,
};
use crate::visit::Visit;
use crate::{assets, live, sign_in};
use actix_web::HttpRequest;
use actix_web::web::{self, ServiceConfig, get, post, resource};
use counterstep_contracts::ProblemCode;

pub(crate) fn configure(config: &mut ServiceConfig) {
    config
        .service(resource("/assets/{name}").route(get().to(assets::get)))
        .service(
            resource("/sign-in")
                .route(get().to(sign_in::page))
                .route(post().to(sign_in::post)),
        )
        .service(resource("/sign-out").route(post().to(sign_in::out)))
        .service(resource(["", "/"]).route(get().to(overview::get)))
        .service(resource("/live/overview").route(get().to(live::overview)))
        .service(resource("/live/tasks").route(get().to(live::tasks)))
        .service(resource("/live/tasks/{id}").route(get().to(live::task)))
        .service(resource("/live/bulk/{id}").route(get().to(live::bulk)))
        .service(resource("/tasks").route(get().to(tasks::get)))
        .service(resource("/tasks/{id}").route(get().to(task::get)))
        .service(resource("/tasks/{id}/audit").route(get().to(task::audit)))
        .service(resource("/tasks/{id}/result/{place:.+}").route(get().to(task::file)))
        .service(decision(
            "/tasks/{id}/decide/{what}",
            task::decisions::page,
            task::decisions::post,
        ))
        .service(resource("/submit").route(get().to(submit::types)))
        .service(decision("/submit/{type}", submit::page, submit::post))
        .service(resource("/parked").route(get().to(parked::get)))
        .service(decision("/bulk/new", bulk::new, bulk::start))
        .service(resource("/bulk/{id}").route(get().to(bulk::get)))
        .service(decision("/bulk/{id}/stop", bulk::stopping, bulk::stop))
        .service(resource("/types").route(get().to(types::list)))
        .service(resource("/types/{type}").route(get().to(types::get)))
        .service(decision("/types/{type}/{what}", types::page, types::post))
        .service(resource("/schedules").route(get().to(schedules::get)))
        .service(decision(
            "/schedules/{name}/{what}",
            schedules::page,
            schedules::post,
        ))
        .service(resource("/queues").route(get().to(queues::get)))
        .service(decision(
            "/queues/{name}/{what}",
            queues::page,
            queues::post,
        ))
        .service(resource("/limits").route(get().to(limits::get)))
        .service(decision(
            "/limits/{name}/{what}",
            limits::page,
            limits::post,
        ))
        .service(resource("/workers").route(get().to(workers::get)))
        .default_service(web::to(nothing_here));
}

/// The address of a decision: its preview, and where it is sent.
fn decision<G, P, GA, PA>(path: &str, page: G, sent: P) -> actix_web::Resource
where
    G: actix_web::Handler<GA>,
    GA: actix_web::FromRequest + 'static,
    G::Output: actix_web::Responder + 'static,
    P: actix_web::Handler<PA>,
    PA: actix_web::FromRequest + 'static,
    P::Output: actix_web::Responder + 'static,
{
    resource(path).route(get().to(page)).route(post().to(sent))
}

async fn nothing_here(request: HttpRequest) -> Answer {
    let visit = Visit::of(&request).await?;
    Err(visit.refused(ProblemCode::NoSuchRoute, "no page is at this address"))
}
