//! Just enough of Markdown to find code and links in it.

/// A piece of a line, with the line's number counted from one.
pub(super) type Piece<'a> = (usize, &'a str);

/// A fenced block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block<'a> {
    /// Where it opens, counted from one.
    pub(super) line: usize,
    /// What stands behind the opening backticks.
    pub(super) fence: &'a str,
    pub(super) text: String,
}

impl<'a> Block<'a> {
    /// The first word of the fence.
    pub(super) fn language(&self) -> &'a str {
        let end = self.fence.find([',', ' ']).unwrap_or(self.fence.len());
        &self.fence[..end]
    }

    /// Of a note in parentheses at the fence's end, what follows `start`.
    pub(super) fn note(&self, start: &str) -> Option<&'a str> {
        let (_, note) = self.fence.strip_suffix(')')?.split_once('(')?;
        note.strip_prefix(start)
    }
}

/// All fenced blocks.
pub(super) fn blocks(text: &str) -> Vec<Block<'_>> {
    let (mut found, mut open) = (Vec::new(), None::<Block<'_>>);
    for (at, line) in text.lines().enumerate() {
        let fence = line.trim_start().strip_prefix("```");
        open = match (open.take(), fence) {
            (None, None) => None,
            (None, Some(fence)) => Some(Block {
                line: at + 1,
                fence,
                text: String::new(),
            }),
            (Some(block), Some(_)) => {
                found.push(block);
                None
            }
            (Some(mut block), None) => {
                block.text.push_str(line);
                block.text.push('\n');
                Some(block)
            }
        };
    }
    found
}

/// The lines inside fences, and those outside.
fn split(text: &str) -> (Vec<Piece<'_>>, Vec<Piece<'_>>) {
    let (mut inside, mut outside, mut fenced) = (Vec::new(), Vec::new(), false);
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if fenced {
            inside.push((at + 1, line));
        } else {
            outside.push((at + 1, line));
        }
    }
    (inside, outside)
}

/// The lines outside fences.
pub(super) fn outside(text: &str) -> Vec<Piece<'_>> {
    split(text).1
}

/// What stands in single backticks.
pub(super) fn code(text: &str) -> Vec<Piece<'_>> {
    let (_, outside) = split(text);
    let spans = |line| str::split(line, '`').skip(1).step_by(2);
    outside
        .into_iter()
        .flat_map(|(at, line)| spans(line).map(move |code| (at, code)))
        .collect()
}

/// The words inside fences.
pub(super) fn fenced_words(text: &str) -> Vec<Piece<'_>> {
    let (inside, _) = split(text);
    inside
        .into_iter()
        .flat_map(|(at, line)| line.split_whitespace().map(move |word| (at, word)))
        .collect()
}

/// The targets of links and images, those in code left out.
pub(super) fn links(text: &str) -> Vec<Piece<'_>> {
    let (_, outside) = split(text);
    let mut found = Vec::new();
    for (at, line) in outside {
        for prose in line.split('`').step_by(2) {
            let targets = prose
                .split("](")
                .skip(1)
                .filter_map(|rest| rest.split([')', ' ']).next());
            found.extend(targets.map(|target| (at, target.trim_matches(['<', '>']))));
        }
        // `[name]: target`
        if let Some((name, target)) = line.split_once("]: ")
            && name.starts_with('[')
        {
            found.extend(target.split_whitespace().next().map(|target| (at, target)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{blocks, code, fenced_words, links};

    const PAGE: &str = "See [a](docs/a.md) and ![b](b.png \"B\"), not `[c](c.md)`.\n```\ncrates/x/  [d](d.md)\n```\n[`e`](e.md)\n[f]: f.md\n";

    #[test]
    fn links_are_found_and_code_is_not_taken_for_one() {
        assert_eq!(
            links(PAGE),
            [(1, "docs/a.md"), (1, "b.png"), (5, "e.md"), (6, "f.md")]
        );
    }

    #[test]
    fn code_is_found_in_lines_and_in_fences() {
        assert_eq!(code(PAGE), [(1, "[c](c.md)"), (5, "e")]);
        assert_eq!(fenced_words(PAGE), [(3, "crates/x/"), (3, "[d](d.md)")]);
    }

    #[test]
    fn a_block_has_a_language_and_a_note() {
        let found = blocks("a\n```rust,ignore (from a.rs)\nb\nc\n```\n```\n```\n");
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].line, found[0].text.as_str(), found[0].language()),
            (2, "b\nc\n", "rust")
        );
        assert_eq!(found[0].note("from "), Some("a.rs"));
        assert_eq!((found[1].language(), found[1].note("")), ("", None));
    }
}
