//! Words that hide who acts, and phrases that hide what a number bounds or who retries: a sentence
//! names the thing, the role or the field's term instead. Must not look at identifiers.

use super::{Found, Violation};
use crate::tree;

/// Words without a subject that a reader could look for.
const WITHOUT_SUBJECT: &[&str] = &["nobody", "whoever", "somebody", "for ever"];

/// Phrases that do not say what they count or bound, each with what a sentence says instead. Only
/// such as have no other sense: `so many` and `comes by` do.
const VAGUE: &[(&str, &str)] = &[
    ("so often", "`how often`, or the maximum number of tries"),
    ("at most so", "a maximum, and of what"),
    ("for so long", "`how long`, a timeout or a maximum age"),
    ("after so long", "`how long`, or the delay"),
    ("so long after", "`how long after`"),
    ("so long ago", "the age"),
    ("was faster", "a revision conflict"),
    ("were faster", "a revision conflict"),
    ("all the time", "`permanently` or `concurrently`"),
    ("gone on with", "`continued`"),
    ("made up for", "what finds, repeats or replaces it"),
    ("make up for", "what finds, repeats or replaces it"),
    ("makes up for", "what finds, repeats or replaces it"),
    ("in the hand of", "which caller sets or decides it"),
];

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
            found.extend(refused(line).map(|what| Violation::new(file, number + 1, what)));
        }
    }
    Ok(found)
}

/// What is wrong with the first refused word or phrase of a line that is no part of an identifier.
fn refused(line: &str) -> Option<String> {
    let line = line.to_lowercase();
    let is_free = |at: usize, word: &str| {
        let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        !before.ends_with(is_name) && !after.starts_with(is_name)
    };
    let stands = |word: &str| line.match_indices(word).any(|(at, _)| is_free(at, word));
    let subject = WITHOUT_SUBJECT.iter().find(|word| stands(word));
    let subject = subject.map(|word| format!("`{word}`: name the thing or the role that acts"));
    let vague = || VAGUE.iter().find(|(phrase, _)| stands(phrase));
    subject.or_else(|| vague().map(|(phrase, instead)| format!("`{phrase}`: say {instead}")))
}

#[cfg(test)]
mod tests {
    use super::{VAGUE, WITHOUT_SUBJECT, refused};

    fn refuses(line: &str, word: &str) -> bool {
        refused(line).is_some_and(|what| what.starts_with(&format!("`{word}`: ")))
    }

    #[test]
    fn a_word_is_found_and_an_identifier_is_not() {
        assert!(refuses("// Nobody waits.", "nobody"));
        assert!(refuses("it waits for ever", "for ever"));
        assert_eq!(refused("fn what_nobody_came_for() {"), None);
        assert_eq!(refused("for everyone, somebodys"), None);
    }

    #[test]
    fn each_phrase_is_found_within_a_sentence_and_in_no_name() {
        let vague = VAGUE.iter().map(|(phrase, _)| phrase);
        for phrase in WITHOUT_SUBJECT.iter().chain(vague) {
            assert!(refuses(&format!("/// It is {phrase}, then."), phrase));
            assert_eq!(
                refused(&format!("fn it_is_{}", phrase.replace(' ', "_"))),
                None
            );
        }
    }

    #[test]
    fn what_has_another_sense_is_not_refused() {
        for line in [
            "/// As long as it holds, for a long time, so many that none is left.",
            "/// No signal came by noon; it comes by itself.",
            "/// The faster one of two, and not so long.",
        ] {
            assert_eq!(refused(line), None, "{line}");
        }
    }
}
