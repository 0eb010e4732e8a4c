//! Where the operator's page is joined to this interface: it gets the way to call the routes, and nothing
//! else of it.

use crate::app_state::Api;
use crate::auth::AuthSettings;
use crate::beside::as_it_is;
use crate::in_process::InProcess;
use crate::mount_path::address;
use actix_web::middleware::from_fn;
use actix_web::web::{self, ServiceConfig};
use counterstep_ui::{SignIn, Ui};
use std::rc::Rc;

/// Adds the pages below `/ui`.
pub(crate) fn configure(config: &mut ServiceConfig, api: &web::Data<Api>) {
    let ui = Ui {
        api: Rc::new(InProcess::new(api.clone())),
        sign_in: match api.settings.auth {
            AuthSettings::None => SignIn::None,
            AuthSettings::Keys => SignIn::Key,
            AuthSettings::Proxy(_) => SignIn::ByProxy,
            AuthSettings::Jwt(_) => SignIn::Token,
        },
        address: |request| address(request, ""),
    };
    let pages = |config: &mut ServiceConfig| counterstep_ui::configure(config, ui);
    let scope = web::scope(counterstep_ui::PATH);
    config.service(scope.wrap(from_fn(as_it_is)).configure(pages));
}
