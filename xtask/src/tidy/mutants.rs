//! Each patch of `tests/mutants` fits the code as it stands: one that does not would be found by the
//! next run over all of them, which takes hours. Must not apply any.

use super::{Found, Violation};
use crate::tree;

const MUTANTS: &str = "tests/mutants/";

pub(super) fn check(files: &[String]) -> Found {
    let mut found = Vec::new();
    let patches = files
        .iter()
        .filter(|file| file.starts_with(MUTANTS) && file.ends_with(".patch"));
    for patch in patches {
        for hunk in hunks(&tree::text(patch)?) {
            let fits = tree::text(&hunk.file).is_ok_and(|text| text.contains(&hunk.before));
            if !fits {
                let what = format!(
                    "`{}` has no such lines any more: carry the patch to where they are now",
                    hunk.file
                );
                found.push(Violation::new(patch, hunk.line, what));
            }
        }
    }
    Ok(found)
}

/// Lines that a patch changes, and those around them.
#[derive(Debug, PartialEq, Eq)]
struct Hunk {
    /// Of the patch, counted from one.
    line: usize,
    file: String,
    /// As they are before.
    before: String,
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
            });
        } else if let (Some(hunk), Some(text)) = (hunks.last_mut(), line.strip_prefix([' ', '-']))
            && !line.starts_with("---")
        {
            hunk.before.push_str(text);
            hunk.before.push('\n');
        }
    }
    hunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hunk_is_its_lines_before_the_change() {
        let patch = "What it breaks; a lib t\n--- a/one.rs\n+++ b/one.rs\n@@ -1,2 +1,2 @@ fn one() {\n     let a = 1;\n-    a\n+    2\n";
        let hunk = Hunk {
            line: 4,
            file: "one.rs".to_owned(),
            before: "    let a = 1;\n    a\n".to_owned(),
        };
        assert_eq!(hunks(patch), [hunk]);
    }
}
