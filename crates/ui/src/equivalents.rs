//! What a button does, as a command line and as an HTTP request: both to copy. Must not send anything.

use crate::markup::copied;
use crate::page_request::PageRequest;
use crate::port::SignIn;
use counterstep_contracts::commands::{self, in_shell, quoted};
use counterstep_contracts::operation::About;
use counterstep_contracts::operator::OperatorMove;
use maud::{Markup, html};
use serde_json::{Map, Value};

/// The two. The button sends the request as it stands here.
#[derive(Debug, Clone)]
pub(crate) struct Equivalents {
    /// The words of the command line, behind the program's name; none: no command line does this.
    words: Option<Vec<String>>,
    /// What the command reads from its standard input.
    input: Option<String>,
    pub(crate) method: &'static str,
    /// From the root of the interface.
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    body: Option<Body>,
}

#[derive(Debug, Clone)]
enum Body {
    Json(Value),
    /// JSON as a person has written it.
    Text(String),
    /// Parts of a form, as curl takes them.
    Form(Vec<[String; 2]>),
}

impl Equivalents {
    pub(crate) fn new(method: &'static str, path: String, words: &[&str]) -> Self {
        Self {
            words: Some(words.iter().map(|word| (*word).to_owned()).collect()),
            input: None,
            method,
            path,
            headers: Vec::new(),
            body: None,
        }
    }

    /// Of a move that the interface offers.
    pub(crate) fn of(can: &OperatorMove) -> Self {
        let about = can.operation.as_deref().and_then(About::of_operation);
        Self {
            words: can.words(),
            input: None,
            method: about.map_or("POST", |about| about.verb.name()),
            path: can.path.clone(),
            headers: Vec::new(),
            body: can.body.clone().map(Body::Json),
        }
    }

    fn body(mut self, body: Value) -> Self {
        self.body = Some(Body::Json(body));
        self
    }

    /// The request of a submission, which the command reads from its standard input.
    pub(crate) fn request(mut self, text: String) -> Self {
        self.input = Some(text.clone());
        self.body = Some(Body::Text(text));
        self.flag("--request", "-")
    }

    /// A form, and what the command reads of it from its standard input.
    pub(crate) fn form(mut self, parts: Vec<[String; 2]>, input: Option<String>) -> Self {
        self.body = Some(Body::Form(parts));
        if input.is_none() {
            return self;
        }
        self.input = input;
        self.flag("--request", "-")
    }

    /// A field of the body.
    pub(crate) fn field(mut self, name: &str, value: impl Into<Value>) -> Self {
        let body = self.body.take();
        let mut fields = match body {
            Some(Body::Json(Value::Object(fields))) => fields,
            _ => Map::new(),
        };
        fields.insert(name.to_owned(), value.into());
        self.body(Value::Object(fields))
    }

    /// A flag of the command line with its value.
    pub(crate) fn flag(mut self, name: &str, value: &str) -> Self {
        if let Some(words) = &mut self.words {
            commands::add(words, name, Some(value));
        }
        self
    }

    /// Why it is decided.
    pub(crate) fn note(self, note: &str) -> Self {
        self.flag("--note", note).field("note", note)
    }

    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Only over HTTP: no command line does this.
    pub(crate) fn only_http(mut self) -> Self {
        self.words = None;
        self
    }

    /// The JSON that is sent.
    pub(crate) fn json(&self) -> Option<String> {
        match self.body.as_ref()? {
            Body::Json(value) => Some(value.to_string()),
            Body::Text(text) => Some(text.clone()),
            Body::Form(_) => None,
        }
    }

    /// As a shell takes it.
    pub(crate) fn command(&self) -> Option<String> {
        let words = self.words.as_ref()?.iter().map(String::as_str);
        let command = in_shell(["counterstep"].into_iter().chain(words));
        Some(match &self.input {
            Some(text) => format!("printf %s {} | {command}", quoted(text)),
            None => command,
        })
    }

    pub(crate) fn curl(&self, visit: &PageRequest) -> String {
        let mut words = vec!["curl".to_owned()];
        if self.method != "GET" {
            words.extend(["-X".to_owned(), self.method.to_owned()]);
        }
        if matches!(visit.shell.sign_in, SignIn::Key | SignIn::Token) {
            words.extend(["-H".to_owned(), "\"Authorization: Bearer $KEY\"".to_owned()]);
        }
        for (name, value) in &self.headers {
            words.extend(["-H".to_owned(), quoted(&format!("{name}: {value}"))]);
        }
        if let Some(body) = self.json() {
            words.extend(["-H".to_owned(), quoted("content-type: application/json")]);
            words.extend(["--data-raw".to_owned(), quoted(&body)]);
        }
        if let Some(Body::Form(parts)) = &self.body {
            words.extend(parts.iter().flatten().map(|word| quoted(word)));
        }
        let address = {
            let origin = visit.request.connection_info();
            let (scheme, host) = (origin.scheme().to_owned(), origin.host().to_owned());
            format!("{scheme}://{host}{}{}", visit.shell.mount, self.path)
        };
        words.push(quoted(&address));
        words.join(" ")
    }

    pub(crate) fn shown(&self, visit: &PageRequest) -> Markup {
        html! {
            details.elsewhere {
                summary { "Command line and HTTP" }
                p.quiet { "As the button, with the form as it was when this page was loaded." }
                dl {
                    @if let Some(command) = self.command() {
                        dt { "Command line" }
                        dd { (copied(&command)) }
                    }
                    dt { "HTTP" }
                    dd { (copied(&self.curl(visit))) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_each_word_as_it_is() {
        let words = ["tasks", "retry", "a"];
        let command = Equivalents::new("POST", String::new(), &words).note("it's $x");
        let shown = "counterstep tasks retry a --note 'it'\\''s $x'";
        assert_eq!(command.command().as_deref(), Some(shown));
        let command = Equivalents::new("POST", String::new(), &words).note("-5 degrees");
        let shown = "counterstep tasks retry a '--note=-5 degrees'";
        assert_eq!(command.command().as_deref(), Some(shown));
    }
}
