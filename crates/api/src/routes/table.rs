//! The table of all routes: address, method, the role that it needs, the handler, what the OpenAPI document
//! has of it. The `Allow` headers and the check of roles follow from it. Must not authenticate a caller.

use super::described as about;
use super::{
    batch, docs, events, health, links, metrics, operation, result, run_again, submit, task,
};
use crate::app_state::Api;
use crate::caller::Authenticated;
use crate::openapi::{Operation, PerType, Row};
use crate::origins;
use crate::query::DeclaredQuery;
use actix_web::http::Method;
use actix_web::{HttpRequest, Route, web};
use counterstep_contracts::access::Role;
#[cfg(feature = "ui")]
use counterstep_contracts::operation::Declared;
use counterstep_contracts::operation::{Access, Verb};
use counterstep_operations::{ALL, Running};
use counterstep_steps::Registry;
use std::sync::Arc;
use uuid::Uuid;

/// The methods of HTTP that a route of this verb answers.
pub(crate) const fn methods(verb: Verb) -> &'static [Method] {
    match verb {
        Verb::Get => &[Method::GET, Method::HEAD],
        Verb::Post => &[Method::POST],
        Verb::Put => &[Method::PUT],
        Verb::Delete => &[Method::DELETE],
    }
}

/// One method of one address.
#[derive(Clone, Copy)]
pub(crate) struct Endpoint {
    pub(crate) verb: Verb,
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    pub(crate) to: To,
    /// What the document has of it.
    pub(crate) operation: Operation,
}

/// What answers.
#[derive(Clone, Copy)]
pub(crate) enum To {
    /// A handler of this crate; the function adds it.
    Handler(fn(Route) -> Route),
    /// A declared operation.
    Operation(&'static Running),
}

impl To {
    pub(crate) fn add(self, route: Route) -> Route {
        match self {
            Self::Handler(add) => add(route),
            Self::Operation(it) => {
                let query = Arc::new(DeclaredQuery::of(&it.declared));
                route.to(
                    move |api: web::Data<Api>,
                          caller: Authenticated,
                          request: HttpRequest,
                          payload: web::Payload| {
                        let query = query.clone();
                        async move { operation::answer(it, &query, api, caller, request, payload).await }
                    },
                )
            }
        }
    }
}

impl From<&'static Running> for Endpoint {
    fn from(it: &'static Running) -> Self {
        let about = it.declared.about;
        Self {
            verb: about.verb,
            path: about.path,
            access: about.access,
            to: To::Operation(it),
            operation: Operation::from(&it.declared),
        }
    }
}

macro_rules! endpoints {
    ($($verb:ident $path:literal $access:expr => $handler:path, $operation:expr;)+) => {
        vec![$(Endpoint {
            verb: Verb::$verb,
            path: $path,
            access: $access,
            to: To::Handler(|route| route.to($handler)),
            operation: $operation,
        }),+]
    };
}

const OPEN: Access = Access::Open;
const SIGNED: Access = Access::Signed;
const READ: Access = Access::Role(Role::Read);
const SUBMIT: Access = Access::Role(Role::Submit);
const OPERATE: Access = Access::Role(Role::Operate);
const INSTALLATION: Access = Access::Installation;

/// Where monitors scrape, unless another address is set for it.
pub(crate) const METRICS: &str = "/metrics";

/// The routes that are no declared operations. Methods of one address stand together.
fn by_hand() -> Vec<Endpoint> {
    endpoints! {
        // One address for a task and for a task type: which it is, the method says.
        Get "/api/tasks/{id}" READ => task::get, about::tasks::GET;
        Post "/api/tasks/{id}" SUBMIT => submit::post, about::submitting::POST;
        Post "/api/tasks/{id}/batch" SUBMIT => batch::post, about::submitting::BATCH;
        Get "/api/events" READ => events::of_many, about::events::OF_MANY;
        Get "/api/tasks/{id}/events" READ => events::of_task, about::events::OF_TASK;
        Post "/api/tasks/{id}/run-again" OPERATE => run_again::post, about::run_again();
        // Before the addresses whose names they could be taken for.
        Post "/api/tasks/{id}/result/{name}/link" READ => links::post, about::links::MAKE;
        Post "/api/tasks/{id}/result/{name}/{index}/link" READ => links::post, about::links::MAKE_OF_LIST;
        Get "/api/links/{id}/{name}" SIGNED => links::get, about::links::FOLLOW;
        Get "/api/links/{id}/{name}/{index}" SIGNED => links::get, about::links::FOLLOW_OF_LIST;
        Get "/api/tasks/{id}/result/{name}" READ => result::get, about::tasks::FILE_OF_FIELD;
        Get "/api/tasks/{id}/result/{name}/{index}" READ => result::get, about::tasks::FILE_OF_LIST;
        Get "/api/history" INSTALLATION => metrics::history, about::process::HISTORY;
        Get "/api/openapi.json" READ => docs::document, about::process::DOCUMENT;
        Get "/docs" READ => docs::page, about::process::PAGE;
        Get "/healthz" OPEN => health::live, about::process::LIVE;
        Get "/readyz" OPEN => health::ready, about::process::READY;
        Get "/metrics" INSTALLATION => metrics::metrics, about::process::METRICS;
    }
}

