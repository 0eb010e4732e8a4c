//! Words that hide who acts: a sentence names the thing or the role instead. Must not look at
//! identifiers.

use super::{Found, Violation};
use crate::tree;

/// Words without a subject that a reader could look for.
const REFUSED: &[&str] = &["nobody", "whoever", "somebody", "for ever"];

/// Text that people read, by the end of the file's name.
const READ: &[&str] = &[
    ".rs",
    ".md",
    ".js",
    ".ts",
    ".py",
    ".sql",
    ".toml",
    ".yaml",
    ".yml",
    ".conf",
    "Dockerfile",
];

/// Files in which one stands for something else.
const QUOTED: &[&str] = &[
    "xtask/src/tidy/words.rs",
    // The account of that name.
    "crates/testkit/src/servers/process.rs",
];

pub(super) fn check(files: &[String]) -> Found {
    let mut found = Vec::new();
    let is_read = |file: &&String| {
        READ.iter().any(|end| file.ends_with(end)) && !QUOTED.contains(&file.as_str())
    };
    for file in files.iter().filter(is_read) {
        for (number, line) in tree::text(file)?.lines().enumerate() {
            found.extend(refused(line).map(|word| {
                let what = format!("`{word}`: name the thing or the role that acts");
                Violation::new(file, number + 1, what)
            }));
        }
    }
    Ok(found)
}

/// The first refused word of a line that is no part of an identifier.
fn refused(line: &str) -> Option<&'static str> {
    let line = line.to_lowercase();
    let is_free = |at: usize, word: &str| {
        let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        !before.ends_with(is_name) && !after.starts_with(is_name)
    };
    let stands = |word: &&&str| line.match_indices(**word).any(|(at, _)| is_free(at, word));
    REFUSED.iter().find(stands).copied()
}

#[cfg(test)]
mod tests {
    use super::refused;

    #[test]
    fn a_word_is_found_and_an_identifier_is_not() {
        assert_eq!(refused("// Nobody waits."), Some("nobody"));
        assert_eq!(refused("it waits for ever"), Some("for ever"));
        assert_eq!(refused("fn what_nobody_came_for() {"), None);
        assert_eq!(refused("for everyone, somebodys"), None);
    }
}
