//! One file of `tests/mutants`: what it breaks, the test that notices, and the lines that it changes.

use crate::executables::Executable;
use crate::tree;

const FOLDER: &str = "tests/mutants";

/// A test binary and a package that it is of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Binary {
    pub(super) package: String,
    /// `lib`, or the name of an integration test.
    pub(super) target: String,
}

impl Binary {
    pub(super) fn of(executable: &Executable) -> Self {
        let test = executable.test.as_deref();
        Self {
            package: executable.package.clone(),
            target: test.unwrap_or("lib").to_owned(),
        }
    }
}

/// A changed decision.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mutant {
    /// Its file, without folder and ending.
    pub(super) name: String,
    /// What it breaks.
    pub(super) breaks: String,
    pub(super) binary: Binary,
    /// The test that notices.
    pub(super) test: String,
    pub(crate) hunks: Vec<Hunk>,
}

/// Lines that a patch changes, with those around them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hunk {
    /// Of the patch, counted from one.
    pub(crate) line: usize,
    pub(crate) file: String,
    before: String,
    after: String,
}

/// All mutants, by name.
pub(crate) fn all() -> Result<Vec<Mutant>, String> {
    let mut mutants = Vec::new();
    for file in tree::files()? {
        let name = file.strip_prefix(FOLDER).map(|name| &name[1..]);
        if let Some(name) = name.and_then(|name| name.strip_suffix(".patch")) {
            mutants.push(Mutant::parse(name, &tree::text(&file)?)?);
        }
    }
    Ok(mutants)
}

impl Mutant {
    /// Reads a patch whose first line is `WHAT IT BREAKS; PACKAGE TARGET TEST`.
    fn parse(name: &str, text: &str) -> Result<Self, String> {
        let first = text.lines().next().unwrap_or_default();
        let invalid = || {
            format!(
                "{FOLDER}/{name}.patch: its first line is `{first}`; expected `what it breaks; package target test`, with \
                 `lib` or the name of an integration test as target"
            )
        };
        let (breaks, test) = first.rsplit_once(';').ok_or_else(invalid)?;
        let words: Vec<&str> = test.split_whitespace().collect();
        let [package, target, test] = words[..] else {
            return Err(invalid());
        };
        Ok(Self {
            name: name.to_owned(),
            breaks: breaks.to_owned(),
            binary: Binary {
                package: package.to_owned(),
                target: target.to_owned(),
            },
            test: test.to_owned(),
            hunks: hunks(text),
        })
    }

    /// Its patch, from the repository's top.
    pub(crate) fn path(&self) -> String {
        format!("{FOLDER}/{}.patch", self.name)
    }
}

impl Hunk {
    /// A file with the lines of the patch in place of its own, which stand there once.
    pub(crate) fn apply(&self, text: &str) -> Result<String, String> {
        let file = &self.file;
        match text.matches(&self.before).count() {
            1 => Ok(text.replacen(&self.before, &self.after, 1)),
            0 => Err(format!(
                "`{file}` has no such lines any more: carry the patch to where they are now"
            )),
            many => Err(format!(
                "`{file}` has these lines {many} times: add lines around them"
            )),
        }
    }
}

fn hunks(patch: &str) -> Vec<Hunk> {
    let (mut hunks, mut file) = (Vec::<Hunk>::new(), String::new());
    for (number, line) in patch.lines().enumerate() {
        if let Some(path) = line.strip_prefix("--- a/") {
            path.clone_into(&mut file);
        } else if line.starts_with("@@ ") {
            hunks.push(Hunk {
                line: number + 1,
                file: file.clone(),
                before: String::new(),
                after: String::new(),
            });
        } else if let Some(hunk) = hunks.last_mut()
            && !line.starts_with("+++ b/")
        {
            let (mark, text) = line.split_at_checked(1).unwrap_or_default();
            for (side, marks) in [(&mut hunk.before, " -"), (&mut hunk.after, " +")] {
                if !mark.is_empty() && marks.contains(mark) {
                    side.push_str(text);
                    side.push('\n');
                }
            }
        }
    }
    hunks
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "Two claims; of one task; counterstep-kernel lib saga::one\n--- a/x.rs\n+++ b/x.rs\n\
                         @@ -1,2 +1,2 @@ fn one() {\n     let a = 1;\n-    a\n+    2\n";

    #[test]
    fn a_mutant_says_what_it_breaks_what_notices_and_what_it_changes() {
        let expected = Mutant {
            name: "judge-01".to_owned(),
            breaks: "Two claims; of one task".to_owned(),
            binary: Binary {
                package: "counterstep-kernel".to_owned(),
                target: "lib".to_owned(),
            },
            test: "saga::one".to_owned(),
            hunks: vec![Hunk {
                line: 4,
                file: "x.rs".to_owned(),
                before: "    let a = 1;\n    a\n".to_owned(),
                after: "    let a = 1;\n    2\n".to_owned(),
            }],
        };
        assert_eq!(Mutant::parse("judge-01", PATCH), Ok(expected));
        assert!(Mutant::parse("judge-01", "--- a/x.rs\n").is_err());
        assert!(Mutant::parse("judge-01", "It breaks; counterstep-kernel lib\n").is_err());
    }

    #[test]
    fn a_hunk_is_applied_where_its_lines_stand_once() {
        let hunk = &hunks(PATCH)[0];
        let once = "{\n    let a = 1;\n    a\n}\n";
        assert_eq!(
            hunk.apply(once).as_deref(),
            Ok("{\n    let a = 1;\n    2\n}\n")
        );
        assert!(hunk.apply("").is_err());
        assert!(hunk.apply(&once.repeat(2)).is_err());
    }
}
