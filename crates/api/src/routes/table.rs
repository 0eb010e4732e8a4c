//! The table of all routes: address, method, the role that it needs, the handler. The `Allow` headers and
//! the check of roles follow from it. Must not authenticate a caller.

use super::{
    audit, batch, cancel, children, dead_letters, events, health, keys, links, list, metrics,
    operator, plan_and_why, result, schedules, signals, submit, task, types, webhooks,
};
use actix_web::Route;
use actix_web::http::Method;
use counterstep_contracts::access::Role;

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// All: it shows nothing of a task.
    Open,
    /// Holders of a signed address, which its handler checks.
    Signed,
    /// Callers with this role, or one that includes it.
    Role(Role),
}

/// The method of a route. HEAD is answered like GET; the server leaves the body out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Post,
    Put,
    Delete,
}

impl Verb {
    const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }

    pub(crate) const fn methods(self) -> &'static [Method] {
        match self {
            Self::Get => &[Method::GET, Method::HEAD],
            Self::Post => &[Method::POST],
            Self::Put => &[Method::PUT],
            Self::Delete => &[Method::DELETE],
        }
    }
}

/// One method of one address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Endpoint {
    pub(crate) verb: Verb,
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    /// Adds the handler.
    pub(crate) to: fn(Route) -> Route,
}

macro_rules! endpoints {
    ($($verb:ident $path:literal $access:expr => $handler:path;)+) => {
        &[$(Endpoint {
            verb: Verb::$verb,
            path: $path,
            access: $access,
            to: |route| route.to($handler),
        },)+]
    };
}

const OPEN: Access = Access::Open;
const SIGNED: Access = Access::Signed;
const READ: Access = Access::Role(Role::Read);
const SUBMIT: Access = Access::Role(Role::Submit);
const OPERATE: Access = Access::Role(Role::Operate);
const ADMIN: Access = Access::Role(Role::Admin);

/// Where monitors scrape, unless another address is set for it.
pub(crate) const METRICS: &str = "/metrics";

/// All routes. Methods of one address stand together.
pub(crate) const ENDPOINTS: &[Endpoint] = endpoints! {
    // One address for a task and for a task type: which it is, the method says.
    Get "/api/tasks/{id}" READ => task::get;
    Post "/api/tasks/{id}" SUBMIT => submit::post;
    Delete "/api/tasks/{id}" SUBMIT => cancel::delete;
    Post "/api/tasks/{id}/signals/{name}" SUBMIT => signals::post;
    Post "/api/tasks/{id}/batch" SUBMIT => batch::post;
    Get "/api/tasks" READ => list::get;
    Get "/api/tasks/{id}/audit" READ => audit::get;
    Get "/api/tasks/{id}/children" READ => children::get;
    Get "/api/events" READ => events::of_many;
    Get "/api/tasks/{id}/events" READ => events::of_task;
    Get "/api/tasks/{id}/plan" READ => plan_and_why::plan;
    Get "/api/tasks/{id}/why" READ => plan_and_why::why;
    Get "/api/tasks/{id}/webhooks" READ => webhooks::get;
    Post "/api/tasks/{id}/webhooks/{webhook}/send" OPERATE => webhooks::send;
    Get "/api/webhook-secrets" OPERATE => webhooks::secrets;
    Post "/api/tasks/{id}/resolve" OPERATE => operator::resolve;
    Post "/api/tasks/{id}/retry" OPERATE => operator::retry;
    Post "/api/tasks/{id}/recoveries" OPERATE => operator::recoveries;
    Get "/api/dead-letters" READ => dead_letters::get;
    // Before the address whose names it could be taken for.
    Post "/api/tasks/{id}/result/{name:.+}/link" READ => links::post;
    Get "/api/links/{id}/{name:.+}" SIGNED => links::get;
    Get "/api/tasks/{id}/result/{name:.+}" READ => result::get;
    Get "/api/schedules" READ => schedules::list;
    Get "/api/schedules/{name}" READ => schedules::get;
    Put "/api/schedules/{name}" OPERATE => schedules::put;
    Delete "/api/schedules/{name}" OPERATE => schedules::delete;
    Post "/api/schedules/{name}/pause" OPERATE => schedules::pause;
    Post "/api/schedules/{name}/resume" OPERATE => schedules::resume;
    Post "/api/schedules/{name}/run" OPERATE => schedules::run;
    Get "/api/task-types" READ => types::get;
    Post "/api/task-types/{id}/disable" ADMIN => types::disable;
    Post "/api/task-types/{id}/enable" ADMIN => types::enable;
    Get "/api/workers" ADMIN => metrics::workers;
    Get "/api/keys" ADMIN => keys::get;
    Post "/api/keys" ADMIN => keys::post;
    Delete "/api/keys/{id}" ADMIN => keys::delete;
    Get "/healthz" OPEN => health::live;
    Get "/readyz" OPEN => health::ready;
    Get "/metrics" ADMIN => metrics::metrics;
};

/// A route, as tests and documents show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteView {
    /// Its method; GET includes HEAD.
    pub method: &'static str,
    /// Its address, with `{name}` for what varies.
    pub path: &'static str,
    /// The role that it needs; `None`: it is open to all, or to holders of a signed address.
    pub role: Option<Role>,
}

/// All routes of the interface.
pub fn all_routes() -> impl Iterator<Item = RouteView> {
    ENDPOINTS.iter().map(|endpoint| RouteView {
        method: endpoint.verb.name(),
        path: endpoint.path,
        role: match endpoint.access {
            Access::Open | Access::Signed => None,
            Access::Role(role) => Some(role),
        },
    })
}

/// What an address answers where it does not take the method: those that it takes.
pub(crate) fn allow(endpoints: &[Endpoint]) -> String {
    let methods = endpoints.iter().flat_map(|it| it.verb.methods());
    let methods: Vec<_> = methods.map(Method::as_str).collect();
    methods.join(", ")
}
