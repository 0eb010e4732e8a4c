//! A decision before it is taken: what it would lead to, its form, and how it is sent by other means. What is shown
//! is what the button sends: both are made of the same form. Must not know what is decided.

use crate::equivalents::Equivalents;
use crate::failed::{Answer, Failed};
use crate::forms;
use crate::layout::{self, Chapter};
use crate::page_request::PageRequest;
use crate::query::Fields;
use crate::shell::TOKEN;
use actix_web::HttpResponse;
use actix_web::http::Method;
use actix_web::http::header::{HeaderName, HeaderValue};
use counterstep_contracts::ProblemCode;
use maud::{Markup, Render, html};
use serde_json::Value;

/// A decision.
pub(super) struct Proposal<'a> {
    pub(super) chapter: Chapter,
    pub(super) title: String,
    /// What it is about, and its page.
    pub(super) about: (String, String),
    /// What it would lead to.
    pub(super) preview: Markup,
    pub(super) form: Form<'a>,
    pub(super) button: String,
    /// What it says where it was done.
    pub(super) did: &'static str,
    pub(super) elsewhere: Equivalents,
}

/// The form of a decision. Each field shows what was sent, and gives it: none is lost where it is refused.
pub(super) struct Form<'a> {
    sent: Option<&'a Fields>,
    shown: Vec<Markup>,
    /// What keeps it from being sent.
    wrong: Option<(ProblemCode, String)>,
    /// Whether the browser sends it as parts, with files.
    pub(super) has_files: bool,
}

impl<'a> Form<'a> {
    /// With what was sent; of a page that is opened nothing was.
    pub(super) const fn of(sent: Option<&'a Fields>) -> Self {
        Self {
            sent,
            shown: Vec::new(),
            wrong: None,
            has_files: false,
        }
    }

    /// What a field of this name holds.
    pub(super) fn value(&self, name: &str, at_first: &str) -> String {
        let sent = self.sent.map(|fields| fields.raw(name).unwrap_or_default());
        sent.unwrap_or(at_first).to_owned()
    }

    pub(super) fn add(&mut self, field: Markup) {
        self.shown.push(field);
    }

    /// Whether it was sent, and is not only opened.
    pub(super) const fn is_sent(&self) -> bool {
        self.sent.is_some()
    }

    /// Whether something was sent in a field of this name.
    pub(super) fn was_sent(&self, name: &str) -> bool {
        self.sent.is_some_and(|fields| fields.raw(name).is_some())
    }

    /// The number of fields that it has so far.
    pub(super) const fn count(&self) -> usize {
        self.shown.len()
    }

    /// Fields behind the first ones belong together under a name.
    pub(super) fn group(&mut self, first: usize, legend: &Markup) {
        let own = self.shown.split_off(first);
        self.add(html! {
            fieldset.typed { legend { (legend) } @for field in &own { (field) } }
        });
    }

    /// It cannot be sent like this.
    pub(super) fn refuse(&mut self, code: ProblemCode, why: String) {
        self.wrong.get_or_insert((code, why));
    }

    #[cfg(test)]
    pub(super) fn shown(&self) -> &[Markup] {
        &self.shown
    }

    #[cfg(test)]
    pub(super) fn why_not(&self) -> Option<&str> {
        self.wrong.as_ref().map(|(_, why)| why.as_str())
    }

    /// A text of several lines.
    pub(super) fn text(
        &mut self,
        name: &str,
        label: Markup,
        at_first: &str,
        is_required: bool,
    ) -> String {
        let text = self.value(name, at_first);
        let rows = at_first.lines().count().clamp(4, 12);
        let like = at_first.is_empty().then_some("{\"field\": \"value\"}");
        // HTML drops the line break that a text begins with.
        self.add(html! {
            label for=(name) { (label) }
            textarea id=(name) class="code" name=(name) rows=(rows) spellcheck="false" required[is_required] placeholder=[like] { "\n" (text) }
        });
        text
    }

    /// JSON; none where nothing was entered.
    pub(super) fn json(
        &mut self,
        name: &str,
        label: Markup,
        at_first: &str,
        is_required: bool,
    ) -> Option<Value> {
        let text = self.text(name, label, at_first, is_required);
        if text.trim().is_empty() {
            if is_required && self.is_sent() {
                let why = format!("`{name}` is missing; expected JSON");
                self.refuse(ProblemCode::InvalidRequest, why);
            }
            return None;
        }
        let read = serde_json::from_str(&text);
        let refuse = |error: serde_json::Error| {
            let why = format!("`{name}` is no JSON: {error}");
            self.refuse(ProblemCode::MalformedBody, why);
        };
        read.map_err(refuse).ok()
    }

    /// A text of one line, with an example where it is empty.
    pub(super) fn line(&mut self, name: &str, label: Markup, at_first: &str, like: &str) -> String {
        self.entry(name, label, at_first, like, false)
    }

    /// The same; a required one is not sent empty.
    pub(super) fn entry(
        &mut self,
        name: &str,
        label: Markup,
        at_first: &str,
        like: &str,
        is_required: bool,
    ) -> String {
        let text = self.value(name, at_first);
        let like = Some(like).filter(|it| !it.is_empty());
        self.add(html! {
            label for=(name) { (label) }
            input id=(name) name=(name) value=(text) placeholder=[like] required[is_required];
        });
        text.trim().to_owned()
    }

