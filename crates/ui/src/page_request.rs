//! One request of a browser: who it is from, and how it calls the interface. Must not keep anything beyond
//! the request.

use crate::cookies;
use crate::failed::{Cause, Failed};
use crate::notice::DID;
use crate::port::{ApiRequest, PATH, SignIn, Ui};
use crate::preferences::Preferences;
use crate::query::Address;
use crate::shell::{Shell, TOKEN};
use actix_web::body::to_bytes;
use actix_web::dev::Payload;
use actix_web::http::header::{
    AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
};
use actix_web::http::{Method, StatusCode, Uri};
use actix_web::{HttpRequest, HttpResponse, web};
use bytes::Bytes;
use counterstep_contracts::access::{CallerView, Role};
use counterstep_contracts::{Problem, ProblemCode};
use futures::stream;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What of a browser's request goes along with each call: by which name the server was addressed, and what
/// a proxy in front says of the caller.
const PASSED_ON: [&str; 5] = [
    "counterstep-subject",
    "counterstep-tenant",
    "counterstep-role",
    "x-request-id",
    "traceparent",
];

/// A request of a browser.
#[derive(Clone)]
pub(crate) struct PageRequest {
    pub(crate) shell: Shell,
    pub(crate) request: HttpRequest,
    ui: web::Data<Ui>,
    credential: Option<String>,
    of_forms: String,
}

impl PageRequest {
    /// Of a browser that need not be signed in.
    pub(crate) fn open(request: &HttpRequest) -> Self {
        let ui = request.app_data::<web::Data<Ui>>().cloned();
        let ui = ui.unwrap_or_else(|| unreachable!("the pages are added with what they need"));
        let mount = (ui.address)(request);
        let base = format!("{mount}{PATH}");
        let credential = match ui.sign_in {
            SignIn::Key | SignIn::Token => cookies::credential(request),
            SignIn::None | SignIn::ByProxy => None,
        };
        let (of_forms, new_cookie) = cookies::of_forms(request, &base);
        let back = here(request, &base);
        Self {
            shell: Shell {
                token: cookies::form_token(&of_forms, credential.as_deref()),
                mount,
                base,
                sign_in: ui.sign_in,
                caller: None,
                query: request.query_string().to_owned(),
                here: back,
                preferences: Preferences::of(request),
                installation: ui.installation.clone(),
                new_cookie,
            },
            request: request.clone(),
            ui,
            credential,
            of_forms,
        }
    }

    /// Of a browser whose caller the interface knows.
    pub(crate) async fn of(request: &HttpRequest) -> Result<Self, Failed> {
        let mut visit = Self::open(request);
        let caller = visit.get::<CallerView>("/api/caller").await?;
        visit.shell.caller = Some(caller);
        Ok(visit)
    }

    /// The same with this credential instead.
    pub(crate) fn with_credential(mut self, credential: &str) -> Self {
        self.credential = Some(credential.to_owned());
        self
    }

    /// Whether the caller may do what needs this role.
    pub(crate) fn may(&self, role: Role) -> bool {
        self.shell.may(role)
    }

    /// Refuses what needs a larger role before it is tried, in the words of the interface.
    pub(crate) fn needs(&self, role: Role) -> Result<(), Failed> {
        if self.may(role) {
            return Ok(());
        }
        let has = self.shell.caller.as_ref().map(|it| it.role.to_string());
        let has = has.unwrap_or_default();
        let within = match role {
            Role::Admin => " in the tenant `default`",
            _ => "",
        };
        let detail = format!("this needs the role {role}{within}, and the caller has {has}");
        Err(self.refused(ProblemCode::Forbidden, &detail))
    }

