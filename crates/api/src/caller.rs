//! Who sends a request, as the process has found out: the tenant whose tasks it may reach, its name in
//! audits, its role. Must not read a credential.

use crate::problem::Refused;
use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpMessage, HttpRequest};
use counterstep_contracts::Tenant;
use counterstep_contracts::access::Role;
use std::future::{Ready, ready};
use std::net::IpAddr;

/// Who sends a request. Handlers of routes that need a role take it as an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// All that it asks for is of this tenant.
    pub tenant: Tenant,
    /// Its name in audits and in the log; `None`: callers are not authenticated here.
    pub subject: Option<String>,
    /// What it may do.
    pub role: Role,
    /// The id of its API key, where it has one.
    pub key: Option<String>,
    /// When its access token expires, where it has one: seconds since 1970.
    pub expires_at: Option<u64>,
    /// Where it asks from; `None`: it is authenticated, or this process.
    pub address: Option<IpAddr>,
}

impl Caller {
    /// Anyone who reaches an interface that authenticates no caller.
    pub(crate) fn anyone() -> Self {
        Self {
            tenant: Tenant::default(),
            subject: None,
            role: Role::Admin,
            key: None,
            expires_at: None,
            address: None,
        }
    }

    /// Whether it may see and change what is of all tenants: an administrator whose tenant is the default one.
    pub(crate) fn is_of_installation(&self) -> bool {
        self.role == Role::Admin && self.tenant == Tenant::default()
    }

    /// Its name in audits; `what`: as what it acts.
    pub(crate) fn actor(&self, what: &str) -> String {
        match &self.subject {
            Some(subject) => format!("{what}:{subject}"),
            None => what.to_owned(),
        }
    }

    /// Who sends this request.
    ///
    /// # Errors
    /// Where the address needs no role, and so none was looked for.
    pub(crate) fn of(request: &HttpRequest) -> Result<Self, Refused> {
        let found = request.extensions().get::<Self>().cloned();
        found.ok_or_else(|| {
            let path = request.match_pattern().unwrap_or_default();
            Refused::internal("finding the caller of a request", &path)
        })
    }
}

impl FromRequest for Caller {
    type Error = Refused;
    type Future = Ready<Result<Self, Refused>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Self::of(request))
    }
}
