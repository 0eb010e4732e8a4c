//! What is shut, of all that may hold a task back: one list over queues, processes, limits, breakers and task types.

use super::examples::CHANGED;
use super::shown::{Cell, Shown, Table, View};
use super::{About, Access, Chapter, Operation};
use crate::gate::{GateKind, GateView};
use crate::http::Page;

/// List what is shut.
#[derive(Debug)]
pub struct ListGates;

impl Operation for ListGates {
    type Target = ();
    type Input = ();
    type Output = Page<GateView>;
    const ABOUT: About = About::get("listGates", "/api/gates", Access::Installation)
        .summary(
            Chapter::Types,
            "List what holds tasks back because it was paused, disabled, set by hand, or is open after failures",
        )
        .answers(200, "All of it, each with the command that opens it")
        .command(["gates", "list"], &[]);
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(|it| table(&it.items)));

    fn example() -> ((), Page<GateView>) {
        let paused = GateView {
            gate: GateKind::Queue,
            name: "bookings".to_owned(),
            since: Some(CHANGED.to_owned()),
            by: Some("operator:kim".to_owned()),
            note: Some("the bank moves".to_owned()),
            opens: "queues resume bookings --note WHY".to_owned(),
        };
        ((), Page::whole(vec![paused]))
    }
}

fn table(gates: &[GateView]) -> View {
    let row = |it: &GateView| {
        vec![
            Cell::of(&it.gate),
            Cell::name(&it.name),
            Cell::time(it.since.as_deref()),
            Cell::text(it.by.as_deref()),
            Cell::text(it.note.as_deref()),
            Cell::of(&it.opens),
        ]
    };
    let heads = ["gate", "name", "since", "by", "reason", "opened by"];
    View::Table(Table::of("gates", &heads, gates.iter().map(row)))
}
