//! What a simulation runs picks no branch by chance: `select!` there begins with `biased`. Must not look at what is built.

use super::{Found, Violation};
use crate::tree;

/// Folders of what a simulation runs.
const SIMULATED: [&str; 3] = [
    "crates/kernel/src/",
    "crates/steps/src/",
    "crates/reconciler/src/",
];

pub(super) fn check(files: &[String]) -> Found {
    let mut found = Vec::new();
    let is_simulated = |file: &&String| SIMULATED.iter().any(|folder| file.starts_with(folder));
    for file in files
        .iter()
        .filter(is_simulated)
        .filter(|file| file.ends_with(".rs"))
    {
        for line in unbiased(&tree::text(file)?) {
            let what = "`select!` takes a branch by chance: begin it with `biased;`, and name the shutdown first";
            found.push(Violation::new(file, line, what));
        }
    }
    Ok(found)
}

/// Lines of `select!` that do not begin with `biased`.
fn unbiased(text: &str) -> Vec<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let begins = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.contains("select! {"));
    begins
        .filter(|(at, line)| {
            let next = lines.get(at + 1).map_or("", |next| next.trim());
            !line.contains("biased;") && next != "biased;"
        })
        .map(|(at, _)| at + 1)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::unbiased;

    #[test]
    fn a_select_without_an_order_is_found() {
        let text = "tokio::select! {\n    biased;\n}\nselect! {\n    () = one => {}\n}\n";
        assert_eq!(unbiased(text), [4]);
    }
}
