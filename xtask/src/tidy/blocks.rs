//! Code in the documents is code that something compiles or runs: the rule for each fenced block.

use super::{Found, Violation, markdown};
use crate::tree;

/// What compiles the Rust blocks of the pages that it names.
const COMPILED: &str = "crates/counterstep/src/documents.rs";

/// Pages of which no block is compiled as it stands, each with the reason.
const NOT_COMPILED: &[(&str, &str)] = &[(
    "docs/diagnostics.md",
    "pieces of declarations, half of them wrong: each code has whole ones in crates/macros/tests/ui",
)];

pub(super) fn check(files: &[String]) -> Found {
    let compiled = tree::text(COMPILED)?;
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.ends_with(".md")) {
        let text = tree::text(file)?;
        for block in markdown::blocks(&text) {
            let what = match block.language() {
                "" => Some("name the language: rustdoc takes a fence without one for Rust".into()),
                "rust" => rust(file, &block, &compiled),
                "console" | "sh" | "shell" | "bash" => console(&block),
                _ => None,
            };
            found.extend(what.map(|what| Violation::new(file, block.line, what)));
        }
    }
    Ok(found)
}

fn rust(file: &str, block: &markdown::Block<'_>, compiled: &str) -> Option<String> {
    if NOT_COMPILED.iter().any(|(page, _)| *page == file) {
        return None;
    }
    if block.text.lines().any(|line| line.starts_with("# ")) {
        return Some("GitHub shows hidden lines (`# `): write them without the mark".into());
    }
    if !block.fence.contains("ignore") {
        return (!compiled.contains(&format!("/{file}\"")))
            .then(|| format!("no test compiles this block: name the page in {COMPILED}"));
    }
    let Some(source) = block.note("from ") else {
        return Some("say which code has this block: `rust,ignore (from PATH)`".into());
    };
    match tree::text(source) {
        Err(error) => Some(error),
        Ok(code) => missing(&block.text, &code)
            .map(|piece| format!("`{source}` has no `{piece}`: quote what it has")),
    }
}

fn console(block: &markdown::Block<'_>) -> Option<String> {
    let is_marked = block.fence == "console (run)"
        || block.language() == "console"
            && block.note("not run: ").is_some_and(|why| !why.is_empty());
    (!is_marked).then(|| {
        "mark it `console (run)`, and tests/tests/system/documents.rs runs it, or `console (not run: WHY)`".into()
    })
}

/// The first piece of a quotation that the code does not have, behind the pieces before it. Two dots
/// leave something out; comments, spaces and line breaks do not count.
fn missing(quoted: &str, code: &str) -> Option<String> {
    let (quoted, code) = (bare(quoted), bare(code));
    let mut rest = code.as_str();
    for piece in quoted.split("..") {
        match rest.split_once(piece) {
            Some((_, behind)) => rest = behind,
            None => return Some(piece.to_owned()),
        }
    }
    None
}

/// Without comments, spaces, and the commas that rustfmt adds at the ends of lists.
fn bare(code: &str) -> String {
    let lines = code.lines().map(|line| {
        let line = line.trim();
        let end = line.find(" //").unwrap_or(line.len());
        if line.starts_with("//") {
            ""
        } else {
            &line[..end]
        }
    });
    let text: String = lines
        .flat_map(|line| line.chars().filter(|c| !c.is_whitespace()))
        .collect();
    [")", "]", "}"].iter().fold(text, |text, close| {
        text.replace(&format!(",{close}"), close)
    })
}

#[cfg(test)]
mod tests {
    use super::{markdown, missing, rust};

    const CODE: &str = "/// Adds.\nfn add(\n    one: u8,\n    other: u8,\n) -> u8 {\n    // Never large.\n    one + other\n}\nfn b() {}\n";

    #[test]
    fn a_quotation_is_found_however_it_is_formatted() {
        assert_eq!(
            missing(
                "fn add(one: u8, other: u8) -> u8 { one + other }  // a sum",
                CODE
            ),
            None
        );
        assert_eq!(
            missing("fn add(one: u8, other: u8) -> u8 { .. }\nfn b() {}", CODE),
            None
        );
    }

    #[test]
    fn a_hidden_line_is_found() {
        let page = "```rust\n# use a::B;\n#[test]\nfn b() {}\n```\n";
        let block = &markdown::blocks(page)[0];
        let found = rust("docs/a.md", block, "\"/docs/a.md\"").unwrap_or_default();
        assert!(found.contains("hidden"), "{found}");
    }

    #[test]
    fn what_the_code_does_not_have_or_has_elsewhere_is_missing() {
        assert_eq!(missing("one - other", CODE).as_deref(), Some("one-other"));
        assert_eq!(
            missing("fn b() {}\n..\none + other", CODE).as_deref(),
            Some("one+other")
        );
    }
}
