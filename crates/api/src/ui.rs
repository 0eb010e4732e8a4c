//! Where the operator's page is joined to this interface: it gets the way to call the routes, and nothing
//! else of it; and which browsers get a page where no route is.

use crate::app_state::Api;
use crate::auth::AuthSettings;
use crate::extra_routes::leave_as_it_is;
use crate::in_process::InProcess;
use crate::mount_path::address;
use crate::routes::Table;
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::http::header::{ACCEPT, HeaderMap, LOCATION};
use actix_web::middleware::{Next, from_fn};
use actix_web::web::{self, ServiceConfig};
use actix_web::{Error, HttpRequest, HttpResponse};
use counterstep_ui::{SignIn, Ui};
use std::rc::Rc;

/// Adds the pages below `/ui`.
pub(crate) fn configure(
    config: &mut ServiceConfig,
    api: &web::Data<Api>,
    table: &web::Data<Table>,
) {
    let ui = Ui {
        api: Rc::new(InProcess::new(api.clone(), table.clone())),
        sign_in: match api.settings.auth {
            AuthSettings::None => SignIn::None,
            AuthSettings::Keys => SignIn::Key,
            AuthSettings::Proxy(_) => SignIn::ByProxy,
            AuthSettings::Jwt(_) => SignIn::Token,
        },
        address: |request| address(request, ""),
        operations: table.declared(),
        installation: api.settings.installation.clone(),
    };
    let pages = |config: &mut ServiceConfig| counterstep_ui::configure(config, ui);
    let scope = web::scope(counterstep_ui::PATH);
    config.service(scope.wrap(from_fn(for_browsers)).configure(pages));
}

/// Whether a browser wants a page. Clients of the interface name `application/json`, or nothing.
fn wants_a_page(headers: &HeaderMap) -> bool {
    let accept = headers.get_all(ACCEPT);
    accept
        .into_iter()
        .any(|value| value.to_str().is_ok_and(|text| text.contains("text/html")))
}

/// Leaves the answers of pages as they are, and of addresses without one where a browser asks.
async fn for_browsers(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let wants_a_page = wants_a_page(request.headers());
    let mut answer = next.call(request).await?;
    if wants_a_page || answer.request().match_pattern().is_some() {
        leave_as_it_is(answer.response_mut());
    }
    Ok(answer)
}

/// Leads a browser from the root of the interface to the pages: nothing else is there.
pub(crate) fn from_the_root(request: &HttpRequest) -> Option<HttpResponse> {
    let (root, path) = (address(request, "/"), request.path());
    let is_root = path == root || format!("{path}/") == root;
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    (is_root && is_read && wants_a_page(request.headers())).then(|| {
        HttpResponse::SeeOther()
            .insert_header((LOCATION, address(request, counterstep_ui::PATH)))
            .finish()
    })
}