    /// A number from 1.
    pub(super) fn number(&mut self, name: &str, label: Markup, at_first: &str) -> String {
        let text = self.value(name, at_first);
        self.add(html! {
            label for=(name) { (label) }
            input id=(name) type="number" name=(name) min="1" max="1000000" value=(text);
        });
        text.trim().to_owned()
    }

    /// One of several, each by its value and its name.
    pub(super) fn choice(
        &mut self,
        name: &str,
        label: impl Render,
        all: &[(String, String)],
        at_first: &str,
    ) -> String {
        self.chosen(name, label, all, at_first, false)
    }

    /// The same; a required one is not sent with a choice of no value.
    pub(super) fn chosen(
        &mut self,
        name: &str,
        label: impl Render,
        all: &[(String, String)],
        at_first: &str,
        is_required: bool,
    ) -> String {
        // A browser sends the first one where no other is selected.
        let known = all.iter().find(|(value, _)| value == at_first);
        let at_first = known.or(all.first()).map_or("", |(value, _)| value);
        let chosen = self.value(name, at_first);
        self.add(html! {
            label for=(name) { (label) }
            select id=(name) name=(name) required[is_required] {
                @for (value, text) in all { option value=(value) selected[*value == chosen] { (text) } }
            }
        });
        chosen
    }

    /// Why it is decided. What is shown before one is entered has the word `why` in its place.
    pub(super) fn note(&mut self) -> String {
        let note = self.value("note", "");
        self.add(html! {
            label for="note" { "Why" span.quiet { ", for the audit" } }
            textarea #note name="note" rows="2" required maxlength="4000" autofocus { "\n" (note) }
        });
        match self.sent {
            Some(_) => note.trim().to_owned(),
            None => "why".to_owned(),
        }
    }
}

/// Its page; with what was refused, where it was sent before.
pub(super) fn page(
    visit: &PageRequest,
    it: &Proposal<'_>,
    failed: Option<&Failed>,
) -> HttpResponse {
    let problem = failed.and_then(Failed::problem);
    let (about, back) = &it.about;
    // A field of ours would be one that a form with files does not know.
    let action = match it.form.has_files {
        true => format!("{}?{TOKEN}={}", visit.request.path(), visit.shell.token),
        false => visit.request.uri().to_string(),
    };
    let kind = it.form.has_files.then_some("multipart/form-data");
    let body = html! {
        section.sheet.decision {
            p.up { a href=(visit.at(back)) { (about) } }
            h1 { (it.title) }
            @if let Some(problem) = problem {
                p.wrong role="alert" {
                    b { (problem.title) } ": " (problem.detail)
                    @if let Some(pointer) = &problem.pointer { " (" code { (pointer) } ")" }
                }
            }
            @if !it.preview.0.is_empty() { div.preview { (it.preview) } }
            form method="post" enctype=[kind] action=(action) {
                @if !it.form.has_files { (forms::token(visit)) }
                @for field in &it.form.shown { (field) }
                div.buttons {
                    button.primary type="submit" { (it.button) }
                    a.button href=(visit.at(back)) { "Do nothing" }
                }
            }
            @if it.form.wrong.is_none() { (it.elsewhere.shown(visit)) }
        }
    };
    let mut answer = layout::page(&visit.shell, it.chapter, &it.title, body);
    if let Some(failed) = failed {
        *answer.status_mut() = actix_web::ResponseError::status_code(failed);
    }
    answer
}

/// Sends it, and leads back to what it is about; what is refused is shown on its page.
pub(super) async fn send(visit: &PageRequest, it: &Proposal<'_>) -> Answer {
    send_to(visit, it, |_| None).await
}

/// The same, and leads to the page that the answer names, where it names one.
pub(super) async fn send_to(
    visit: &PageRequest,
    it: &Proposal<'_>,
    to: impl FnOnce(&Value) -> Option<String>,
) -> Answer {
    if let Some((code, why)) = &it.form.wrong {
        let failed = visit.refused(*code, why);
        return Ok(page(visit, it, Some(&failed)));
    }
    let method = match it.elsewhere.method {
        "DELETE" => Method::DELETE,
        "PUT" => Method::PUT,
        _ => Method::POST,
    };
    let mut headers = visit.headers();
    for (name, value) in &it.elsewhere.headers {
        let Ok(value) = HeaderValue::try_from(value) else {
            let why = format!("`{value}` cannot stand in a header");
            let failed = visit.refused(ProblemCode::InvalidRequest, &why);
            return Ok(page(visit, it, Some(&failed)));
        };
        headers.insert(HeaderName::from_static(name), value);
    }
    let body = it.elsewhere.json();
    let sent = visit.json_with::<Value>(method, &it.elsewhere.path, headers, body);
    answered(visit, it, sent.await, to)
}

/// What follows from the answer of the interface.
pub(super) fn answered(
    visit: &PageRequest,
    it: &Proposal<'_>,
    answer: Result<Value, Failed>,
    to: impl FnOnce(&Value) -> Option<String>,
) -> Answer {
    match answer {
        Ok(answer) => {
            let to = to(&answer).unwrap_or_else(|| it.about.1.clone());
            Ok(super::done(visit, &to, it.did))
        }
        // Also where the interface cannot answer: the person tries again.
        Err(failed) if failed.problem().is_some() => Ok(page(visit, it, Some(&failed))),
        Err(failed) => Err(failed),
    }
}

/// The page of the task that an answer names.
pub(super) fn new_task(answer: &Value) -> Option<String> {
    answer["task_id"].as_str().map(|id| format!("/tasks/{id}"))
}
