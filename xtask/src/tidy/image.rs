//! What the image's Dockerfile compiles is in its build context: no file that a source includes is matched by the ignore file.

use super::{Found, Violation};
use crate::tree;

const IGNORES: &str = "deploy/Dockerfile.dockerignore";

/// What includes the text or the bytes of another file while the program is compiled.
const INCLUDES: [&str; 2] = ["include_str!(", "include_bytes!("];

pub(super) fn check(files: &[String]) -> Found {
    let ignores = tree::text(IGNORES)?;
    let mut found = Vec::new();
    for file in files.iter().filter(|file| is_compiled(file)) {
        for (line, path) in included(file, &tree::text(file)?) {
            let target = tree::target_of_links(&path);
            if let Some(pattern) = ignored(&ignores, &path).or_else(|| ignored(&ignores, &target)) {
                let what = format!(
                    "the image cannot be built: `{path}` is included here, and `{pattern}` in {IGNORES} leaves it out"
                );
                found.push(Violation::new(file, line, what));
            }
        }
    }
    Ok(found)
}

/// Whether a file is a source of a crate, and not of its tests. The documents' blocks are compiled by rustdoc alone.
pub(super) fn is_compiled(file: &str) -> bool {
    file.starts_with("crates/")
        && file.ends_with(".rs")
        && file.contains("/src/")
        && !file.ends_with("/tests.rs")
        && file != "crates/counterstep/src/documents.rs"
}

/// The files that a source includes, from the top of the repository. Of a path that a macro puts together, the folder.
pub(super) fn included(file: &str, text: &str) -> Vec<(usize, String)> {
    let compiled = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut found = Vec::new();
    for (line, code) in (1..).zip(compiled.lines()) {
        for include in INCLUDES {
            for rest in code.split(include).skip(1) {
                let literal = rest.split('"').nth(1).unwrap_or_default();
                found.push((line, resolved(file, literal)));
            }
        }
    }
    found
}

fn resolved(file: &str, path: &str) -> String {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            other => parts.push(other),
        }
    }
    parts.join("/")
}

/// The pattern that leaves a path out: the last one that fits decides, as Docker reads them.
fn ignored<'a>(ignores: &'a str, path: &str) -> Option<&'a str> {
    let lines = ignores.lines().map(str::trim);
    let patterns = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut verdict = None;
    for pattern in patterns {
        match pattern.strip_prefix('!') {
            Some(kept) if fits(kept, path) => verdict = None,
            None if fits(pattern, path) => verdict = Some(pattern),
            Some(_) | None => {}
        }
    }
    verdict
}

/// Whether a pattern is of the path or of a folder above it.
fn fits(pattern: &str, path: &str) -> bool {
    let pattern: Vec<&str> = pattern.trim_matches('/').split('/').collect();
    let path: Vec<&str> = path.split('/').collect();
    (1..=path.len()).any(|end| fits_parts(&pattern, &path[..end]))
}

fn fits_parts(pattern: &[&str], path: &[&str]) -> bool {
    match (pattern.split_first(), path.split_first()) {
        (None, None) => true,
        (Some((&"**", rest)), _) => (0..=path.len()).any(|at| fits_parts(rest, &path[at..])),
        (Some((first, patterns)), Some((name, names))) => {
            fits_name(first, name) && fits_parts(patterns, names)
        }
        (None, Some(_)) | (Some(_), None) => false,
    }
}

/// A name with at most one `*`.
fn fits_name(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, end)) => {
            name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_included_file_is_read_from_where_it_stands_and_those_of_tests_do_not_count() {
        let text = "const A: &str = include_str!(\"../x/a.txt\");\n\
                    include_bytes!(concat!(\"../../../deploy/\", $path))\n\
                    #[cfg(test)]\nmod tests {\n include_str!(\"b.txt\") }\n";
        let expected =
            [(1, "crates/c/x/a.txt"), (2, "deploy")].map(|(line, path)| (line, path.to_owned()));
        assert_eq!(included("crates/c/src/a.rs", text), expected);
        assert!(is_compiled("crates/c/src/a.rs"));
        assert!(!is_compiled("crates/c/src/a/tests.rs"));
    }

    #[test]
    fn a_pattern_leaves_out_what_docker_leaves_out() {
        let ignores = "# deploy\ntarget\n**/target\n**/*.db\ndocs\n!docs/kept.md\n";
        for (path, pattern) in [
            ("deploy/Dockerfile", None),
            ("target/x", Some("**/target")),
            ("crates/a/target/x", Some("**/target")),
            ("a/b/x.db", Some("**/*.db")),
            ("docs/tasks.md", Some("docs")),
            ("docs/kept.md", None),
            ("crates/docs/a.md", None),
        ] {
            assert_eq!(ignored(ignores, path), pattern, "{path}");
        }
    }
}
