//! Breakers: how they stand, and closing one.

use super::command::NOTE;
use super::shown::{Cell, Shown, Table, View};
use super::{About, Access, Chapter, Operation, text_target};
use crate::ProblemCode;
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
            "Those of the task types, as the process that answers sees them",
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
        "Attempts start, in all processes that share its hints. A task that sleeps for it starts at its due time",
    )
    .problems(&[ProblemCode::NoSuchBreaker])
    .command(["breakers", "close"], &[NOTE]).more("attempts start, in all processes that share a Redis");
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
    }
}

fn rows(breakers: &[BreakerView]) -> View {
    let row = |it: &BreakerView| vec![Cell::name(&it.name), Cell::of(&it.state)];
    let rows = breakers.iter().map(row);
    View::Table(Table::of("breakers", &["breaker", "state"], rows))
}
