//! What an operator can do about a task, as commands of this program that can be pasted into a
//! shell.

use counterstep_contracts::TaskId;
use counterstep_contracts::operator::OperatorMove;
use serde_json::Value;

/// How the program is called here.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    program: String,
    /// The API's address, where the commands have to name it.
    url: Option<String>,
}

impl Caller {
    /// `url`: of the API; `usual`: what the program takes where none is given.
    pub(super) fn new(program: &str, url: &str, usual: &str) -> Self {
        // A variable holds for the next command as well, and its value may hold a password.
        let is_known = url == usual || std::env::var("COUNTERSTEP_URL").is_ok_and(|set| set == url);
        Self {
            program: program.to_owned(),
            url: (!is_known).then(|| url.to_owned()),
        }
    }

    /// A move as a command; as the request that it is where this program has no command for it.
    pub(super) fn command(&self, task: TaskId, can: &OperatorMove) -> String {
        if let Some(command) = &can.command {
            return format!("{} {command}", self.program);
        }
        let field = |name: &str| can.body.as_ref().and_then(|body| body.get(name));
        let text = |name: &str| field(name).and_then(Value::as_str);
        let what = can
            .path
            .strip_prefix(&format!("/api/tasks/{task}"))
            .unwrap_or_default();
        let mut words = vec![self.program.clone(), "tasks".to_owned()];
        words.extend(
            self.url
                .iter()
                .flat_map(|url| ["--url".to_owned(), quoted(url)]),
        );
        let mut say = |more: &[&str]| words.extend(more.iter().map(|word| quoted(word)));
        let id = task.to_string();
        match (can.method.as_str(), what) {
            ("DELETE", "") => say(&["cancel", &id]),
            ("POST", "/retry") => {
                say(&["retry", &id]);
                if text("direction") == Some("undo") {
                    say(&["--undo"]);
                }
            }
            ("POST", "/run-again") => say(&["run-again", &id]),
            ("POST", "/resolve") => {
                say(&["resolve", &id]);
                if let Some(step) = text("step") {
                    say(&["--step", step]);
                }
                say(&["--as", text("as").unwrap_or("done")]);
                if field("output").is_some() {
                    say(&["--output", "JSON"]);
                }
            }
            ("POST", signal) if signal.starts_with("/signals/") => {
                say(&[
                    "signal",
                    &id,
                    signal.trim_start_matches("/signals/"),
                    "--body",
                    "JSON",
                ]);
            }
            _ => {
                let body = can
                    .body
                    .as_ref()
                    .map_or_else(String::new, |body| format!(" {body}"));
                return format!("{} {}{body}", can.method, can.path);
            }
        }
        if let Some(note) = text("note") {
            say(&["--note", note]);
        }
        words.join(" ")
    }
}

/// A word as shells read it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const URL: &str = "http://127.0.0.1:8080";

    fn proposed(url: &str, method: &str, what: &str, body: Option<Value>) -> String {
        let task = TaskId("00000000-0000-7000-8000-000000000001".parse().unwrap());
        let (method, path) = (method.to_owned(), format!("/api/tasks/{task}{what}"));
        let can = OperatorMove {
            method,
            path,
            body,
            command: None,
            does: String::new(),
            ends: None,
        };
        Caller::new("shop", url, URL)
            .command(task, &can)
            .replace(&task.to_string(), "ID")
    }

    #[test]
    fn each_move_is_a_command_of_this_program() {
        for (method, what, body, command) in [
            ("DELETE", "", None, "shop tasks cancel ID"),
            (
                "POST",
                "/retry",
                Some(json!({"note": "why"})),
                "shop tasks retry ID --note why",
            ),
            (
                "POST",
                "/retry",
                Some(json!({"note": "why", "direction": "undo"})),
                "shop tasks retry ID --undo --note why",
            ),
            (
                "POST",
                "/resolve",
                Some(json!({"as": "undone", "note": "it's"})),
                r"shop tasks resolve ID --as undone --note 'it'\''s'",
            ),
            (
                "POST",
                "/resolve",
                Some(json!({"step": "pay", "as": "done", "output": null, "note": "why"})),
                "shop tasks resolve ID --step pay --as done --output JSON --note why",
            ),
            (
                "POST",
                "/signals/approval",
                None,
                "shop tasks signal ID approval --body JSON",
            ),
        ] {
            assert_eq!(proposed(URL, method, what, body), command);
        }
        assert_eq!(
            proposed("http://api:80", "DELETE", "", None),
            "shop tasks --url http://api:80 cancel ID"
        );
        assert_eq!(
            proposed(URL, "PATCH", "/new", None),
            "PATCH /api/tasks/ID/new",
            "another version's"
        );
    }
}
