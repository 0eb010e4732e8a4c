//! The pages. Each asks the interface and shows what it answers; none decides anything.

pub(crate) mod bulk;
pub(crate) mod bulk_operation;
pub(crate) mod choices;
mod confirm;
pub(crate) mod declared;
pub(crate) mod effects;
pub(crate) mod limits;
pub(crate) mod overview;
pub(crate) mod parked;
mod parts;
pub(crate) mod queues;
pub(crate) mod schedule_form;
pub(crate) mod schedules;
mod schema_fields;
pub(crate) mod search;
pub(crate) mod submit;
pub(crate) mod task;
pub(crate) mod tasks;
#[cfg(test)]
mod tests;
mod type_durations;
pub(crate) mod types;
pub(crate) mod worker;
pub(crate) mod workers;

use crate::notice::DID;
use crate::page_request::PageRequest;
use actix_web::guard::{Any, Get, Head};
use actix_web::http::header::LOCATION;
use actix_web::{HttpRequest, HttpResponse, Route, web};

/// What can be read with GET also takes HEAD.
pub(crate) fn get() -> Route {
    web::route().guard(Any(Get()).or(Head()))
}

/// A part of the address.
pub(crate) fn part<'a>(request: &'a HttpRequest, name: &str) -> &'a str {
    request.match_info().get(name).unwrap_or_default()
}

/// Leads to a page.
pub(crate) fn done_at(visit: &PageRequest, to: &str) -> HttpResponse {
    HttpResponse::SeeOther()
        .insert_header((LOCATION, visit.at(to)))
        .finish()
}

/// Leads to a page, which says what was done.
fn done(visit: &PageRequest, to: &str, did: &str) -> HttpResponse {
    let and = if to.contains('?') { '&' } else { '?' };
    done_at(visit, &format!("{to}{and}{DID}={did}"))
}
