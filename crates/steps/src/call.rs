//! Requests to services of the settings, as values: the declaration's function says what is asked
//! of whom, and the engine asks. What an answer means for the next attempt is decided in `answers`,
//! for every caller in the same way.

mod answers;

use crate::builtin::{BuiltInStep, Call, Work};
use crate::context::StepContext;
use crate::error::{StepError, StepResult};
use crate::json::to_json;
use crate::ports::{HttpServices, Method, ServiceAnswer, ServiceError, ServiceRequest};
use crate::services::Services;
use async_trait::async_trait;
use counterstep_contracts::{Direction, UndoDecl};
use futures::future::{Either, select};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::any::TypeId;
use std::fmt::{Display, Write};
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum bytes of an answer, unless a call declares another.
pub const LONGEST_ANSWER: usize = 1 << 20;

/// A request to a service that the settings name, and the type of its answer. As what a plain
/// function returns it is a built-in step, or an undo; any other step sends one with
/// [`StepContext::call`].
///
/// The service's URL and credentials come from the settings (`[services.bank]`), never from a
/// client. Every request but a GET carries the [effect key](StepContext::effect_key) as
/// `Idempotency-Key`, the same on each attempt, so that a service which honours it does the work
/// once. The answer is read as JSON; `HttpCall<()>` does not look at it.
///
/// ```
/// # use counterstep_steps::HttpCall;
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Charge;
/// # struct Order { account: String, amount_cents: u64 }
/// fn charge(order: &Order) -> HttpCall<Charge> {
///     HttpCall::post("bank", "/accounts")
///         .segment(&order.account)
///         .segment("charges")
///         .json(&serde_json::json!({ "amount_cents": order.amount_cents }))
/// }
/// ```
#[derive(Debug)]
pub struct HttpCall<T>(Call, PhantomData<fn() -> T>);

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> HttpCall<T> {
    fn new(method: Method, service: &'static str, path: &'static str) -> Self {
        let call = Call {
            service,
            method,
            path: path.to_owned(),
            body: None,
            accepted: Vec::new(),
            retried: Vec::new(),
            longest_answer: LONGEST_ANSWER,
            fault: None,
            read: read_answer::<T>,
        };
        Self(call, PhantomData).or_fault(literal_fault(path).map(|what| {
            format!(
                "`{}` is no path for a call: {what}; put values into .segment(..) and .query(..)",
                path.escape_debug()
            )
        }))
    }

    /// Reads. `service` is a name of the settings; `path` starts with a slash and is taken as it
    /// stands.
    #[must_use]
    pub fn get(service: &'static str, path: &'static str) -> Self {
        Self::new(Method::Get, service, path)
    }

    /// Does something.
    #[must_use]
    pub fn post(service: &'static str, path: &'static str) -> Self {
        Self::new(Method::Post, service, path)
    }

    /// Puts something in its place.
    #[must_use]
    pub fn put(service: &'static str, path: &'static str) -> Self {
        Self::new(Method::Put, service, path)
    }

    /// Takes something away. [`accepting`](Self::accepting) `404` makes "it is not there" a
    /// success, as an undo wants.
    #[must_use]
    pub fn delete(service: &'static str, path: &'static str) -> Self {
        Self::new(Method::Delete, service, path)
    }

    /// Appends one segment to the path, escaped: it stays one segment whatever is in it. An empty
    /// one, `.` and `..` would make another path; the call then fails as permanent before anything
    /// is sent.
    #[must_use]
    pub fn segment(mut self, value: impl Display) -> Self {
        let value = value.to_string();
        let fault = matches!(value.as_str(), "" | "." | "..").then(|| {
            format!(
                "`{value}` cannot be a segment of the path `{}`: it would lead elsewhere",
                self.0.path
            )
        });
        if self.0.path.contains('?') {
            return self.or_fault(Some(
                "a .segment(..) comes before the first .query(..)".to_owned(),
            ));
        }
        if !self.0.path.ends_with('/') {
            self.0.path.push('/');
        }
        escape(&value, &mut self.0.path);
        self.or_fault(fault)
    }

    /// Appends `name=value` to the query, escaped.
    #[must_use]
    pub fn query(mut self, name: &'static str, value: impl Display) -> Self {
        self.0
            .path
            .push(if self.0.path.contains('?') { '&' } else { '?' });
        escape(name, &mut self.0.path);
        self.0.path.push('=');
        escape(&value.to_string(), &mut self.0.path);
        self
    }

    /// Sends this as JSON.
    #[must_use]
    pub fn json(mut self, body: &impl Serialize) -> Self {
        match to_json(body) {
            Ok(body) => {
                self.0.body = Some(body);
                self
            }
            Err(error) => self.or_fault(Some(format!(
                "the body of the call cannot be written as JSON: {error}"
            ))),
        }
    }

    /// This status is success as well. Its body is read as any other, `null` where it is empty.
    #[must_use]
    pub fn accepting(mut self, status: u16) -> Self {
        self.0.accepted.push(status);
        self
    }

    /// This status may pass by itself: the call is tried again under the step's policy. For a
    /// service that says 409 while it is still at work on the first request with the same key, say.
    #[must_use]
    pub fn retrying(mut self, status: u16) -> Self {
        self.0.retried.push(status);
        self
    }

    /// Maximum bytes of the answer; [`LONGEST_ANSWER`] by default. A longer one is an error.
    #[must_use]
    pub const fn longest_answer(mut self, bytes: usize) -> Self {
        self.0.longest_answer = bytes;
        self
    }

    fn or_fault(mut self, fault: Option<String>) -> Self {
        self.0.fault = self.0.fault.or(fault);
        self
    }
}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> BuiltInStep for HttpCall<T> {
    type Output = T;
    const OUTPUT: &'static str = "the answer of its service";
    // Never used: a declaration that says nothing of an undo does not compile.
    const UNDO: UndoDecl = UndoDecl::Pure;
    const UNDONE_BY_THE_ENGINE: bool = false;
    fn into_work(self) -> Work {
        Work::Call(self.0)
    }
}

