//! Who may use which route, as `tests/golden/roles.txt` has it: a file that is changed by hand only, and never after
//! what the table of routes says.

use counterstep_api::RouteView;
use std::collections::BTreeMap;

const WANTED: &str = include_str!("../../golden/roles.txt");

/// What callers of a route are answered: its method and its path, and the status for each of them, in the order of the
/// columns of the file.
pub(crate) type Row = (String, Vec<u16>);

/// The rows of a text.
fn rows(text: &str) -> BTreeMap<String, Vec<u16>> {
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let row = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let (route, statuses) = words.split_at(2);
        let statuses = statuses.iter().map(|it| it.parse().expect("a status"));
        (route.join(" "), statuses.collect())
    };
    lines.map(row).collect()
}

/// The rows that are others, each with what is wanted and what was found.
fn differences(wanted: &str, found: &[Row]) -> Vec<String> {
    let wanted = rows(wanted);
    let unwanted = |(route, _): &&Row| !wanted.contains_key(route);
    let missing = |route: &str| !found.iter().any(|(it, _)| it == route);
    let others = found
        .iter()
        .filter(|(route, statuses)| wanted.get(route).is_some_and(|wanted| wanted != statuses));
    let others =
        others.map(|(route, found)| format!("{route}: {:?}, not {found:?}", wanted[route]));
    let new = found.iter().filter(unwanted);
    let new = new.map(|(route, found)| format!("{route}: no row, not {found:?}"));
    let gone = wanted.keys().filter(|route| missing(route));
    let gone = gone.map(|route| format!("{route}: no such route"));
    others.chain(new).chain(gone).collect()
}

/// Routes in the order of the file; one that is not in it comes last.
pub(crate) fn in_order(mut routes: Vec<RouteView>) -> Vec<RouteView> {
    let written: Vec<Vec<&str>> = WANTED
        .lines()
        .map(|line| line.split_whitespace().take(2).collect())
        .collect();
    let place = |it: &RouteView| {
        written
            .iter()
            .position(|line| *line == [it.method, it.path])
    };
    routes.sort_by_key(|it| place(it).unwrap_or(usize::MAX));
    routes
}

pub(crate) fn assert_as_written(found: &[Row]) {
    let differences = differences(WANTED, found);
    assert!(
        differences.is_empty(),
        "tests/golden/roles.txt wants another answer; where it is wrong, change it by hand:\n{}",
        differences.join("\n")
    );
}

/// Whether the file wants other answers of a route.
pub(crate) fn differs(row: &Row) -> bool {
    rows(WANTED)
        .get(&row.0)
        .is_none_or(|wanted| *wanted != row.1)
}

#[test]
fn a_route_that_lets_in_others_than_the_file_says_is_found() {
    let found: Vec<Row> = rows(WANTED).into_iter().collect();
    assert_eq!(differences(WANTED, &found), [] as [String; 0]);
    for at in 0..found.len() {
        for column in 0..found[at].1.len() {
            let mut opened = found.clone();
            let status = &mut opened[at].1[column];
            *status = if *status == 403 { 404 } else { 403 };
            let differences = differences(WANTED, &opened);
            assert!(
                matches!(&differences[..], [one] if one.starts_with(&found[at].0)),
                "{differences:?}"
            );
        }
        let mut fewer = found.clone();
        let (route, statuses) = fewer.remove(at);
        assert_eq!(
            differences(WANTED, &fewer),
            [format!("{route}: no such route")]
        );
        fewer.push((format!("{route}/new"), statuses));
        assert_eq!(differences(WANTED, &fewer).len(), 2);
    }
}
