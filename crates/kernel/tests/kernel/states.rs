//! `docs/states.md` is what the judge does: rendered from it, and compared with the page that is
//! checked in.

mod edges;
mod meaning;
mod page;

use std::path::Path;

pub(super) use edges::{Edge, step_edges, task_edges};

#[test]
fn the_page_of_states_is_what_the_judge_does() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/states.md");
    let rendered = page::render();
    if std::env::var_os("COUNTERSTEP_BLESS").is_some() {
        std::fs::write(&path, rendered).unwrap();
        return;
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = checked_in
        .lines()
        .zip(rendered.lines())
        .position(|(old, new)| old != new);
    let line =
        differs.unwrap_or_else(|| checked_in.lines().count().min(rendered.lines().count())) + 1;
    assert!(
        checked_in == rendered,
        "docs/states.md is not what the judge does, from line {line} on. If the judge is right, rewrite the page: \
         COUNTERSTEP_BLESS=1 cargo test -p counterstep-kernel --test kernel page_of_states"
    );
}
