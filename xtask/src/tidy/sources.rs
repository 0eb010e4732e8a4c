//! How a source file opens, and how long it may become.

use super::{Found, Violation};
use crate::tree;

/// Beyond this a file holds two rooms.
const LINES: usize = 500;

/// Files that may be longer, each with its reason.
const LONGER: &[(&str, &str)] = &[];

pub(super) fn check(files: &[String]) -> Found {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.ends_with(".rs")) {
        let text = tree::text(file)?;
        found.extend(opening(file, &text));
        found.extend(length(file, text.lines().count()));
    }
    for (file, _) in LONGER
        .iter()
        .filter(|(file, _)| !files.iter().any(|known| known == file))
    {
        let what = format!("`{file}` is not there any more: take it off the list of longer files");
        found.push(Violation::new("xtask/src/tidy/sources.rs", 1, what));
    }
    Ok(found)
}

fn opening(file: &str, text: &str) -> Option<Violation> {
    let what = "open the file with `//!`: what it owns and what it must not do";
    (!text.starts_with("//! ")).then(|| Violation::new(file, 1, what))
}

fn length(file: &str, lines: usize) -> Option<Violation> {
    let is_test = file
        .split('/')
        .any(|part| matches!(part, "tests" | "tests.rs"));
    let is_listed = LONGER.iter().any(|(known, _)| *known == file);
    (lines > LINES && !is_test && !is_listed).then(|| {
        let what = format!(
            "{lines} lines, more than {LINES}: split it, or list it with a reason in xtask/src/tidy/sources.rs"
        );
        Violation::new(file, LINES + 1, what)
    })
}

#[cfg(test)]
mod tests {
    use super::{length, opening};

    #[test]
    fn a_file_says_first_what_it_owns() {
        assert_eq!(opening("a.rs", "//! Owns a.\n\nuse b;\n"), None);
        assert!(opening("a.rs", "use b;\n//! Owns a.\n").is_some());
        assert!(opening("a.rs", "").is_some());
    }

    #[test]
    fn a_long_file_is_found_outside_tests_only() {
        assert_eq!(length("crates/kernel/src/a.rs", 500), None);
        assert!(length("crates/kernel/src/a.rs", 501).is_some());
        assert_eq!(length("crates/kernel/tests/a.rs", 501), None);
        assert_eq!(length("tests/src/a.rs", 501), None);
    }
}
