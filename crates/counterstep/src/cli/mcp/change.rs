//! A change by a tool: shown first, and made when the same call comes again with the token of what was shown. Must not make
//! one that was not shown.

use super::tools::{CONFIRM, Request, Tool};
use super::{STRANGERS, answered};
use crate::cli::remote::Remote;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, Instant};

/// How long what was shown can be confirmed.
const VALID: Duration = Duration::from_secs(300);

/// Maximum number of changes that were shown and wait for a word.
const WAITING: usize = 100;

/// What was shown, by token.
#[derive(Debug, Default)]
pub(super) struct Changes(HashMap<String, Shown>);

#[derive(Debug)]
struct Shown {
    at: Instant,
    what: Asked,
}

#[derive(Debug, PartialEq)]
struct Asked {
    tool: &'static str,
    request: Request,
    preview: Value,
}

impl Changes {
    /// Shows a change, or makes the one that was shown.
    pub(super) async fn ask(
        &mut self,
        remote: &Remote,
        tool: &Tool,
        mut arguments: Map<String, Value>,
        actor: &str,
    ) -> Result<Value, String> {
        let confirm = arguments.remove(CONFIRM);
        let preview = match tool.preview(arguments.clone())? {
            // What cannot be shown can still be decided: a type that this API does not know has no plan.
            Some(Request { verb, path, body }) => {
                match remote.send::<Value>(verb, &path, body.as_ref()).await {
                    Ok(shown) => shown,
                    Err(exit) => json!({ "cannot_be_shown": exit.to_string() }),
                }
            }
            None => Value::Null,
        };
        let mut request = tool.request(arguments)?;
        tool.signed(&mut request, actor);
        let asked = Asked {
            tool: tool.name(),
            request,
            preview,
        };
        self.0.retain(|_, shown| shown.at.elapsed() < VALID);
        let shown = confirm
            .as_ref()
            .map(|token| self.0.remove(token.as_str().unwrap_or_default()));
        match shown {
            Some(Some(shown)) if shown.what == asked => {
                let Request { verb, path, body } = &asked.request;
                let made = remote.send(*verb, path, body.as_ref()).await;
                let made = made.map_err(|exit| exit.to_string())?;
                Ok(answered(&format!("Done: {}. {STRANGERS}", tool.summary()), &made))
            }
            Some(Some(_)) => Ok(self.show(
                tool,
                asked,
                "Nothing was changed: the arguments, or what they would change, differ from what was shown. ",
            )),
            Some(None) => Ok(self.show(
                tool,
                asked,
                "Nothing was changed: no change of this token waits; it holds for five minutes, and once. ",
            )),
            None => Ok(self.show(tool, asked, "Nothing was changed yet. ")),
        }
    }

    fn show(&mut self, tool: &Tool, what: Asked, before: &str) -> Value {
        // Not a secret: it keeps apart what was shown.
        let token = format!("{:016x}", RandomState::new().hash_one(self.0.len()));
        let said = format!(
            "{before}This would be done: {}. Ask the person who decides; then call the tool again with the same arguments and \
             \"{CONFIRM}\": \"{token}\". {STRANGERS}",
            tool.summary()
        );
        let shown = json!({
            CONFIRM: token,
            "would": {
                "method": what.request.verb.name(),
                "path": what.request.path,
                "body": what.request.body,
            },
            "preview": what.preview,
        });
        if self.0.len() >= WAITING {
            let oldest = self.0.iter().min_by_key(|(_, shown)| shown.at);
            if let Some(oldest) = oldest.map(|(token, _)| token.clone()) {
                self.0.remove(&oldest);
            }
        }
        let at = Instant::now();
        self.0.insert(token, Shown { at, what });
        answered(&said, &shown)
    }
}
