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
    /// another order. A file that is within 3 % of it stays as it is.
    pub(super) about: Vec<(&'static str, u64)>,
}

/// Bytes of the write-ahead log.
pub(super) const WAL_BYTES: &str = "bytes of the write-ahead log";

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
        for (kind, figure) in &costs.about {
            let near = near(*figure, figure_of(golden, request, kind));
            let _ = writeln!(text, "  {kind}, to 3 %: {near}");
        }
        text.push('\n');
    }
    text
}

/// The figure of the file where it is near enough.
fn near(figure: u64, golden: Option<u64>) -> u64 {
    golden
        .filter(|golden| figure.abs_diff(*golden) * 100 <= golden * 3)
        .unwrap_or(figure)
}

fn figure_of(golden: &str, request: &str, kind: &str) -> Option<u64> {
    let before = format!("  {kind}, to 3 %: ");
    let of_request = golden.lines().skip_while(|line| *line != request).skip(1);
    let mut lines = of_request.take_while(|line| !line.is_empty());
    lines.find_map(|line| line.strip_prefix(&before)?.parse().ok())
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
fn a_figure_within_three_per_cent_of_the_golden_one_is_no_change() {
    let golden = "a task\n  b, to 3 %: 1000\n\nanother\n  a, to 3 %: 4\n  b, to 3 %: 5\n";
    assert_eq!(figure_of(golden, "another", "b"), Some(5));
    let shown = |figure| near(figure, figure_of(golden, "a task", "b"));
    assert_eq!([970, 1030, 969, 1031].map(shown), [1000, 1000, 969, 1031]);
    assert_eq!(near(7, figure_of(golden, "a third", "b")), 7);
}
