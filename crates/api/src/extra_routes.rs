//! What a program serves beside this interface: routes and metrics of its own. Must not change what
//! the interface itself answers.

#[cfg(feature = "ui")]
use actix_web::HttpResponse;
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::{Next, from_fn};
use actix_web::web::ServiceConfig;
use actix_web::{Error, web};
use counterstep_operations::{ALL, Running};
use std::fmt;
use std::sync::Arc;

/// Routes and metrics of a program's own; by default none.
#[derive(Clone)]
pub struct Beside {
    routes: Option<Adds<ServiceConfig>>,
    metrics: Option<Adds<String>>,
    pub(crate) operations: &'static [Running],
}

impl Default for Beside {
    fn default() -> Self {
        Self {
            routes: None,
            metrics: None,
            operations: ALL,
        }
    }
}

/// Code of the program that adds to what there is.
type Adds<T> = Arc<dyn Fn(&mut T) + Send + Sync>;

impl fmt::Debug for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Beside")
            .field("routes", &self.routes.is_some())
            .field("metrics", &self.metrics.is_some())
            .field("operations", &self.operations)
            .finish()
    }
}

impl Beside {
    /// Adds routes, at addresses that the interface has not. They are behind the same checks of `Host`
    /// and of pages of other sites; their answers stay as they are.
    #[must_use]
    pub fn routes(mut self, routes: impl Fn(&mut ServiceConfig) + Send + Sync + 'static) -> Self {
        self.routes = Some(Arc::new(routes));
        self
    }

    /// Adds metrics: what this writes, whole lines in the text format of OpenMetrics without the last
    /// one, `# EOF`, is a part of `/metrics`. Called at each scrape.
    #[must_use]
    pub fn metrics(mut self, write: impl Fn(&mut String) + Send + Sync + 'static) -> Self {
        self.metrics = Some(Arc::new(write));
        self
    }

    /// The interface answers these operations, and not those of the product alone.
    #[doc(hidden)]
    #[must_use]
    pub const fn operations(mut self, operations: &'static [Running]) -> Self {
        self.operations = operations;
        self
    }

    /// After the interface's routes: those take their addresses first.
    pub(crate) fn configure(&self, config: &mut ServiceConfig) {
        if let Some(routes) = &self.routes {
            config.service(
                web::scope("")
                    .wrap(from_fn(as_it_is))
                    .configure(|config| routes(config)),
            );
        }
    }

    pub(crate) fn write_metrics(&self, text: &mut String) {
        if let Some(write) = &self.metrics {
            write(text);
            if !text.ends_with('\n') {
                text.push('\n');
            }
        }
    }
}

/// Marks an answer that is not the interface's.
#[derive(Debug, Clone, Copy)]
struct AsItIs;

/// Marks an answer that is complete: see [`is_as_it_is`].
#[cfg(feature = "ui")]
pub(crate) fn leave_as_it_is<B>(response: &mut HttpResponse<B>) {
    response.extensions_mut().insert(AsItIs);
}

/// Leaves the answers of what it wraps as they are.
async fn as_it_is(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let routed = request.match_pattern().is_some();
    let mut answer = next.call(request).await?;
    if routed {
        answer.response_mut().extensions_mut().insert(AsItIs);
    }
    Ok(answer)
}

/// Whether the program's own code gave this answer.
pub(crate) fn is_as_it_is<B>(answer: &ServiceResponse<B>) -> bool {
    answer.response().extensions().contains::<AsItIs>()
}