/// For pure steps and probes: what one of them does to a service is never undone, and it may run
/// before its task is accepted.
#[derive(Debug)]
pub struct ReadOnly(pub Arc<dyn HttpServices>);

#[async_trait]
impl HttpServices for ReadOnly {
    async fn call(&self, request: ServiceRequest) -> Result<ServiceAnswer, ServiceError> {
        if request.method == Method::Get {
            return self.0.call(request).await;
        }
        let why = "a pure step, or a probe, only reads from services: a step that changes one is not pure, and has an undo or waives it";
        Err(ServiceError::Refused(why.to_owned()))
    }

    fn knows(&self, service: &str) -> bool {
        self.0.knows(service)
    }
}

impl StepContext {
    /// With services that it may call.
    #[must_use]
    pub fn with_services(mut self, http: Arc<dyn HttpServices>) -> Self {
        self.services = Services {
            http,
            unsent: AtomicBool::new(false),
        };
        self
    }

    /// Sends a request and gives its answer, with the same rules as where an [`HttpCall`] is the
    /// whole step. Several calls of one execution that are no GET carry the same `Idempotency-Key`:
    /// send them to different services, or make them steps of their own.
    ///
    /// # Errors
    /// Classified by what was answered. The time limit is the attempt's; a cancelled token stops
    /// the call.
    pub async fn call<T: Serialize + DeserializeOwned + Send + Sync + 'static>(
        &self,
        call: HttpCall<T>,
    ) -> StepResult<T> {
        let answer = self.carry_out(call.0).await?;
        serde_json::from_value(answer).map_err(|error| {
            StepError::permanent(format_args!("the answer cannot be read: {error}"))
        })
    }

    /// The answer as it is stored.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub async fn carry_out(&self, call: Call) -> StepResult<Value> {
        if let Some(fault) = &call.fault {
            self.services.unsent.store(true, Ordering::Relaxed);
            return Err(StepError::permanent(fault).about(answers::origin(&call)));
        }
        let request = ServiceRequest {
            service: call.service.to_owned(),
            method: call.method,
            path: call.path.clone(),
            headers: self.headers(&call),
            body: call.body.as_ref().map(|body| body.to_string().into()),
            longest_answer: call.longest_answer,
        };
        let told_to_stop = pin!(self.cancel().cancelled());
        let answered = match select(self.services.http.call(request), told_to_stop).await {
            Either::Left((answered, _)) => answered,
            Either::Right(_) => return Err(StepError::cancelled()),
        };
        let unsent = answered.as_ref().is_err_and(|error| !error.may_be_sent());
        self.services.unsent.store(unsent, Ordering::Relaxed);
        let error = match answered {
            Ok(answer) => return answers::read(&call, &answer),
            Err(error @ (ServiceError::Unknown(_) | ServiceError::Refused(_))) => {
                StepError::permanent(error)
            }
            Err(error @ (ServiceError::NotSent(_) | ServiceError::Unanswered(_))) => {
                StepError::transient(format_args!("{}: {error}", answers::name(&call)))
            }
        };
        Err(error.about(answers::origin(&call)))
    }

    /// Whether the last call provably did not reach its service. Says something of an execution
    /// that is that call and nothing else.
    #[must_use]
    pub fn is_unsent(&self) -> bool {
        self.services.unsent.load(Ordering::Relaxed)
    }

    fn headers(&self, call: &Call) -> Vec<(&'static str, String)> {
        let mut headers = vec![("accept", "application/json".to_owned())];
        if call.body.is_some() {
            headers.push(("content-type", "application/json".to_owned()));
        }
        if call.method != Method::Get {
            headers.push(("idempotency-key", self.effect_key()));
        }
        headers.extend(
            self.traceparent()
                .map(|parent| ("traceparent", parent.to_owned())),
        );
        headers
    }

    /// `{task}:{step}` in the step and in its undo alike: what the step's own request carried as
    /// `Idempotency-Key`. By it an undo can name to a service what it takes back, also where the
    /// step's output is unknown.
    #[must_use]
    pub fn step_key(&self) -> String {
        self.key_in(Direction::Forward)
    }
}

