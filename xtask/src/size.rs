//! How large the repository is, counted the same way each time: for the notes that say what a change added and took away. Judges
//! nothing: `xtask tidy` compares with `budget.toml`.

use crate::tree;
use std::collections::BTreeMap;

/// What is counted of sources.
#[derive(Debug, Default, PartialEq, Eq)]
struct Size {
    /// Lines that are neither blank nor a comment, outside of tests.
    code: usize,
    /// The same in tests.
    tests: usize,
    /// Items that other crates see.
    public: usize,
    /// Parameters of functions that are tuples.
    tuples: usize,
}

impl Size {
    fn add(&mut self, other: &Self) {
        self.code += other.code;
        self.tests += other.tests;
        self.public += other.public;
        self.tuples += other.tuples;
    }
}

pub(crate) fn run() -> Result<(), String> {
    let files = tree::files()?;
    let crates = by_crate(&files)?;
    let mut words = 0;
    for file in files {
        if file.ends_with(".md") && file != "CHANGELOG.md" {
            words += tree::text(&file)?.split_whitespace().count();
        }
    }
    println!(
        "{:<28} {:>8} {:>8} {:>8} {:>8}",
        "", "code", "tests", "public", "tuples"
    );
    let mut all = Size::default();
    for (place, size) in &crates {
        print(place, size);
        all.add(size);
    }
    print("all", &all);
    println!("{words} words of documentation, without the changelog");
    Ok(())
}

fn by_crate(files: &[String]) -> Result<BTreeMap<String, Size>, String> {
    let mut crates: BTreeMap<String, Size> = BTreeMap::new();
    for file in files.iter().filter(|file| file.ends_with(".rs")) {
        let size = size_of(&tree::text(file)?, is_test(file));
        crates.entry(place(file)).or_default().add(&size);
    }
    Ok(crates)
}

/// Lines of code of each crate, by its folder.
pub(crate) fn code_by_crate(files: &[String]) -> Result<BTreeMap<String, usize>, String> {
    let crates = by_crate(files)?.into_iter();
    Ok(crates.map(|(name, size)| (name, size.code)).collect())
}

fn print(place: &str, size: &Size) {
    let Size {
        code,
        tests,
        public,
        tuples,
    } = size;
    println!("{place:<28} {code:>8} {tests:>8} {public:>8} {tuples:>8}");
}

/// The crate of a file.
fn place(file: &str) -> String {
    let parts: Vec<&str> = file.split('/').collect();
    match parts.as_slice() {
        ["crates" | "examples", name, ..] => format!("{}/{name}", parts[0]),
        [first, _, ..] => (*first).to_owned(),
        _ => "/".to_owned(),
    }
}

fn is_test(file: &str) -> bool {
    let is_test = |part| matches!(part, "tests" | "tests.rs" | "fuzz");
    file.split('/').any(is_test)
}

fn size_of(text: &str, is_test: bool) -> Size {
    let mut size = Size::default();
    let mut is_test = is_test;
    for line in text.lines().map(str::trim) {
        is_test |= line == "#[cfg(test)]" && text.contains("\nmod tests {");
        if line.is_empty() || line.starts_with("//") {
            continue;
        }
        if is_test {
            size.tests += 1;
            continue;
        }
        size.code += 1;
        let item = line.strip_prefix("pub ").and_then(|rest| {
            rest.split(['(', '<', ' '])
                .find(|word| !matches!(*word, "const" | "async" | "unsafe"))
        });
        let kinds = ["fn", "struct", "enum", "trait", "type", "mod", "static"];
        size.public += usize::from(item.is_some_and(|item| kinds.contains(&item)));
        // Not those of closures and bindings, nor the unit of an operation without target or input.
        let is_signature = line.starts_with('(') || line.contains("fn ");
        if is_signature {
            size.tuples += line.matches("): (").count() - line.matches("(): (").count();
        }
    }
    size
}

#[cfg(test)]
mod tests {
    use super::{Size, is_test, place, size_of};

    #[test]
    fn lines_are_counted_without_comments_and_apart_from_tests() {
        let text = "//! Owns a.\n\nuse b;\npub async fn c((d, e): (u8, u8), (): ()) {\nlet (g, h): (u8, u8);\n}\npub(crate) fn f() {}\n\n#[cfg(test)]\nmod tests {\n    // why\n}\n";
        let expected = Size {
            code: 5,
            tests: 3,
            public: 1,
            tuples: 1,
        };
        assert_eq!(size_of(text, false), expected);
        assert_eq!(size_of("a\n", true).tests, 1);
    }

    #[test]
    fn a_file_is_of_its_crate() {
        assert_eq!(place("crates/kernel/src/a.rs"), "crates/kernel");
        assert_eq!(place("bench/src/a.rs"), "bench");
        assert!(is_test("crates/kernel/tests/kernel.rs"));
        assert!(!is_test("crates/kernel/src/a.rs"));
    }
}
