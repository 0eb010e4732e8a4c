//! The HTTP interface under a path of a server that is another program's. Must not listen.

use crate::app_state::Api;
use crate::error_pages::error_pages;
use crate::origins;
use crate::routes::{self, Table};
use crate::settings::ApiSettings;
use actix_web::dev::HttpServiceFactory;
use actix_web::middleware::from_fn;
use actix_web::web;
use counterstep_kernel::Engine;
use counterstep_steps::CancelToken;

/// The HTTP interface, to be mounted in an actix-web server. Clones are one interface.
#[derive(Debug, Clone)]
pub struct MountedApi {
    api: web::Data<Api>,
    table: web::Data<Table>,
}

impl MountedApi {
    /// Until `shutdown` is cancelled, which answers long polls. Of the settings, those count that are
    /// about requests; where and how it listens is the server's.
    ///
    /// Needs a Tokio runtime, as [`serve`](crate::serve) does: uploads run on it, so that a client
    /// that goes away does not stop the clean-up after it.
    #[must_use]
    pub fn new(engine: Engine, settings: ApiSettings, shutdown: CancelToken) -> Self {
        let settings = ApiSettings {
            path: String::new(),
            metrics_listener: None,
            ..settings
        };
        let table = web::Data::new(Table::of(settings.beside.operations));
        Self {
            api: web::Data::new(Api::new(engine, settings, shutdown)),
            table,
        }
    }

    /// All its addresses below `path`, as `/work`: `/work/api/tasks`, `/work/healthz`. For each worker
    /// of the server, `App::new().service(api.scope("/work"))`.
    pub fn scope(&self, path: &str) -> impl HttpServiceFactory + 'static {
        web::scope(path)
            .app_data(self.api.clone())
            .configure(|config| routes::configure(config, &self.api, &self.table))
            .wrap(from_fn(origins::guard))
            .wrap(from_fn(error_pages))
    }

    /// Waits for uploads that outlived their request, up to the drain time of the settings. For the
    /// end, after the server has stopped.
    pub async fn drained(&self) {
        self.api.drained().await;
    }
}