/// A route, as tests and documents show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteView {
    /// Its method; GET includes HEAD.
    pub method: &'static str,
    /// Its address, with `{name}` for what varies.
    pub path: &'static str,
    /// The role that it needs; `None`: it is open to all, or to holders of a signed address.
    pub role: Option<Role>,
    /// Whether that role has to be one in the tenant of the installation.
    pub is_of_installation: bool,
}

impl From<&Endpoint> for RouteView {
    fn from(endpoint: &Endpoint) -> Self {
        Self {
            method: endpoint.verb.name(),
            path: endpoint.path,
            role: endpoint.access.role(),
            is_of_installation: endpoint.access == Access::Installation,
        }
    }
}

/// All routes, by address.
pub(crate) struct Table(Vec<Arc<[Endpoint]>>);

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.routes()).finish()
    }
}

impl Table {
    /// With these operations: the routes that are written by hand in their order, then those of the operations, by address. An operation
    /// of an address that is there already is one more method of it.
    pub(crate) fn of(operations: impl IntoIterator<Item = &'static Running>) -> Self {
        let by_hand = by_hand();
        let by_hand = by_hand.chunk_by(|a, b| a.path == b.path);
        let mut addresses: Vec<Vec<Endpoint>> = by_hand.map(<[_]>::to_vec).collect();
        let mut declared: Vec<Endpoint> = operations.into_iter().map(Endpoint::from).collect();
        declared.sort_by_key(|it| it.path);
        for endpoint in declared {
            match addresses.iter_mut().find(|it| it[0].path == endpoint.path) {
                Some(address) => address.push(endpoint),
                None => addresses.push(vec![endpoint]),
            }
        }
        // `Allow` names the methods in one order, whichever of them is declared.
        for address in &mut addresses {
            address.sort_by_key(|it| it.verb as u8);
        }
        Self(addresses.into_iter().map(Arc::from).collect())
    }

    /// The methods of each address.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = &Arc<[Endpoint]>> {
        self.0.iter()
    }

    /// All routes.
    pub(crate) fn routes(&self) -> impl Iterator<Item = RouteView> {
        self.endpoints().map(RouteView::from)
    }

    /// The declared operations among them.
    #[cfg(feature = "ui")]
    pub(crate) fn declared(&self) -> Vec<Declared> {
        let of = |endpoint: &Endpoint| match endpoint.to {
            To::Operation(it) => Some(it.declared),
            To::Handler(_) => None,
        };
        self.endpoints().filter_map(of).collect()
    }

    /// The rows, as the document takes them.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let row = |endpoint: &Endpoint| Row {
            method: endpoint.verb.name(),
            path: endpoint.path,
            role: endpoint.access.role(),
            is_of_installation: endpoint.access == Access::Installation,
            any_host: origins::is_for_monitors(endpoint.path),
            operation: endpoint.operation,
        };
        self.endpoints().map(row).collect()
    }

    fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.0.iter().flat_map(|address| address.iter())
    }
}

/// All routes of the interface.
pub fn all_routes() -> impl Iterator<Item = RouteView> {
    let routes: Vec<_> = Table::of(ALL).routes().collect();
    routes.into_iter()
}

/// Those of an address that are of what it names. A task and a task type share one: that of a type takes
/// submissions, that of a task all else, and what is neither may be meant as either.
pub(crate) fn of_named<'a>(
    endpoints: &'a [Endpoint],
    registry: &Registry,
    id: &str,
) -> impl Iterator<Item = &'a Endpoint> + use<'a> {
    let is_of_types = |it: &&Endpoint| it.operation.per_type == Some(PerType::One);
    let is_shared = endpoints.iter().any(|it| is_of_types(&it)) && endpoints.len() > 1;
    let is_type = is_shared && registry.by_route(id).is_some();
    let is_task = is_shared && !is_type && id.len() == 36 && Uuid::try_parse(id).is_ok();
    let fits = move |it: &&Endpoint| match is_of_types(it) {
        true => !is_task,
        false => !is_type,
    };
    endpoints.iter().filter(fits)
}

/// What an address answers where it does not take the method: those that it takes.
pub(crate) fn allow<'a>(endpoints: impl Iterator<Item = &'a Endpoint>) -> String {
    let methods: Vec<_> = endpoints
        .flat_map(|it| methods(it.verb))
        .map(Method::as_str)
        .collect();
    methods.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::dev::ResourceDef;

    #[test]
    fn no_address_is_taken_for_one_that_stands_before_it() {
        let table = Table::of(ALL);
        let paths: Vec<_> = table.addresses().map(|it| it[0].path).collect();
        let named = |path: &str| {
            let parts = path.split('/');
            let parts = parts.map(|it| if it.starts_with('{') { "0" } else { it });
            parts.collect::<Vec<_>>().join("/")
        };
        for (at, path) in paths.iter().enumerate() {
            let takes = |before: &&&str| ResourceDef::new(**before).is_match(&named(path));
            assert_eq!(paths[..at].iter().find(takes), None, "{path}");
        }
    }

    #[test]
    fn each_address_has_each_method_once() {
        for endpoints in Table::of(ALL).addresses() {
            for (at, endpoint) in endpoints.iter().enumerate() {
                let is_twice = endpoints[..at].iter().any(|it| it.verb == endpoint.verb);
                assert!(!is_twice, "{} {}", endpoint.verb.name(), endpoint.path);
            }
        }
    }
}
