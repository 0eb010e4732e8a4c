//! What the macro accepts and writes, what it refuses and how it says so, and that every code is shown and explained.

#[path = "../src/code.rs"]
mod code;
mod table;

use std::path::PathBuf;

fn here(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn declarations_compile_or_fail_as_their_cases_say() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/*.rs");
}
