//! Links between the repository's own pages lead somewhere.

use super::{Found, Violation, markdown};
use crate::tree;

pub(super) fn check(files: &[String]) -> Found {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.ends_with(".md")) {
        let text = tree::text(file)?;
        for (line, target) in markdown::links(&text) {
            if let Some(path) = resolve(file, target)
                && !tree::top().join(&path).exists()
            {
                let what = format!(
                    "the link `{target}` leads to `{path}`, which is not there: correct or remove it"
                );
                found.push(Violation::new(file, line, what));
            }
        }
    }
    Ok(found)
}

/// The path in the repository that a link means, if it means one.
fn resolve(file: &str, target: &str) -> Option<String> {
    let is_elsewhere =
        target.contains("://") || target.starts_with("mailto:") || target.starts_with("//");
    let target = target.split('#').next().unwrap_or_default();
    if is_elsewhere || target.is_empty() {
        return None;
    }
    let mut parts: Vec<&str> = match target.strip_prefix('/') {
        Some(_) => Vec::new(),
        None => file
            .split('/')
            .rev()
            .skip(1)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect(),
    };
    for part in target.split('/') {
        match part {
            "" | "." => {}
            // Above the top it stays what it is, and so is not found.
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            other => parts.push(other),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::resolve;

    #[test]
    fn a_link_is_read_from_where_it_stands() {
        assert_eq!(
            resolve("docs/a/b.md", "../c.md#part").as_deref(),
            Some("docs/c.md")
        );
        assert_eq!(
            resolve("docs/a/b.md", "/LICENSE-MIT").as_deref(),
            Some("LICENSE-MIT")
        );
        assert_eq!(resolve("README.md", "docs/").as_deref(), Some("docs"));
        assert_eq!(
            resolve("README.md", "../up.md").as_deref(),
            Some("../up.md")
        );
    }

    #[test]
    fn a_link_to_elsewhere_is_not_ours_to_check() {
        for target in ["https://example.org/a", "mailto:a@example.org", "#part", ""] {
            assert_eq!(resolve("README.md", target), None, "{target}");
        }
    }
}
