//! The map of the code names nothing that is not there.

use super::{Found, Violation, markdown};
use crate::tree;

const MAP: &str = "ARCHITECTURE.md";

/// What stands at the repository's top. A word that starts with one of these is a path.
const ROOMS: &[&str] = &[
    ".cargo/",
    ".ci/",
    "clients/",
    "crates/",
    "deploy/",
    "docs/",
    "examples/",
    "fuzz/",
    "tests/",
    "xtask/",
];

/// So is a word that ends like a file and has only the letters of a path.
const ENDINGS: &[&str] = &[".md", ".rs", ".sh", ".sql", ".toml", ".yaml", ".yml"];

pub(super) fn check() -> Found {
    if !tree::top().join(MAP).is_file() {
        return Ok(vec![Violation::new(
            MAP,
            1,
            "there is no map of the code: write it, with each crate and what it must not know",
        )]);
    }
    let text = tree::text(MAP)?;
    let in_lines = markdown::code(&text)
        .into_iter()
        .filter_map(|(line, word)| path(word).map(|path| (line, path)));
    // In a drawing of the tree only whole paths are sure to be meant as such.
    let in_fences = markdown::fenced_words(&text)
        .into_iter()
        .filter(|(_, word)| starts_with_room(word));
    let in_fences = in_fences.filter_map(|(line, word)| path(word).map(|path| (line, path)));
    let mut found: Vec<Violation> = in_lines
        .chain(in_fences)
        .filter(|(_, path)| !tree::top().join(path).exists())
        .map(|(line, path)| {
            let what =
                format!("`{path}` is not there: name what is, as a path from the repository's top");
            Violation::new(MAP, line, what)
        })
        .collect();
    found.sort_by_key(|violation| violation.line);
    Ok(found)
}

fn starts_with_room(word: &str) -> bool {
    ROOMS.iter().any(|room| word.starts_with(room))
}

/// The word as a path, if it looks like one.
fn path(word: &str) -> Option<&str> {
    // `file.rs:12` and `file.rs,` name a file as well.
    let word = word
        .split(':')
        .next()
        .unwrap_or_default()
        .trim_end_matches([',', ';', '.']);
    let is_plain = word
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    let is_file = ENDINGS
        .iter()
        .any(|ending| word.len() > ending.len() && word.ends_with(ending));
    (is_plain && !word.starts_with('/') && (starts_with_room(word) || is_file)).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::path;

    #[test]
    fn what_looks_like_a_path_is_taken_for_one() {
        for word in [
            "crates/kernel",
            "crates/kernel/src/",
            "src/lib.rs",
            "README.md",
            ".ci/run",
            "xtask/src/main.rs:12",
        ] {
            assert!(path(word).is_some(), "{word}");
        }
    }

    #[test]
    fn what_only_contains_a_slash_is_not() {
        for word in [
            "application/json",
            "t/{tenant}/{task}",
            "/readyz",
            "tokio/fs",
            "kernel",
            ".rs",
            "crates/*/src",
        ] {
            assert_eq!(path(word), None, "{word}");
        }
    }
}
