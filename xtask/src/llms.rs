//! `cargo xtask llms`: the list of the pages for programs that read them, in the format of llmstxt.org.
//! It is made of `docs/SUMMARY.md` and the first sentence of each page, and has no text of its own.

use crate::tree;
use std::path::Path;

/// At the repository's top.
pub(crate) const LIST: &str = "llms.txt";

/// The section of the pages in front of the first named one.
const FIRST: &str = "Start";
/// What the format lets a reader with little room leave out.
const OPTIONAL: &str = "Optional";

/// An entry of the summary.
struct Page<'a> {
    section: &'a str,
    title: &'a str,
    /// From the repository's top.
    path: String,
}

/// Writes the list, and all pages in one text, which is no file of the repository.
pub(crate) fn run() -> Result<(), String> {
    let mut full = tree::text("README.md")?;
    for Page { path, .. } in pages(&tree::text("docs/SUMMARY.md")?) {
        full += &format!("\n<!-- {path} -->\n\n{}", tree::text(&path)?);
    }
    let full_path = tree::target().join("llms-full.txt");
    for (path, text) in [(tree::top().join(LIST), list()?), (full_path, full)] {
        write(&path, &text)?;
        println!("{}", path.display());
    }
    Ok(())
}

/// Writes a file, in a folder that may not be there.
fn write(path: &Path, text: &str) -> Result<(), String> {
    let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    let written = folder.and_then(|()| std::fs::write(path, text));
    written.map_err(|error| format!("{} cannot be written: {error}", path.display()))
}

/// The text of the list.
pub(crate) fn list() -> Result<String, String> {
    let about = sentence(&tree::text("README.md")?).ok_or("README.md does not begin with text")?;
    let mut text = format!("# Counterstep\n\n> {about}\n");
    let mut open = "";
    let summary = tree::text("docs/SUMMARY.md")?;
    for page in pages(&summary) {
        if page.section != open {
            open = page.section;
            text += &format!("\n## {open}\n\n");
        }
        text += &format!("- [{}]({})", page.title, page.path);
        // The titles of the others are sentences.
        let about = match open {
            OPTIONAL => None,
            _ => sentence(&tree::text(&page.path)?),
        };
        text += &about.map_or("\n".to_owned(), |about| format!(": {about}\n"));
    }
    Ok(text)
}

/// In the order of the list: pages below another one come last.
fn pages(summary: &str) -> Vec<Page<'_>> {
    let (mut pages, mut section) = (Vec::new(), FIRST);
    // The first line is the title of the book.
    for line in summary.lines().skip(1) {
        section = line.strip_prefix("# ").unwrap_or(section);
        let entry = line.trim_start().strip_prefix("- [");
        let Some((title, path)) = entry.and_then(|entry| entry.split_once("](")) else {
            continue;
        };
        pages.push(Page {
            section: if line.starts_with(' ') {
                OPTIONAL
            } else {
                section
            },
            title,
            path: format!("docs/{}", path.trim_end_matches(')')),
        });
    }
    pages.sort_by_key(|page| page.section == OPTIONAL);
    pages
}

/// The first sentence below the title, its links without their targets. A note on how the page is made is
/// passed over; a page that goes on with a heading or a table has none.
fn sentence(page: &str) -> Option<String> {
    let mut paragraphs = page.split("\n\n").skip(1);
    let first = paragraphs.find(|text| !text.starts_with("Written by "))?;
    if first.starts_with(['#', '|', '-', '`']) {
        return None;
    }
    let text = first.replace('\n', " ");
    let parts = text.split('[').map(|part| match part.split_once("](") {
        Some((name, rest)) => [name, rest.split_once(')').map_or("", |(_, rest)| rest)].concat(),
        None => part.to_owned(),
    });
    let plain: String = parts.collect();
    let end = plain.find(". ").map_or(plain.len(), |at| at + 1);
    Some(plain[..end].to_owned())
}

#[cfg(test)]
mod tests {
    use super::{pages, sentence, write};

    #[test]
    fn all_pages_are_written_where_nothing_was_built() {
        let folder = std::env::temp_dir().join(format!("llms-{}", std::process::id()));
        let path = folder.join("target").join("all.txt");
        let written = write(&path, "text");
        let read = std::fs::read_to_string(&path);
        let _ = std::fs::remove_dir_all(&folder);
        assert_eq!(written, Ok(()));
        assert_eq!(read.ok().as_deref(), Some("text"));
    }

    #[test]
    fn the_pages_below_another_one_come_last() {
        let found =
            pages("# Book\n\n- [A](a.md)\n\n# Own\n\n- [B](b.md)\n  - [C](d/c.md)\n- [D](d.md)\n");
        let found: Vec<_> = found
            .iter()
            .map(|page| format!("{} {}", page.section, page.path))
            .collect();
        assert_eq!(
            found,
            [
                "Start docs/a.md",
                "Own docs/b.md",
                "Own docs/d.md",
                "Optional docs/d/c.md"
            ]
        );
    }

    #[test]
    fn the_first_sentence_is_that_of_the_page_and_not_of_its_maker() {
        let page = "# A\n\nWritten by the test. Run it.\n\nSee [b](b.md),\nthen `c.md`. More.\n";
        assert_eq!(sentence(page).as_deref(), Some("See b, then `c.md`."));
        assert_eq!(sentence("# A\n\n## B\n\nC. D.\n"), None);
    }
}