/// What is wrong with the literal part of a path.
fn literal_fault(path: &str) -> Option<&'static str> {
    let plain = |c: u8| c.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&c);
    if !path.starts_with('/') {
        Some("it does not start with a slash")
    } else if path.contains("//") || path.split('/').any(|segment| matches!(segment, "." | "..")) {
        Some("it has an empty segment, `.` or `..` in it")
    } else if !path.bytes().all(plain) {
        Some("it has a character in it that a path does not have")
    } else {
        None
    }
}

/// Appends `value` with everything escaped that could mean something in a URL.
fn escape(value: &str, path: &mut String) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            path.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(path, "%{byte:02X}");
        }
    }
}

/// Reads an answer as `T`. What the type does not know is left out: a service may learn to say
/// more.
fn read_answer<T: Serialize + DeserializeOwned + 'static>(body: &[u8]) -> Result<Value, String> {
    if TypeId::of::<T>() == TypeId::of::<()>() {
        return Ok(Value::Null);
    }
    let body = if body.trim_ascii().is_empty() {
        b"null"
    } else {
        body
    };
    let answer: T = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    crate::task::output(&answer).map_err(|error| error.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(call: HttpCall<()>) -> Result<String, String> {
        call.0.fault.map_or(Ok(call.0.path), Err)
    }

    #[test]
    fn a_value_stays_one_segment_whatever_is_in_it() {
        let built = path(
            HttpCall::get("bank", "/accounts")
                .segment("a/../b?c#d e")
                .segment("é%2e")
                .query("to", "x&y=z"),
        );
        assert_eq!(
            built.unwrap(),
            "/accounts/a%2F..%2Fb%3Fc%23d%20e/%C3%A9%252e?to=x%26y%3Dz"
        );
        assert_eq!(path(HttpCall::get("bank", "/").segment(7)).unwrap(), "/7");
        assert_eq!(
            path(HttpCall::get("bank", "/").query("a", 1).query("b", 2)).unwrap(),
            "/?a=1&b=2"
        );
    }

    #[test]
    fn what_would_lead_elsewhere_is_refused_before_anything_is_sent() {
        for segment in ["", ".", ".."] {
            assert!(
                path(HttpCall::get("bank", "/a").segment(segment)).is_err(),
                "{segment}"
            );
        }
        for literal in [
            "",
            "a",
            "//evil.example",
            "/a/../b",
            "/a//b",
            "/a?b",
            "/a#b",
            "/a b",
            "/%2e%2e",
            "/a\\b",
            "/./",
        ] {
            assert!(path(HttpCall::get("bank", literal)).is_err(), "{literal}");
        }
        assert!(path(HttpCall::get("bank", "/a").query("b", 1).segment("c")).is_err());
    }

    #[test]
    fn a_call_for_nothing_does_not_read_its_answer() {
        assert_eq!(read_answer::<()>(b"<html>"), Ok(Value::Null));
        assert_eq!(read_answer::<Option<u32>>(b" \n"), Ok(Value::Null));
        assert!(read_answer::<u32>(b"").is_err() && read_answer::<u32>(b"{").is_err());
    }
}
