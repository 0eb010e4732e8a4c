//! What the pages are given: the one way to call the HTTP interface, and how people say who they are. Must not
//! know a page.

use actix_web::HttpRequest;
use actix_web::HttpResponse;
use actix_web::dev::Payload;
use actix_web::http::{Method, Uri, header::HeaderMap};
use counterstep_contracts::installation::Installation;
use counterstep_contracts::operation::Declared;
use futures::future::LocalBoxFuture;
use std::net::SocketAddr;
use std::rc::Rc;

/// Where the pages are, below the path that the interface is mounted at.
pub const PATH: &str = "/ui";

/// A call of the HTTP interface, as it would come over a connection.
pub struct ApiRequest {
    /// Its method.
    pub method: Method,
    /// Path and query, from the root of the interface.
    pub target: Uri,
    /// Its headers, the caller's credential among them.
    pub headers: HeaderMap,
    /// Who holds the connection on which the page was asked for.
    pub peer: Option<SocketAddr>,
    /// Its body.
    pub body: Payload,
}

/// The HTTP interface.
pub trait Api {
    /// What it answers, refusals included. The body may be a stream without an end.
    fn call(&self, request: ApiRequest) -> LocalBoxFuture<'static, HttpResponse>;
}

/// How people say who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignIn {
    /// Not at all: the interface authenticates no caller.
    None,
    /// With an API key.
    Key,
    /// With an access token of an issuer.
    Token,
    /// By the proxy in front, which sends who they are in headers.
    ByProxy,
}

/// What the pages need.
pub struct Ui {
    /// The interface that they show.
    pub api: Rc<dyn Api>,
    /// How people say who they are.
    pub sign_in: SignIn,
    /// The path at which the interface is mounted, as the browser of this request reaches it.
    pub address: fn(&HttpRequest) -> String,
    /// The operations that the interface answers: those that change something have forms.
    pub operations: Vec<Declared>,
    /// The name and the colour that tell it from others.
    pub installation: Installation,
}
