//! A service that a test writes as one closure.

use async_trait::async_trait;
use counterstep_kernel::ports::{HttpServices, ServiceAnswer, ServiceError, ServiceRequest};
use std::fmt;
use std::sync::Arc;

type Closure = dyn Fn(&ServiceRequest) -> Result<ServiceAnswer, ServiceError> + Send + Sync;

/// A closure that stands for the service of a name.
pub(crate) struct OwnService {
    pub(crate) name: String,
    pub(crate) answer: Box<Closure>,
}

impl fmt::Debug for OwnService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// One service, and all others.
#[derive(Debug)]
pub(crate) struct ServiceOf {
    pub(crate) own: OwnService,
    pub(crate) others: Arc<dyn HttpServices>,
}

#[async_trait]
impl HttpServices for ServiceOf {
    async fn call(&self, request: ServiceRequest) -> Result<ServiceAnswer, ServiceError> {
        if request.service == self.own.name {
            (self.own.answer)(&request)
        } else {
            self.others.call(request).await
        }
    }

    fn knows(&self, service: &str) -> bool {
        service == self.own.name || self.others.knows(service)
    }
}
