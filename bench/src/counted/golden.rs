//! Figures as a text, and the files that they are compared with. Must not know how they are counted.

use counterstep_testkit::golden;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

/// What is counted.
pub(super) trait Counters {
    /// Forgets what was counted so far.
    async fn begin(&mut self);

    /// What has been counted since; the roles are idle.
    async fn end(&mut self) -> Costs;
}

/// Counts of one kind, by what was counted.
pub(super) type Counts = BTreeMap<String, u64>;

/// What one request and all that it causes have cost.
#[derive(Debug, Default)]
pub(super) struct Costs {
    /// Exact, by their kind, in this order.
    pub(super) exact: Vec<(&'static str, Counts)>,
    /// Not exact, by their kind: rows hold times and chance, which are a few bytes longer or shorter, and threads meet in
    /// another order. A file that is near enough stays as it is.
    pub(super) about: Vec<About>,
}

/// A figure that is not exact.
#[derive(Debug, Clone, Copy)]
pub(super) struct About {
    /// Its kind.
    pub(super) kind: &'static str,
    /// How far the file may be from it, in per cent.
    pub(super) within: u64,
    pub(super) figure: u64,
}

/// Compares with `bench/golden/NAME.txt`, or rewrites that.
pub(super) fn compare(name: &str, costs: Vec<(&'static str, Costs)>) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("golden/{name}.txt"));
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    let text = text(&costs, &golden);
    golden::compare(path, &text, "test -p counterstep-bench --all-features");
}

fn text(costs: &[(&str, Costs)], golden: &str) -> String {
    let mut text = String::new();
    for (request, costs) in costs {
        let _ = writeln!(text, "{request}");
        for (kind, counts) in &costs.exact {
            let _ = writeln!(text, "  {kind}: {}", counts.values().sum::<u64>());
            // What is of one kind only has no name beside that of the kind.
            for (what, count) in counts.iter().filter(|(what, _)| !what.is_empty()) {
                let _ = writeln!(text, "    {count} {what}");
            }
        }
        for about in &costs.about {
            let before = about.before();
            let near = about.near(figure_of(golden, request, &before));
            let _ = writeln!(text, "{before}{near}");
        }
        text.push('\n');
    }
    text
}

impl About {
    /// What stands before the figure in a file.
    fn before(&self) -> String {
        format!("  {}, to {} %: ", self.kind, self.within)
    }

    /// The figure of the file where it is near enough.
    fn near(&self, golden: Option<u64>) -> u64 {
        golden
            .filter(|golden| self.figure.abs_diff(*golden) * 100 <= golden * self.within)
            .unwrap_or(self.figure)
    }
}

fn figure_of(golden: &str, request: &str, before: &str) -> Option<u64> {
    let of_request = golden.lines().skip_while(|line| *line != request).skip(1);
    let mut lines = of_request.take_while(|line| !line.is_empty());
    lines.find_map(|line| line.strip_prefix(before)?.parse().ok())
}

/// The beginning of a statement, by which a reader knows it.
pub(super) fn shown(statement: &str) -> String {
    const SHOWN: usize = 100;
    let words: Vec<&str> = statement.split_whitespace().collect();
    let text = words.join(" ");
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{} …", text[..end].trim_end()),
        None => text,
    }
}

/// How often each text is there.
pub(super) fn tally(texts: impl IntoIterator<Item = String>) -> Counts {
    let mut counts = Counts::new();
    for text in texts {
        *counts.entry(text).or_default() += 1;
    }
    counts
}

#[test]
fn a_figure_that_is_near_enough_to_the_golden_one_is_no_change() {
    let about = |figure| About {
        kind: "b",
        within: 3,
        figure,
    };
    let before = about(0).before();
    let golden = "a task\n  b, to 3 %: 1000\n\nanother\n  a, to 3 %: 4\n  b, to 3 %: 5\n";
    assert_eq!(figure_of(golden, "another", &before), Some(5));
    let shown = |figure| about(figure).near(figure_of(golden, "a task", &before));
    assert_eq!([970, 1030, 969, 1031].map(shown), [1000, 1000, 969, 1031]);
    assert_eq!(about(7).near(figure_of(golden, "a third", &before)), 7);
}
