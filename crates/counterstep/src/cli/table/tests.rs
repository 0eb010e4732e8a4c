//! Rows at several widths and on a pipe, held in files.

use super::*;
use std::path::Path;

const ID: &str = "0199c0de-0000-7000-8000-0000deadbeef";
/// 2026-11-20T23:14:05Z.
const NOW: i64 = 1_795_216_445_000_000;

fn look(width: Option<usize>) -> Look {
    Look {
        width,
        now: NOW,
        columns: Vec::new(),
    }
}

fn of_columns(columns: &[&str]) -> Look {
    Look {
        columns: columns.iter().map(|&it| it.to_owned()).collect(),
        ..look(None)
    }
}

fn table() -> Table {
    let row = |status: &str, at: &str, tries: u64, labels: &str| {
        vec![
            Cell::Task(ID.to_owned()),
            "CreateZipFromFiles".into(),
            status.into(),
            Cell::Time(at.to_owned()),
            Cell::Number(tries),
            Cell::Parts(vec!["paid since ".into(), Cell::Time(at.to_owned())]),
            Cell::Name("0f3c-nightly".to_owned()),
            labels.into(),
        ]
    };
    let rows = [
        row(
            "compensation_failed",
            "2026-11-20T23:11:05.123456Z",
            7,
            "customer=7 order=4711 of=a-customer-with-a-long-name",
        ),
        row(
            "running",
            "2026-11-20T23:14:07Z",
            12,
            "odd=\u{1b}[2J\tand\n日本語日本語日本語日本語日本語",
        ),
    ];
    let heads = [
        "task",
        "type",
        "status",
        "submitted",
        "tries",
        "state",
        "schedule",
        "labels",
    ];
    Table::of("tasks", &heads, rows).page(false, Some("c2"))
}

#[test]
fn rows_are_the_golden_ones() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/rows");
    let cargo = "test --workspace --all-features --lib rows_are_the_golden_ones";
    for width in [Some(60), Some(80), Some(200), None] {
        let name = width.map_or_else(|| "pipe".to_owned(), |width| width.to_string());
        let text = look(width).text(&View::Table(table())).expect("rows");
        counterstep_testkit::golden::compare(folder.join(format!("{name}.txt")), &text, cargo);
    }
}

#[test]
fn each_row_is_a_line_that_fits_and_no_sign_of_a_stranger_is_obeyed() {
    for width in [1, 20, 60, 80, 100, 200] {
        let text = look(Some(width)).plain(&table());
        assert_eq!(text.lines().count(), 3, "{text}");
        for line in text.lines() {
            assert!(measure_text_width(line) <= width, "{width}: {line}");
            assert!(!line.chars().any(char::is_control), "{line:?}");
        }
    }
    let piped = look(None).plain(&table());
    let cells = piped.lines().map(|line| line.split('\t').count());
    assert_eq!(cells.collect::<Vec<_>>(), [8, 8, 8], "{piped}");
    assert!(piped.contains(ID) && piped.contains("2026-11-20T23:11:05.123456Z"));
}

#[test]
fn columns_are_chosen_by_their_heads_and_unknown_ones_refused() {
    let mut table = table();
    table.next = None;
    table.heads[3] = "last change";
    let view = View::Table(table);
    let text = of_columns(&["last-change", "tries"]).text(&view);
    assert_eq!(
        text.expect("rows"),
        "last change\ttries\n2026-11-20T23:11:05.123456Z\t7\n2026-11-20T23:14:07Z\t12\n"
    );
    let refused = of_columns(&["when"]).text(&view).expect_err("unknown");
    assert!(
        refused
            .message
            .contains("`when`; expected some of task,type")
    );
    let lines = View::Lines(vec!["deleted".into()]);
    assert!(of_columns(&["task"]).text(&lines).is_err());
}

#[test]
fn a_list_of_nothing_says_so() {
    let none = || Table::of("tasks", &["task"], []);
    let text = |table| look(None).text(&View::Table(table)).expect("a page");
    assert_eq!(text(none()), "No tasks\n");
    assert_eq!(text(none().page(true, None)), "No tasks match\n");
    assert!(text(none().page(true, Some("x"))).ends_with("more: --cursor x\n"));
}

#[test]
fn an_id_is_its_ending_and_whole_where_its_column_was_asked_for_and_has_room() {
    let usual = look(Some(200)).text(&View::Table(table())).expect("rows");
    assert!(usual.contains("deadbeef") && !usual.contains(ID), "{usual}");
    let chosen = |width| Look {
        width: Some(width),
        ..of_columns(&["task", "status"])
    };
    for (width, is_whole) in [(80, true), (50, false)] {
        let text = chosen(width).text(&View::Table(table())).expect("rows");
        assert_eq!(text.contains(ID), is_whole, "{text}");
    }
}

#[test]
fn an_id_alone_is_whole() {
    let accepted = Cell::Parts(vec![Cell::Task(ID.to_owned()), " dispatched".into()]);
    let text = look(Some(40)).text(&View::Lines(vec![accepted]));
    assert_eq!(text.expect("a line"), format!("{ID} dispatched\n"));
}
