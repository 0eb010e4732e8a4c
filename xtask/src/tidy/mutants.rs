//! Each patch of `tests/mutants` fits the code as it stands. Must not build any.

use super::{Found, Violation};
use crate::mutants::patch;
use crate::tree;

pub(super) fn check() -> Found {
    let mut found = Vec::new();
    for mutant in patch::all()? {
        for hunk in &mutant.hunks {
            let applied = tree::text(&hunk.file).and_then(|text| hunk.apply(&text));
            if let Err(what) = applied {
                found.push(Violation::new(&mutant.path(), hunk.line, what));
            }
        }
    }
    Ok(found)
}
