//! The addresses of the pages. Must not show anything.

use crate::failed::Answer;
use crate::page_request::PageRequest;
use crate::pages::declared::Others;
use crate::pages::limits::Limits;
use crate::pages::overview::Breakers;
use crate::pages::queues::Queues;
use crate::pages::schedules::Schedules;
use crate::pages::search::Views;
use crate::pages::types::Types;
use crate::pages::workers::Machines;
use crate::pages::{
    bulk, bulk_operation, choices, declared, effects, get, limits, overview, parked, queues,
    schedule_form, schedules, search, submit, task, tasks, types, worker, workers,
};
use crate::{assets, live, sign_in};
use actix_web::web::{self, ServiceConfig, post, resource};
use actix_web::{HttpRequest, Resource};
use counterstep_contracts::ProblemCode;
use counterstep_contracts::operation::Declared;

pub(crate) fn configure(config: &mut ServiceConfig, operations: &[Declared]) {
    // Before the others: `new` is no id of an operation.
    for (_, decision) in decisions(operations) {
        config.service(decision);
    }
    config
        .service(resource("/assets/{name}").route(get().to(assets::get)))
        .service(
            resource("/sign-in")
                .route(get().to(sign_in::page))
                .route(post().to(sign_in::post)),
        )
        .service(resource("/sign-out").route(post().to(sign_in::out)))
        .service(resource("/preferences").route(post().to(choices::post)))
        .service(resource(["", "/"]).route(get().to(overview::get)))
        .service(resource("/live/overview").route(get().to(live::overview)))
        .service(resource("/live/tasks").route(get().to(live::tasks)))
        .service(resource("/live/tasks/{id}").route(get().to(live::task)))
        .service(resource("/live/bulk/{id}").route(get().to(live::bulk)))
        .service(resource("/live/parked").route(get().to(live::parked)))
        .service(resource("/live/types").route(get().to(live::types)))
        .service(resource("/live/schedules").route(get().to(live::schedules)))
        .service(resource("/live/queues").route(get().to(live::queues)))
        .service(resource("/live/workers").route(get().to(live::workers)))
        .service(resource("/views/new").route(get().to(search::new_view)))
        .service(resource("/tasks").route(get().to(tasks::get)))
        .service(resource("/tasks/{id}").route(get().to(task::get)))
        .service(resource("/tasks/{id}/audit").route(get().to(task::audit)))
        .service(resource("/tasks/{id}/at").route(get().to(task::at_entry::get)))
        .service(resource("/tasks/{id}/raw/request").route(get().to(task::raw::request)))
        .service(resource("/tasks/{id}/raw/response").route(get().to(task::raw::response)))
        .service(resource("/tasks/{id}/raw/steps/{no}/output").route(get().to(task::raw::output)))
        .service(resource("/compare").route(get().to(task::compare::get)))
        .service(resource("/tasks/{id}/result/{place:.+}").route(get().to(task::file)))
        .service(resource("/submit").route(get().to(submit::types)))
        .service(resource("/parked").route(get().to(parked::get)))
        .service(resource("/effects").route(get().to(effects::get)))
        .service(resource("/bulk/{id}").route(get().to(bulk_operation::get)))
        .service(resource("/bulk/{id}/tasks").route(get().to(bulk_operation::tasks)))
        .service(resource("/types").route(get().to(types::list)))
        .service(resource("/types/{name}").route(get().to(types::get)))
        .service(resource("/schedules").route(get().to(schedules::get)))
        .service(resource("/queues").route(get().to(queues::get)))
        .service(resource("/limits").route(get().to(limits::get)))
        .service(resource("/workers").route(get().to(workers::get)))
        .service(resource("/workers/{id}").route(get().to(worker::get)))
        .default_service(web::to(nothing_here));
}

/// The decisions, each with its address: those of pages, and those that follow from operations. A test presses the button of each.
fn decisions(operations: &[Declared]) -> Vec<(String, Resource)> {
    let mut all = vec![
        decision(
            "/tasks/{id}/decide/{what}",
            task::decisions::page,
            task::decisions::post,
        ),
        decision("/submit/{type}", submit::page, submit::post),
        decision("/schedules/new", schedule_form::new, schedule_form::make),
        decision(
            "/schedules/{name}/edit",
            schedule_form::edit,
            schedule_form::change,
        ),
        decision("/bulk/new", bulk::new, bulk::start),
        decision(
            "/bulk/{id}/{what:pause|resume|stop}",
            bulk_operation::changing,
            bulk_operation::change,
        ),
    ];
    let of = |it: &Declared| {
        let (it, command) = (*it, declared::command(it)?);
        Some(match command.words[0] {
            "types" => declared::decision::<Types>(it, command),
            "schedules" => declared::decision::<Schedules>(it, command),
            "views" => declared::decision::<Views>(it, command),
            "queues" => declared::decision::<Queues>(it, command),
            "limits" => declared::decision::<Limits>(it, command),
            "breakers" => declared::decision::<Breakers>(it, command),
            "workers" => declared::decision::<Machines>(it, command),
            _ => declared::decision::<Others>(it, command),
        })
    };
    all.extend(operations.iter().filter_map(of));
    all
}

/// The names of all decisions, as addresses.
#[cfg(test)]
pub(crate) fn all_decisions() -> impl Iterator<Item = String> {
    let all = decisions(counterstep_contracts::operation::ALL).into_iter();
    all.flat_map(|(address, _)| match address.as_str() {
        "/bulk/new" => {
            let actions = bulk::ACTIONS.iter().map(|(action, ..)| action);
            actions
                .map(|action| format!("{address}?action={action}"))
                .collect()
        }
        _ => vec![address],
    })
}

/// The address of a decision: its preview, and where it is sent.
fn decision<G, P, GA, PA>(path: &str, page: G, sent: P) -> (String, Resource)
where
    G: actix_web::Handler<GA>,
    GA: actix_web::FromRequest + 'static,
    G::Output: actix_web::Responder + 'static,
    P: actix_web::Handler<PA>,
    PA: actix_web::FromRequest + 'static,
    P::Output: actix_web::Responder + 'static,
{
    let both = resource(path).route(get().to(page)).route(post().to(sent));
    (path.to_owned(), both)
}

async fn nothing_here(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    Err(visit.refused(ProblemCode::NoSuchRoute, "no page is at this address"))
}
