//! What is wrong with a settings file, in words that repeat none of its lines: one of them may hold
//! a password.

use super::kinds::ADDRESS;
use crate::exit::Exit;
use std::path::Path;

/// Where the mistake is and what it is. The parser's own text would show the whole line.
pub(super) fn unusable(path: &Path, text: &str, error: &toml::de::Error) -> Exit {
    let place = error
        .span()
        .and_then(|span| text.get(..span.start))
        .map_or_else(String::new, |before| {
            let line = before.rsplit('\n').next().unwrap_or_default();
            let (number, column) = (before.matches('\n').count() + 1, line.chars().count() + 1);
            let key = key_of(line).map_or_else(String::new, |key| format!(", key `{key}`"));
            format!(", line {number}, column {column}{key}")
        });
    Exit::config(format_args!(
        "the settings file `{}` is not usable{place}: {}",
        path.display(),
        // What the standard library says of an address does not say what is expected.
        shown(error.message()).replace(
            "invalid socket address syntax",
            &format!("invalid address; {ADDRESS}")
        )
    ))
}

/// The key whose value begins behind this part of a line; `None` where it is no plain word, and so
/// perhaps no key at all.
fn key_of(line: &str) -> Option<&str> {
    let key = line.split_once('=')?.0.trim();
    let is_plain = !key.is_empty()
        && key
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    is_plain.then_some(key)
}

/// A message without what it repeats of a value: strings of another type than expected, and
/// anything with a URL in it.
fn shown(message: &str) -> String {
    let mut shown = String::new();
    let mut rest = message;
    while let Some((before, after)) = rest.split_once("string \"") {
        let mut escaped = false;
        let end = after.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        shown.push_str(before);
        shown.push_str("a string");
        rest = end.map_or("", |end| &after[end + 1..]);
    }
    shown.push_str(rest);
    let words = shown.split(' ').map(|word| {
        if word.contains("://") || word.contains('@') {
            "…"
        } else {
            word
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::table::SettingValues;
    use super::*;

    #[test]
    fn a_mistake_in_the_file_is_named_by_its_place_and_repeats_no_value() {
        for (wrong, place) in [
            (
                "lease = \"3s\"\ndatabase = \"postgres://me:hunter2@db/x\nlog = \"info\"",
                "line 2",
            ),
            ("database = postgres://me:hunter2@db/x", "line 1"),
            ("database \"postgres://me:hunter2@db/x\"", "line 1"),
            (
                "database_url = \"postgres://me:hunter2@db/x\"",
                "unknown field `database_url`",
            ),
            (
                "\nconcurrency = \"redis://:hunter2@db\"",
                "line 2, column 15",
            ),
            ("log_format = \"redis://:hunter2@db\"", "unknown variant"),
            (
                "lease = 5\ndatabase = [\"postgres://me:hunter2@db/x\"]",
                "line 2",
            ),
            (
                "[orphans.Zip]\nevery = \"redis://:hunter2@db\"",
                "no duration above 0",
            ),
            ("concurrency = \"a \\\" hunter2\"", "a string"),
            ("lease = 3", "key `lease`"),
            ("x=hunter2\n", "line 1"),
        ] {
            let error = toml::from_str::<SettingValues>(wrong).unwrap_err();
            let shown = unusable(Path::new("x.toml"), wrong, &error).message;
            assert!(
                !shown.contains("hunter2") && shown.contains(place),
                "{wrong}: {shown}"
            );
            assert!(!shown.contains('\n'), "{shown}");
        }
    }
}
