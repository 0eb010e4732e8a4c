//! The addresses, and which methods each takes. One file a resource; none of them decides anything
//! about tasks.

mod address;
mod answer;
mod batch;
mod children;
mod described;
mod docs;
mod events;
#[cfg(any(feature = "fuzz", all(test, feature = "shipped")))]
pub(crate) mod fuzzed;
mod health;
mod links;
pub(crate) mod metrics;
mod operation;
mod result;
mod run_again;
mod submit;
mod table;
mod task;
mod upload;

pub(crate) use address::segment;
pub use docs::openapi_document;
pub(crate) use table::{Endpoint, Table, allow, methods, of_named};
pub use table::{RouteView, all_routes};

use crate::app_state::Api;
use crate::authorize::authorize;
use crate::problem::HttpRefused;
use actix_web::middleware::from_fn;
use actix_web::{HttpRequest, web};
use answer::Answer;
use counterstep_contracts::ProblemCode;
use counterstep_operations::Refused;
use std::future::ready;
use std::sync::Arc;
use table::METRICS;

/// Adds every route, the pages, and the program's own routes after them.
pub(crate) fn configure(
    config: &mut web::ServiceConfig,
    api: &web::Data<Api>,
    table: &web::Data<Table>,
) {
    configure_api(config, api, table);
    #[cfg(feature = "ui")]
    crate::ui::configure(config, api, table);
    api.settings.beside.configure(config);
    config.default_service(web::to(nothing_here));
}

/// Adds the routes of the table.
pub(crate) fn configure_api(config: &mut web::ServiceConfig, api: &Api, table: &web::Data<Table>) {
    config.app_data(table.clone());
    for endpoints in table.addresses() {
        let path = endpoints[0].path;
        if path != METRICS || api.settings.metrics_listener.is_none() {
            add(config, path, endpoints);
        }
    }
}

/// Adds an address with all its methods.
fn add(config: &mut web::ServiceConfig, path: &str, endpoints: &Arc<[Endpoint]>) {
    let mut resource = web::resource(path);
    for endpoint in endpoints.iter() {
        for method in methods(endpoint.verb) {
            resource = resource.route(endpoint.to.add(web::method(method.clone())));
        }
    }
    let of_other = endpoints.clone();
    let other = move |api: web::Data<Api>, request: HttpRequest| {
        let id = segment(&request, "id");
        let fitting = of_named(&of_other, &api.engine.registry, id);
        ready(Answer::Err(HttpRefused::method(allow(fitting))))
    };
    let endpoints = endpoints.clone();
    let guard = move |api, request, next| authorize(endpoints.clone(), api, request, next);
    config.service(
        resource
            .default_service(web::to(other))
            .wrap(from_fn(guard)),
    );
}

async fn nothing_here(
    #[cfg_attr(
        not(feature = "ui"),
        expect(unused_variables, reason = "there is no page")
    )]
    request: HttpRequest,
) -> Answer {
    #[cfg(feature = "ui")]
    if let Some(to_the_page) = crate::ui::from_the_root(&request) {
        return Ok(to_the_page);
    }
    Err(Refused::new(
        ProblemCode::NoSuchRoute,
        "the addresses of this interface begin with /api/",
    )
    .into())
}
