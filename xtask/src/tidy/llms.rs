//! Pages that are made of others are those of today's pages: the list for programs, and the index of names.

use super::{Found, Violation};
use crate::{index, llms, tree};

pub(super) fn check() -> Found {
    let mut found = Vec::new();
    found.extend(differs(llms::LIST, &llms::list()?, "llms"));
    found.extend(differs(index::PAGE, &index::page()?, "index"));
    Ok(found)
}

/// `command`: of xtask, which writes the file.
fn differs(file: &str, made: &str, command: &str) -> Option<Violation> {
    let kept = tree::text(file).unwrap_or_default();
    let same = made
        .lines()
        .zip(kept.lines())
        .take_while(|(made, kept)| made == kept);
    let at = same.count() + 1;
    let text = format!("it is not what today's pages make: run `cargo xtask {command}`");
    (made != kept).then(|| Violation::new(file, at, text))
}
