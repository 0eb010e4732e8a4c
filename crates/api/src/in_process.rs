//! Calls of this interface from within its own process: a request that begins here goes the way of one
//! that came over a connection, through the same checks to the same handlers. Must not know who calls.

use crate::app_state::Api;
use crate::error_pages::error_pages;
use crate::origins;
use crate::problem::HttpRefused;
use crate::routes::{self, Table};
use actix_http::Request;
use actix_service::{IntoServiceFactory, Service, ServiceFactory};
use actix_web::body::BoxBody;
use actix_web::dev::{AppConfig, ServiceResponse};
use actix_web::middleware::from_fn;
use actix_web::{App, Error, HttpResponse, ResponseError, web};
use counterstep_operations::Refused;
use counterstep_ui::ApiRequest;
use futures::future::LocalBoxFuture;
use std::rc::Rc;
use tokio::sync::OnceCell;

/// The routes as a service, with its types left out.
type Routes = Rc<dyn Fn(Request) -> LocalBoxFuture<'static, Result<Answered, Error>>>;
type Answered = ServiceResponse<BoxBody>;

/// The interface without its connections; one for each thread of a server.
pub(crate) struct InProcess {
    api: web::Data<Api>,
    table: web::Data<Table>,
    /// Made of the first request, since that takes a future.
    routes: Rc<OnceCell<Routes>>,
}

impl InProcess {
    pub(crate) fn new(api: web::Data<Api>, table: web::Data<Table>) -> Self {
        Self {
            api,
            table,
            routes: Rc::default(),
        }
    }
}

impl counterstep_ui::Api for InProcess {
    fn call(&self, request: ApiRequest) -> LocalBoxFuture<'static, HttpResponse> {
        let (api, table) = (self.api.clone(), self.table.clone());
        let routes = self.routes.clone();
        Box::pin(async move {
            let routes = routes.get_or_try_init(|| self::routes(api, table)).await;
            let answered = match routes {
                Ok(routes) => routes(as_received(request)).await,
                Err(()) => {
                    let refused = Refused::internal("calling a route", &"no routes could be made");
                    return HttpRefused::from(refused).error_response();
                }
            };
            answered.map_or_else(
                |error| error.as_response_error().error_response(),
                |answered| answered.into_parts().1,
            )
        })
    }
}

/// As of a connection of the same peer. Addresses in answers begin at the root: what is in front of it is
/// the caller's.
fn as_received(request: ApiRequest) -> Request {
    let mut received = Request::with_payload(request.body);
    let head = received.head_mut();
    head.method = request.method;
    head.uri = request.target;
    head.headers = request.headers;
    head.peer_addr = request.peer;
    received
}

async fn routes(api: web::Data<Api>, table: web::Data<Table>) -> Result<Routes, ()> {
    let state = api.clone();
    let app = App::new()
        .app_data(state)
        .configure(|config| routes::configure_api(config, &api, &table))
        .wrap(from_fn(origins::guard))
        .wrap(from_fn(error_pages));
    let service = app.into_factory().new_service(AppConfig::default()).await?;
    Ok(Rc::new(move |request| Box::pin(service.call(request))))
}
