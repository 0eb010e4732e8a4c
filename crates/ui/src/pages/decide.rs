//! A decision before it is taken: what it would lead to, why it is taken, and how it is sent by other means.
//! Must not know what is decided.

use crate::elsewhere::Elsewhere;
use crate::failed::{Answer, Failed};
use crate::forms;
use crate::layout::{self, Chapter};
use crate::query::Fields;
use crate::visit::Visit;
use actix_web::HttpResponse;
use actix_web::http::Method;
use maud::{Markup, html};
use serde_json::Value;

/// A decision.
pub(super) struct Proposal {
    pub(super) chapter: Chapter,
    pub(super) title: String,
    /// What it is about, and its page.
    pub(super) about: (String, String),
    /// What it would lead to.
    pub(super) preview: Markup,
    /// Fields beside the note.
    pub(super) fields: Markup,
    pub(super) has_note: bool,
    pub(super) button: &'static str,
    /// What it says where it was done.
    pub(super) did: &'static str,
    pub(super) elsewhere: Elsewhere,
}

/// Its page; with what was refused, where it was sent before.
pub(super) fn page(visit: &Visit, it: &Proposal, was: Option<(&Failed, &Fields)>) -> HttpResponse {
    let problem = was.and_then(|(failed, _)| failed.problem());
    let note = was
        .and_then(|(_, fields)| fields.get("note"))
        .unwrap_or_default();
    let (about, back) = &it.about;
    let body = html! {
        section.sheet.decision {
            p.up { a href=(visit.at(back)) { (about) } }
            h1 { (it.title) }
            @if let Some(problem) = problem {
                p.wrong role="alert" { b { (problem.title) } ": " (problem.detail) }
            }
            div.preview { (it.preview) }
            form method="post" action=(visit.request.uri().to_string()) {
                (forms::token(visit))
                (it.fields)
                @if it.has_note {
                    label for="note" { "Why" span.quiet { ", for the audit" } }
                    textarea #note name="note" rows="2" required maxlength="4000" autofocus { (note) }
                }
                div.buttons {
                    button.primary type="submit" { (it.button) }
                    a.button href=(visit.at(back)) { "Do nothing" }
                }
            }
            (it.elsewhere.shown(visit))
        }
    };
    layout::page(&visit.shell, it.chapter, &it.title, body)
}

/// Sends it, and leads back to what it is about; what is refused is shown on its page.
pub(super) async fn send(
    visit: &Visit,
    it: &Proposal,
    fields: &Fields,
    body: Option<Value>,
) -> Answer {
    send_to(visit, it, fields, body, |_| None).await
}

/// The same, and leads to the page that the answer names, where it names one.
pub(super) async fn send_to(
    visit: &Visit,
    it: &Proposal,
    fields: &Fields,
    body: Option<Value>,
    to: impl FnOnce(&Value) -> Option<String>,
) -> Answer {
    let method = match it.elsewhere.method {
        "DELETE" => Method::DELETE,
        "PUT" => Method::PUT,
        _ => Method::POST,
    };
    match visit
        .json::<Value>(method, &it.elsewhere.path, body.as_ref())
        .await
    {
        Ok(answer) => {
            let to = to(&answer).unwrap_or_else(|| it.about.1.clone());
            Ok(super::done(visit, &to, it.did))
        }
        Err(failed) if failed.problem().is_some_and(|it| it.status < 500) => {
            let mut answer = page(visit, it, Some((&failed, fields)));
            *answer.status_mut() = actix_web::ResponseError::status_code(&failed);
            Ok(answer)
        }
        Err(failed) => Err(failed),
    }
}
