//! What a command prints, to standard output: an answer as JSON, or as people see it.

pub(super) use counterstep_node::exit::print;

use super::table::Look;
use super::times;
use console::Term;
use counterstep_contracts::operation::shown::View;
use counterstep_node::Exit;
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::fmt::Display;
use std::io::Write as _;

/// Columns of a terminal that does not say how wide it is.
const USUAL_WIDTH: usize = 80;

/// How an answer is printed.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct OutputArgs {
    /// Print the API's JSON instead of a table
    #[arg(long, global = true, display_order = 900)]
    pub(super) json: bool,
    /// Print JSON, of a list an item a line
    #[arg(long, global = true, display_order = 901, conflicts_with = "json")]
    pub(super) jsonl: bool,
    /// Print these columns of a table, by their heads, with - for a blank, as task,last-change
    #[arg(long, global = true, display_order = 902, value_name = "HEADS", value_delimiter = ',', conflicts_with_all = ["json", "jsonl"])]
    pub(super) columns: Vec<String>,
}

impl OutputArgs {
    /// An answer; `view`: as people see it.
    pub(super) fn show<T: Serialize>(
        &self,
        answer: &T,
        view: impl FnOnce(&T) -> View,
    ) -> Result<String, Exit> {
        match self.as_json(answer)? {
            Some(text) => Ok(text),
            None => self.look().text(&view(answer)),
        }
    }

    /// The same, of an answer that is shown as a text.
    pub(super) fn show_text<T: Serialize>(
        &self,
        answer: &T,
        text: impl FnOnce(&T, &Look) -> String,
    ) -> Result<String, Exit> {
        match self.as_json(answer)? {
            Some(text) => Ok(text),
            None => Ok(text(answer, &self.look())),
        }
    }

    /// An answer as JSON, where that is asked for.
    pub(super) fn as_json<T: Serialize>(&self, answer: &T) -> Result<Option<String>, Exit> {
        match (self.json, self.jsonl) {
            (false, false) => Ok(None),
            (true, _) => json(answer).map(Some),
            (false, true) => lines(answer).map(Some),
        }
    }

    /// An answer as it came; `shown`: as people see it.
    pub(super) fn show_answer(
        &self,
        answer: &[u8],
        shown: Option<impl FnOnce() -> serde_json::Result<View>>,
    ) -> Result<String, Exit> {
        if self.jsonl {
            return lines(&serde_json::from_slice::<Value>(answer).map_err(unreadable)?);
        }
        match shown {
            Some(shown) if !self.json => self.look().text(&shown().map_err(unreadable)?),
            _ => {
                serde_json::from_slice::<IgnoredAny>(answer).map_err(unreadable)?;
                Ok(spaced(&String::from_utf8_lossy(answer)) + "\n")
            }
        }
    }

    pub(super) const fn is_json(&self) -> bool {
        self.json || self.jsonl
    }

    /// For whom the rest is written.
    pub(super) fn look(&self) -> Look {
        Look {
            columns: self.columns.clone(),
            ..Look::here()
        }
    }
}

impl Look {
    /// As standard output is.
    pub(super) fn here() -> Self {
        let terminal = Term::stdout();
        let width = || {
            let size = terminal.size_checked();
            size.map_or(USUAL_WIDTH, |(_, columns)| usize::from(columns))
        };
        Self {
            width: terminal.is_term().then(width),
            now: times::now(),
            columns: Vec::new(),
        }
    }
}

/// A value as the JSON that a command prints with `--json`.
pub(super) fn json<T: Serialize>(value: &T) -> Result<String, Exit> {
    serde_json::to_string_pretty(value)
        .map(|text| text + "\n")
        .map_err(Exit::failed)
}

/// How a command ends that cannot read its answer.
pub(super) fn unreadable(why: impl Display) -> Exit {
    Exit::failed(format_args!(
        "the API's answer cannot be read ({why}): is it of another version?"
    ))
}

