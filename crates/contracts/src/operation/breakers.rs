//! Breakers: how they stand, and closing one.

use super::command::NOTE;
use super::shown::{Cell, Shown, Table, View};
use super::{About, Access, Chapter, GateMove, Operation, text_target};
use crate::ProblemCode;
use crate::gate::GateKind;
use crate::http::Page;
use crate::workers::{BreakerRequest, BreakerStanding, BreakerView};

/// The name of a breaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakerName(pub String);

text_target!(BreakerName, "name", "The name of the breaker", "bank");

/// List the breakers.
#[derive(Debug)]
pub struct ListBreakers;
/// Close a breaker.
#[derive(Debug)]
pub struct CloseBreaker;

impl Operation for ListBreakers {
    type Target = ();
    type Input = ();
    type Output = Page<BreakerView>;
    const ABOUT: About = About::get("listBreakers", "/api/breakers", Access::Installation)
        .summary(Chapter::Process, "List the breakers, and how each stands")
        .answers(
            200,
            "Those of the task types. Without a Redis each process has its own: then those of all processes that are alive, as of \
             their last refresh",
        )
        .command(["breakers", "list"], &[]);
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(|it| rows(&it.items)));

    fn example() -> ((), Page<BreakerView>) {
        ((), Page::whole(vec![breaker(BreakerStanding::Open)]))
    }
}

impl Operation for CloseBreaker {
    type Target = BreakerName;
    type Input = BreakerRequest;
    type Output = BreakerView;
    const ABOUT: About = About::post(
        "closeBreaker",
        "/api/breakers/{name}/close",
        Access::Installation,
    )
    .summary(Chapter::Process, "Close a breaker that is open")
    .answers(
        200,
        "Attempts start. Without a Redis the `processes` of the answer close theirs with their next refresh, within 15 \
         seconds. A task that sleeps for it starts at its due time",
    )
    .problems(&[ProblemCode::NoSuchBreaker])
    .command(["breakers", "close"], &[NOTE])
    .of_gate(GateMove::Reset, GateKind::Breaker).more("attempts start in all processes; without a Redis within 15 seconds");
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(|it| rows(std::slice::from_ref(it))));

    fn example() -> (BreakerRequest, BreakerView) {
        let request = BreakerRequest {
            note: "the bank answers again".to_owned(),
            actor: Some("kim".to_owned()),
        };
        (request, breaker(BreakerStanding::Closed))
    }
}

fn breaker(state: BreakerStanding) -> BreakerView {
    BreakerView {
        name: "bank".to_owned(),
        state,
        processes: Vec::new(),
    }
}

fn rows(breakers: &[BreakerView]) -> View {
    let row = |it: &BreakerView| {
        let processes = it.processes.join(", ");
        vec![Cell::name(&it.name), Cell::of(&it.state), processes.into()]
    };
    let rows = breakers.iter().map(row);
    View::Table(Table::of(
        "breakers",
        &["breaker", "state", "processes"],
        rows,
    ))
}
