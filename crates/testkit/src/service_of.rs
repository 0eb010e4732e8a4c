//! A service that a test writes as one closure.

use async_trait::async_trait;
use counterstep_kernel::ports::{HttpServices, ServiceAnswer, ServiceError, ServiceRequest};
use std::fmt;
use std::sync::Arc;

type Closure = dyn Fn(&ServiceRequest) -> Result<ServiceAnswer, ServiceError> + Send + Sync;

/// One service, and those that were there before.
pub(crate) struct ServiceOf {
    pub(crate) name: String,
    pub(crate) answer: Box<Closure>,
    pub(crate) others: Arc<dyn HttpServices>,
}

impl fmt::Debug for ServiceOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} and {:?}", self.name, self.others)
    }
}

#[async_trait]
impl HttpServices for ServiceOf {
    async fn call(&self, request: ServiceRequest) -> Result<ServiceAnswer, ServiceError> {
        if request.service == self.name {
            (self.answer)(&request)
        } else {
            self.others.call(request).await
        }
    }

    fn knows(&self, service: &str) -> bool {
        service == self.name || self.others.knows(service)
    }
}
