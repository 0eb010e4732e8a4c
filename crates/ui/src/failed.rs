//! A page that cannot be shown, and what is shown in its place. Must not say more than the interface said.

use crate::layout;
use crate::shell::Shell;
use actix_web::http::StatusCode;
use actix_web::http::header::LOCATION;
use actix_web::{HttpResponse, ResponseError};
use counterstep_contracts::{Problem, ProblemCode};
use maud::html;
use std::fmt;

/// What handlers of pages answer.
pub(crate) type Answer = Result<HttpResponse, Failed>;

/// Why there is no page.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) shell: Box<Shell>,
    pub(crate) cause: Cause,
}

/// The cause.
#[derive(Debug)]
pub(crate) enum Cause {
    /// The person has to sign in first; from there the browser comes back to this address.
    SignIn(String),
    /// The interface has refused.
    Refused(Box<Problem>),
}

impl Failed {
    pub(crate) fn refused(shell: &Shell, problem: Problem) -> Self {
        Self {
            shell: Box::new(shell.clone()),
            cause: Cause::Refused(Box::new(problem)),
        }
    }

    pub(crate) fn new(shell: &Shell, code: ProblemCode, detail: &str) -> Self {
        Self::refused(shell, Problem::new(code, detail))
    }

    /// What the interface said, where it said something.
    pub(crate) fn problem(&self) -> Option<&Problem> {
        match &self.cause {
            Cause::Refused(problem) => Some(problem),
            Cause::SignIn(_) => None,
        }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::SignIn(_) => f.write_str("the caller has not signed in"),
            Cause::Refused(problem) => problem.fmt(f),
        }
    }
}

impl ResponseError for Failed {
    fn status_code(&self) -> StatusCode {
        match &self.cause {
            Cause::SignIn(_) => StatusCode::SEE_OTHER,
            Cause::Refused(problem) => {
                StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    }

    fn error_response(&self) -> HttpResponse {
        let status = self.status_code();
        match &self.cause {
            Cause::SignIn(back) => {
                let next: String = url::form_urlencoded::byte_serialize(back.as_bytes()).collect();
                let to = format!("{}/sign-in?next={next}", self.shell.base);
                // A live fragment has no place for a whole page: the script leaves for this address.
                HttpResponse::build(status)
                    .insert_header((LOCATION, to))
                    .finish()
            }
            Cause::Refused(problem) => {
                let body = html! {
                    section.sheet.narrow {
                        p.code { (problem.status) " · " (problem.code.as_str()) }
                        h1 { (problem.title) }
                        p { (problem.detail) }
                        @if let Some(pointer) = &problem.pointer {
                            p.quiet { "at " code { (pointer) } }
                        }
                        p { a href={ (self.shell.base) "/" } { "To the overview" } }
                    }
                };
                layout::answer(status, &self.shell, "Refused", body)
            }
        }
    }
}