/// JSON a field a line, in its order: a [`Value`] in between would sort the fields.
fn spaced(json: &str) -> String {
    let (mut out, mut depth) = (String::new(), 0);
    let (mut in_text, mut is_escaped) = (false, false);
    let mut signs = json.chars().filter(|sign| *sign != '\n').peekable();
    while let Some(sign) = signs.next() {
        let closes = matches!(signs.peek(), Some('}' | ']'));
        match sign {
            _ if in_text => {
                in_text = sign != '"' || is_escaped;
                is_escaped = sign == '\\' && !is_escaped;
                out.push(sign);
            }
            '{' | '[' if !closes => {
                depth += 1;
                out.push(sign);
                end_line(&mut out, depth);
            }
            '{' | '[' => out.extend([Some(sign), signs.next()].into_iter().flatten()),
            '}' | ']' => {
                depth -= 1;
                end_line(&mut out, depth);
                out.push(sign);
            }
            ',' => {
                out.push(sign);
                end_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ if sign.is_whitespace() => {}
            _ => {
                in_text = sign == '"';
                out.push(sign);
            }
        }
    }
    out
}

fn end_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.push_str(&"  ".repeat(depth));
}

/// The fields of answers that are lists of the items that a person asks for.
const LISTS: [&str; 5] = ["items", "entries", "groups", "workers", "lines"];

pub(super) fn items_of(answer: &Value) -> Option<&Vec<Value>> {
    let mut lists = LISTS.iter().filter_map(|list| answer.get(list));
    lists.find_map(Value::as_array)
}

/// Whether an answer is a list without an item, or counts none.
pub(super) fn is_empty(answer: &[u8]) -> bool {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let counts_none = ["count", "left"].iter().any(|count| answer[count] == 0);
    counts_none || items_of(&answer).is_some_and(Vec::is_empty)
}

/// The items of a list, a line each; another value on one line. Where a list goes on is for people, and so not among the items.
fn lines<T: Serialize>(value: &T) -> Result<String, Exit> {
    let value = serde_json::to_value(value).map_err(Exit::failed)?;
    if let Some(cursor) = value.get("next_cursor").and_then(Value::as_str) {
        let _ = writeln!(std::io::stderr(), "more: --cursor {cursor}");
    }
    let items = items_of(&value);
    let items = items.map_or_else(|| std::slice::from_ref(&value), Vec::as_slice);
    Ok(items.iter().map(|item| format!("{item}\n")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_is_spaced_as_it_would_be_written() {
        let value =
            json!({"a": [1, {"b\\\"{": "x, y: [\\", "c": []}], "d": {}, "e": null, "f": "\u{e4}"});
        let pretty = serde_json::to_string_pretty(&value).expect("JSON");
        assert_eq!(spaced(&value.to_string()), pretty);
        assert_eq!(spaced(r#"{"z":1,"a":2}"#), "{\n  \"z\": 1,\n  \"a\": 2\n}");
    }

    #[test]
    fn an_answer_without_an_item_or_with_a_count_of_none_is_empty() {
        for empty in [r#"{"items":[]}"#, r#"{"count":0}"#, r#"{"left":0}"#] {
            assert!(is_empty(empty.as_bytes()), "{empty}");
        }
        for some in [
            r#"{"items":[1]}"#,
            r#"{"count":1,"tasks":[]}"#,
            r#"{"id":"x"}"#,
        ] {
            assert!(!is_empty(some.as_bytes()), "{some}");
        }
    }

    #[test]
    fn an_item_of_a_list_is_a_line() {
        let text = lines(&json!({"items": [{"a": 1}, {"a": 2}], "next_cursor": "x"}));
        assert_eq!(text.expect("lines"), "{\"a\":1}\n{\"a\":2}\n");
        let audit =
            lines(&json!({"task_id": "x", "entries": [{"seq": 1}, {"seq": 2}], "attempts": []}));
        assert_eq!(audit.expect("lines"), "{\"seq\":1}\n{\"seq\":2}\n");
        let workers = lines(&json!({"status": {}, "workers": [{"id": "a"}, {"id": "b"}]}));
        assert_eq!(workers.expect("lines"), "{\"id\":\"a\"}\n{\"id\":\"b\"}\n");
        let text = lines(&json!({"task_id": "x"}));
        assert_eq!(text.expect("a line"), "{\"task_id\":\"x\"}\n");
    }
}
