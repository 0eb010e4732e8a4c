//! What a button does, as a command line and as an HTTP request: both to copy. Must not send anything.

use crate::markup::copied;
use crate::port::SignIn;
use crate::visit::Visit;
use maud::{Markup, html};
use serde_json::Value;

/// The two.
#[derive(Debug, Clone)]
pub(crate) struct Elsewhere {
    /// The words of the command line, behind the program's name.
    pub(crate) words: Vec<String>,
    pub(crate) method: &'static str,
    /// From the root of the interface.
    pub(crate) path: String,
    pub(crate) body: Option<Value>,
}

impl Elsewhere {
    pub(crate) fn new(method: &'static str, path: String, words: &[&str]) -> Self {
        Self {
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            method,
            path,
            body: None,
        }
    }

    pub(crate) fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    /// As a shell takes it.
    pub(crate) fn command(&self) -> String {
        let words = self.words.iter().map(|word| quoted(word));
        ["counterstep".to_owned()]
            .into_iter()
            .chain(words)
            .collect::<Vec<_>>()
            .join(" ")
    }

    pub(crate) fn curl(&self, visit: &Visit) -> String {
        let mut words = vec!["curl".to_owned()];
        if self.method != "GET" {
            words.extend(["-X".to_owned(), self.method.to_owned()]);
        }
        if matches!(visit.shell.sign_in, SignIn::Key | SignIn::Token) {
            words.extend(["-H".to_owned(), "\"Authorization: Bearer $KEY\"".to_owned()]);
        }
        if let Some(body) = &self.body {
            words.extend(["-H".to_owned(), quoted("content-type: application/json")]);
            words.extend(["-d".to_owned(), quoted(&body.to_string())]);
        }
        let address = {
            let origin = visit.request.connection_info();
            let (scheme, host) = (origin.scheme().to_owned(), origin.host().to_owned());
            format!("{scheme}://{host}{}{}", visit.shell.mount, self.path)
        };
        words.push(quoted(&address));
        words.join(" ")
    }

    pub(crate) fn shown(&self, visit: &Visit) -> Markup {
        html! {
            details.elsewhere {
                summary { "Command line and HTTP" }
                dl {
                    dt { "Command line" }
                    dd { (copied(&self.command())) }
                    dt { "HTTP" }
                    dd { (copied(&self.curl(visit))) }
                }
            }
        }
    }
}

/// A word that a shell takes as it is.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "-_./:=@%+,".contains(sign);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_each_word_as_it_is() {
        let command = Elsewhere::new(
            "POST",
            String::new(),
            &["tasks", "retry", "a", "--note", "it's $x"],
        );
        assert_eq!(
            command.command(),
            "counterstep tasks retry a --note 'it'\\''s $x'"
        );
    }
}
