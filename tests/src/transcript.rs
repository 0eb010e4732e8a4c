//! The console blocks of the documents, as commands with the output that a page shows below them.
//! Runs nothing by itself.

use std::collections::BTreeMap;

/// The fence of a block that a test runs. The others say why none does; `cargo xtask tidy` sees to it.
const RUN: &str = "```console (run)";

/// What is left out of the output on a page. Columns and rows are too, so that of a line the pieces
/// between two or more spaces count.
const LEFT_OUT: [&str; 2] = ["…", "  "];

/// One command of a page.
#[derive(Debug, PartialEq, Eq)]
pub struct Command {
    /// The line of the page, counted from one.
    pub line: usize,
    /// What is typed, with its continuation lines.
    pub typed: String,
    /// What the page shows of its output.
    pub shown: String,
}

/// The commands of a page's blocks that are to be run.
#[must_use]
pub fn commands(page: &str) -> Vec<Command> {
    let (mut found, mut running) = (Vec::<Command>::new(), false);
    for (at, line) in page.lines().enumerate() {
        if line.starts_with("```") {
            running = line == RUN;
        } else if running {
            match (line.strip_prefix("$ "), found.last_mut()) {
                (Some(typed), _) => found.push(Command {
                    line: at + 1,
                    typed: typed.to_owned(),
                    shown: String::new(),
                }),
                (None, Some(command)) if command.is_open() => {
                    command.typed.push('\n');
                    command.typed.push_str(line);
                }
                (None, Some(command)) => {
                    command.shown.push_str(line);
                    command.shown.push('\n');
                }
                (None, None) => {}
            }
        }
    }
    found
}

impl Command {
    /// Whether a shell would wait for more.
    fn is_open(&self) -> bool {
        self.typed.ends_with('\\') || self.typed.matches('\'').count() % 2 == 1
    }
}

/// The ids of a page, each with that of this run in its place.
#[derive(Debug, Default)]
pub struct Ids(BTreeMap<String, String>);

impl Ids {
    /// A text of the page with the ids of this run.
    #[must_use]
    pub fn in_place(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (shown, real)| {
            text.replace(shown, real)
        })
    }

    /// The first piece of the shown output that the real one does not have behind the pieces before
    /// it. An id that the page shows for the first time stands for the one of this run.
    #[must_use]
    pub fn missing(&mut self, shown: &str, real: &str) -> Option<String> {
        if let (Some(shown), Some(real)) = (id(shown), id(real)) {
            self.0
                .entry(shown.to_owned())
                .or_insert_with(|| real.to_owned());
        }
        let mut rest = real;
        let shown = self.in_place(shown);
        for line in shown.lines() {
            let pieces = LEFT_OUT
                .iter()
                .fold(line.to_owned(), |line, mark| line.replace(mark, "\n"));
            for piece in pieces.lines().map(str::trim).filter(|it| !it.is_empty()) {
                match rest.split_once(piece) {
                    Some((_, behind)) => rest = behind,
                    None => return Some(piece.to_owned()),
                }
            }
        }
        None
    }
}

/// The first UUID in a text.
fn id(text: &str) -> Option<&str> {
    const DASHES: [usize; 4] = [8, 13, 18, 23];
    let is_id = |word: &&str| {
        word.bytes().enumerate().all(|(at, byte)| {
            byte == b'-' && DASHES.contains(&at)
                || byte.is_ascii_hexdigit() && !DASHES.contains(&at)
        })
    };
    (0..text.len())
        .filter_map(|start| text.get(start..start + 36))
        .find(is_id)
}

#[cfg(test)]
mod tests {
    use super::{Ids, commands};

    const PAGE: &str = "a\n```console (run)\n$ one \\\n  two\nout\n$ three '{\n }'\n```\n```console (not run: no)\n$ four\n```\n";
    const SHOWN: &str = "01a1fb6d-480d-7fba-b606-ca3d97009153";
    const REAL: &str = "02b2fb6d-480d-7fba-b606-ca3d97009153";

    #[test]
    fn a_command_has_its_continuation_lines_and_its_output() {
        let found = commands(PAGE);
        let typed: Vec<_> = found.iter().map(|it| it.typed.as_str()).collect();
        assert_eq!(typed, ["one \\\n  two", "three '{\n }'"]);
        assert_eq!((found[0].line, found[0].shown.as_str()), (3, "out\n"));
    }

    #[test]
    fn output_may_leave_out_and_must_not_differ() {
        let mut ids = Ids::default();
        let real = format!("7  id={REAL} state=done\nend");
        assert_eq!(ids.missing(&format!("id={SHOWN} …ne\nend"), &real), None);
        assert_eq!(ids.in_place(SHOWN), REAL);
        assert_eq!(ids.missing("end\nid", &real).as_deref(), Some("id"));
        assert_eq!(
            ids.missing("state=failed", &real).as_deref(),
            Some("state=failed")
        );
    }
}
