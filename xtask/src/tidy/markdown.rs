//! Just enough of Markdown to find code and links in it.

/// A piece of a line, with the line's number counted from one.
pub(super) type Piece<'a> = (usize, &'a str);

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
    use super::{code, fenced_words, links};

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
}