    /// An address of the pages.
    pub(crate) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.shell.base)
    }

    pub(crate) fn refused(&self, code: ProblemCode, detail: &str) -> Failed {
        Failed::new(&self.shell, code, detail)
    }

    /// Whether a form was sent by a page of this browser.
    pub(crate) fn check_token(&self, token: &str) -> Result<(), Failed> {
        if cookies::is_form_token(token, &self.of_forms, self.credential.as_deref()) {
            return Ok(());
        }
        let detail =
            "the form is not of this browser's session: open its page again and send it from there";
        Err(self.refused(ProblemCode::CrossSite, detail))
    }

    /// What GET of this address answers.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failed> {
        self.json(Method::GET, path, None).await
    }

    /// The same where the answer may be that there is none, or that the caller may not see it.
    pub(crate) async fn find<T: DeserializeOwned>(&self, path: &str) -> Option<T> {
        let found = self.get(path).await;
        found
            .inspect_err(|error| tracing::debug!(%error, path, "a part of a page is left out"))
            .ok()
    }

    /// What a call with this JSON answers.
    pub(crate) async fn json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, Failed> {
        let body = body.map(Value::to_string);
        self.json_with(method, path, self.headers(), body).await
    }

    /// The same with headers of its own.
    pub(crate) async fn json_with<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        mut headers: HeaderMap,
        body: Option<String>,
    ) -> Result<T, Failed> {
        let body = match body {
            None => Payload::None,
            Some(text) => {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                whole(text)
            }
        };
        let answer = self.call(method, path, headers, body).await?;
        self.json_of(path, answer).await
    }

    /// What an answer holds.
    pub(crate) async fn json_of<T: DeserializeOwned>(
        &self,
        path: &str,
        answer: HttpResponse,
    ) -> Result<T, Failed> {
        let (status, bytes) = self.read(answer).await?;
        let text = if bytes.is_empty() {
            &b"null"[..]
        } else {
            &bytes
        };
        serde_json::from_slice(text).map_err(|error| {
            tracing::error!(%error, path, %status, "an answer of the interface is not of its form");
            self.refused(
                ProblemCode::Internal,
                "the answer cannot be read: the log has the details",
            )
        })
    }

    /// The headers that each call has.
    pub(crate) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let given = self.request.headers();
        for name in PASSED_ON {
            // All of them: two of one are refused there.
            for value in given.get_all(name) {
                headers.append(HeaderName::from_static(name), value.clone());
            }
        }
        if let Some(host) = given.get(HOST) {
            headers.insert(HOST, host.clone());
        }
        let bearer = self.credential.as_ref();
        let bearer = bearer.and_then(|it| HeaderValue::try_from(format!("Bearer {it}")).ok());
        if let Some(bearer) = bearer {
            headers.insert(AUTHORIZATION, bearer);
        }
        headers
    }

    /// A call whose answer is no refusal.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Payload,
    ) -> Result<HttpResponse, Failed> {
        let target = path.parse::<Uri>().map_err(|error| {
            tracing::warn!(%error, "an address of the interface could not be made");
            self.refused(
                ProblemCode::MalformedParameter,
                "the address is not of its form",
            )
        })?;
        let request = ApiRequest {
            method,
            target,
            headers,
            peer: self.request.peer_addr(),
            body,
        };
        let answer = self.ui.api.call(request).await;
        let status = answer.status();
        if status.is_client_error() || status.is_server_error() {
            return Err(self.failed(answer).await);
        }
        Ok(answer)
    }

    async fn failed(&self, answer: HttpResponse) -> Failed {
        let status = answer.status();
        let is_signed_out = status == StatusCode::UNAUTHORIZED;
        if is_signed_out && matches!(self.shell.sign_in, SignIn::Key | SignIn::Token) {
            return Failed {
                shell: Box::new(self.shell.clone()),
                cause: Cause::SignIn(self.shell.here.clone()),
            };
        }
        let bytes = to_bytes(answer.into_body()).await.unwrap_or_default();
        let problem = serde_json::from_slice(&bytes);
        let problem = problem.unwrap_or_else(|_| Problem {
            status: status.as_u16(),
            ..Problem::new(ProblemCode::Internal, "the interface gave no reason")
        });
        Failed::refused(&self.shell, problem)
    }

    async fn read(&self, answer: HttpResponse) -> Result<(StatusCode, Bytes), Failed> {
        let status = answer.status();
        let bytes = to_bytes(answer.into_body()).await.map_err(|error| {
            tracing::warn!(%error, "an answer of the interface broke off");
            self.refused(ProblemCode::Unavailable, "the answer broke off: try again")
        })?;
        Ok((status, bytes))
    }
}

/// Addresses that only take a form. Each other one that takes a form also shows it.
const FORMS_ONLY: [&str; 2] = ["/preferences", "/sign-out"];

/// Where the browser comes back to, below the pages' own address: without the notice of what was done, which is shown once, and without
/// the token of a form.
fn here(request: &HttpRequest, base: &str) -> String {
    let inner = request.path().strip_prefix(base).unwrap_or("/");
    if inner.starts_with("/live/") || FORMS_ONLY.contains(&inner) {
        return "/".to_owned();
    }
    let query = url::form_urlencoded::parse(request.query_string().as_bytes());
    let kept = query.filter(|(name, _)| name != DID && name != TOKEN);
    kept.fold(Address::new(inner), |to, (name, value)| {
        to.with(&name, value)
    })
    .text()
}

/// A body that is there already.
pub(crate) fn whole(text: String) -> Payload {
    let chunk = stream::iter([Ok(Bytes::from(text))]);
    Payload::Stream {
        payload: Box::pin(chunk),
    }
}
