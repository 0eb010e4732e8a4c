//! What a command prints, to standard output: an answer as JSON, or as people see it.

pub(super) use counterstep_node::exit::print;

use super::table::Look;
use super::times;
use console::Term;
use counterstep_contracts::operation::shown::View;
use counterstep_node::Exit;
use serde::Serialize;
use serde_json::Value;

/// Columns of a terminal that does not say how wide it is.
const USUAL_WIDTH: usize = 80;

/// How an answer is printed.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct OutputArgs {
    /// Print the API's JSON instead of a table
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// Print JSON, of a list an item a line
    #[arg(long, global = true, conflicts_with = "json")]
    pub(super) jsonl: bool,
    /// Print these columns of a table, by their heads, with - for a blank, as task,last-change
    #[arg(long, global = true, value_name = "HEADS", value_delimiter = ',', conflicts_with_all = ["json", "jsonl"])]
    columns: Vec<String>,
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

/// The items of a list, a line each; another value on one line.
fn lines<T: Serialize>(value: &T) -> Result<String, Exit> {
    let value = serde_json::to_value(value).map_err(Exit::failed)?;
    let items = value.get("items").and_then(Value::as_array);
    let items = items.map_or_else(|| std::slice::from_ref(&value), Vec::as_slice);
    Ok(items.iter().map(|item| format!("{item}\n")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_item_of_a_list_is_a_line() {
        let text = lines(&json!({"items": [{"a": 1}, {"a": 2}], "next_cursor": "x"}));
        assert_eq!(text.expect("lines"), "{\"a\":1}\n{\"a\":2}\n");
        let text = lines(&json!({"task_id": "x"}));
        assert_eq!(text.expect("a line"), "{\"task_id\":\"x\"}\n");
    }
}
