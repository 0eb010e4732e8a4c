//! What the generated clients call an operation: the words of its command, as `queues pause`. Must not know a type.

use super::operation::{Content, Operation};

/// Its group and its own word: those of its command, or what its address and its id say. None where a client needs more than a
/// call with JSON: files, streams, links of the client's own origin, and what is not asked about the product's data.
pub(super) fn words(path: &str, of: &Operation) -> Option<[String; 2]> {
    let has_json = |content: &Content| matches!(content, Content::Json(_) | Content::Nothing);
    let is_call = of.all_replies().all(|it| has_json(&it.content));
    let rest = path.strip_prefix("/api/")?;
    let is_file = rest.contains("/result/") || rest.starts_with("links/");
    let is_submission = rest.starts_with("tasks/{id}") && of.per_type.is_some();
    if !is_call || is_file || is_submission || rest == "openapi.json" {
        return None;
    }
    // `tasks dead-letters` is the list of a group of its own.
    if let Some(command) = of.command.filter(|it| it.words[1] != rest) {
        return Some(command.words.map(str::to_owned));
    }
    let mut named = rest.split('/').filter(|it| !it.starts_with('{'));
    let group = match named.next()? {
        "task-types" => "types",
        "bulk-operations" => "bulk",
        group => group,
    };
    let verb = of.id.split(char::is_uppercase).next()?;
    let word = match (named.next_back(), verb) {
        (Some("signals"), _) => "signal",
        (Some(last), _) => last,
        (None, "get") => "show",
        (None, "put") => "set",
        (None, verb) => verb,
    };
    Some([group.to_owned(), word.to_owned()])
}
