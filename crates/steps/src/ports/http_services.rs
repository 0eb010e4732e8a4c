//! The port for services that the settings name: one request, one answer. Knows no URL and no
//! secret; both are the settings' and stay in the adapter, so that nothing that a client sends can
//! choose where a request goes.

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::time::Duration;

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Method {
    /// Read; no effect.
    Get,
    /// Do.
    Post,
    /// Put in place.
    Put,
    /// Take away.
    Delete,
}

impl Method {
    /// As it stands in the request line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// One request to a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceRequest {
    /// The service, by its name in the settings.
    pub service: String,
    /// HTTP method.
    pub method: Method,
    /// Path and query below the service's URL, escaped already; starts with a slash, and has no `.`
    /// or `..` in it.
    pub path: String,
    /// Headers beside those that the settings give: names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// JSON, where there is a body.
    pub body: Option<Bytes>,
    /// The longest answer that is read, in bytes.
    pub longest_answer: usize,
}

/// What a service said. Secrets of the settings that it repeats are taken out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceAnswer {
    /// Its status, 100 to 599. A redirect is an answer as well: it is never followed.
    pub status: u16,
    /// How long it asks to be left alone, whatever way it says so.
    pub retry_after: Option<Duration>,
    /// Its body, up to the limit.
    pub body: Bytes,
    /// Whether the body was longer than the limit.
    pub cut: bool,
}

impl ServiceAnswer {
    /// With a body in JSON.
    #[must_use]
    pub fn json(status: u16, body: &serde_json::Value) -> Self {
        Self {
            status,
            retry_after: None,
            body: body.to_string().into(),
            cut: false,
        }
    }
}

/// A service gave no answer.
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
pub enum ServiceError {
    /// The settings name no such service.
    #[error("the settings know no service `{0}`: add [services.{0}] with its `url`")]
    Unknown(String),
    /// The request cannot be sent, and could not the next time.
    #[error("{0}")]
    Refused(String),
    /// It was not reached: no byte of the request was sent.
    #[error("{0}")]
    NotSent(String),
    /// The connection was lost, or the answer: the request may have taken effect or not.
    #[error("{0}")]
    Unanswered(String),
}

impl ServiceError {
    /// Whether the request may have reached the service.
    #[must_use]
    pub const fn may_be_sent(&self) -> bool {
        match self {
            Self::Unanswered(_) => true,
            Self::Unknown(_) | Self::Refused(_) | Self::NotSent(_) => false,
        }
    }
}

/// Services outside of this program.
#[async_trait]
pub trait HttpServices: Send + Sync + Debug {
    /// Sends a request once and reads the answer. Has no time limit beyond that of reaching the
    /// service: the caller drops the call when its own time is up.
    async fn call(&self, request: ServiceRequest) -> Result<ServiceAnswer, ServiceError>;

    /// Whether the settings name this service.
    fn knows(&self, service: &str) -> bool;
}

/// No service at all.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoServices;

#[async_trait]
impl HttpServices for NoServices {
    async fn call(&self, request: ServiceRequest) -> Result<ServiceAnswer, ServiceError> {
        Err(ServiceError::Unknown(request.service))
    }

    fn knows(&self, _: &str) -> bool {
        false
    }
}
