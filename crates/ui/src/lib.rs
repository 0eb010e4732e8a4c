//! The operator's page: HTML that shows what the HTTP interface answers, and sends what a person decides.
//!
//! Owns the pages. It knows the bodies of the interface and one way to call it ([`Api`]); it must not know
//! the engine, the store, or anything else that a caller over HTTP has not.

mod assets;
mod charts;
mod cookies;
mod equivalents;
mod failed;
mod foot;
mod forms;
mod hours;
mod layout;
mod live;
mod markup;
mod notice;
mod page_request;
mod pages;
mod picture;
mod port;
mod preferences;
mod query;
mod routes;
mod shell;
mod sign_in;
mod task_history;
mod time_text;

pub use port::{Api, ApiRequest, PATH, SignIn, Ui};

use actix_web::web::{Data, ServiceConfig};

/// Adds the pages to a scope at [`PATH`].
pub fn configure(config: &mut ServiceConfig, ui: Ui) {
    routes::configure(config, &ui.operations);
    config.app_data(Data::new(ui));
}
