//! Who sends a request, as the process has found out: the tenant whose tasks it may reach, its name in
//! audits, its role. Must not read a credential.

use counterstep_contracts::Tenant;
use counterstep_contracts::access::Role;
use std::net::IpAddr;

/// Who sends a request.
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
    #[must_use]
    pub fn anyone() -> Self {
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
    #[must_use]
    pub fn is_of_installation(&self) -> bool {
        self.role == Role::Admin && self.tenant == Tenant::default()
    }

    /// Its name in audits; `what`: as what it acts.
    #[must_use]
    pub fn actor(&self, what: &str) -> String {
        match &self.subject {
            Some(subject) => format!("{what}:{subject}"),
            None => what.to_owned(),
        }
    }
}
