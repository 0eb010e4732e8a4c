//! What the macro accepts and writes, what it refuses and how it says so, and that every code is
//! shown and explained.

#[allow(unreachable_pub)]
#[path = "ui/pass/calls.rs"]
mod calls;
#[path = "../src/code.rs"]
mod code;
#[allow(unreachable_pub)]
#[path = "ui/pass/everything.rs"]
mod everything;
#[allow(unreachable_pub)]
#[path = "ui/pass/in_a_function.rs"]
mod in_a_function;
#[allow(unreachable_pub)]
#[path = "ui/pass/in_macro_rules.rs"]
mod in_macro_rules;
#[allow(unreachable_pub)]
#[path = "ui/pass/labels.rs"]
mod labels;
mod table;
#[allow(dead_code)]
#[path = "../src/text.rs"]
mod text;
mod texts;
#[allow(unreachable_pub)]
#[path = "ui/pass/waits.rs"]
mod waits;
#[allow(unreachable_pub)]
#[path = "ui/pass/zip.rs"]
mod zip;

use std::fs;
use std::path::PathBuf;

fn here(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The cases of a code, by the start of their names.
fn cases_of(code: code::Code) -> Vec<PathBuf> {
    let start = format!("{}_", code.to_string().to_lowercase());
    let all = fs::read_dir(here("ui"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let is_case = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with(&start) && name.ends_with(".rs")
    };
    all.filter(is_case).collect()
}

/// Parts of this test: a build of their own would build all that they depend on once more.
#[test]
fn declarations_compile_and_run() {
    calls::main();
    everything::main();
    in_a_function::main();
    in_macro_rules::main();
    labels::main();
    waits::main();
    zip::main();
    let cases = fs::read_dir(here("ui/pass")).unwrap();
    assert_eq!(cases.count(), 7, "a case is not called here");
}

/// None of them compiles, so that all are checked by one call of cargo.
#[test]
fn declarations_fail_as_their_cases_say() {
    trybuild::TestCases::new().compile_fail("ui/*.rs");
}

#[test]
fn every_code_has_a_case_that_shows_it() {
    for (code, meaning) in code::ALL {
        let cases = cases_of(*code);
        assert!(
            !cases.is_empty(),
            "no case in crates/macros/tests/ui for {code}: {meaning}"
        );
        for case in cases {
            let shown = fs::read_to_string(case.with_extension("stderr")).unwrap();
            assert!(
                shown.contains(&format!("{code}: ")),
                "{} does not show {code}",
                case.display()
            );
        }
    }
}

#[test]
fn every_code_is_explained() {
    let page = fs::read_to_string(here("../../../docs/diagnostics.md")).unwrap();
    for (code, meaning) in code::ALL {
        let heading = format!("## {code}: {meaning}\n");
        let (_, rest) = page
            .split_once(&heading)
            .unwrap_or_else(|| panic!("docs/diagnostics.md has no `{heading}`"));
        let section = rest.split("\n## ").next().unwrap();
        assert!(
            section.matches("```rust").count() == 2,
            "{code} needs a wrong and a right snippet"
        );
    }
    assert_eq!(
        page.matches("\n## CS").count(),
        code::ALL.len(),
        "docs/diagnostics.md explains codes that are gone"
    );
}

#[test]
fn codes_are_numbered_without_gaps() {
    let numbers: Vec<_> = code::ALL.iter().map(|(code, _)| *code as usize).collect();
    assert_eq!(numbers, (1..=code::ALL.len()).collect::<Vec<_>>());
}
