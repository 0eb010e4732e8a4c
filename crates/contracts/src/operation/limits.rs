//! Limits of steps: which there are, setting one and resetting it.

use super::command::{Flag, NOTE, Takes, flag};
use super::examples::CHANGED;
use super::shown::{Cell, Shown, Table, View};
use super::{About, Access, Chapter, GateMove, Operation, text_target};
use crate::gate::GateKind;
use crate::http::Page;
use crate::limit::{
    DeclaredLimit, LimitSetView, LimitUseView, LimitView, ResetLimitRequest, SetLimitRequest,
};
use crate::{ProblemCode, Rate};
use std::time::Duration;

const AT_ONCE: Flag = flag("at_once", "--at-once", Takes::Number);
const RATE: Flag = flag("rate", "--rate", Takes::Rate)
    .is("Maximum number of attempts that start in a period, as in 50/1s; missing: no maximum");

/// The name of a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitName(pub String);

text_target!(LimitName, "name", "The name of the limit", "bank");

/// List the limits.
#[derive(Debug)]
pub struct ListLimits;
/// Set the values of a limit.
#[derive(Debug)]
pub struct SetLimit;
/// Let a limit hold as it is declared.
#[derive(Debug)]
pub struct ResetLimit;

impl Operation for ListLimits {
    type Target = ();
    type Input = ();
    type Output = Page<LimitView>;
    const ABOUT: About = About::get("listLimits", "/api/limits", Access::Installation)
        .summary(
            Chapter::Types,
            "List the limits of steps, and what is in use of them",
        )
        .answers(200, "All of them")
        .command(["limits", "list"], &[]);
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(|it| table(&it.items)));

    fn example() -> ((), Page<LimitView>) {
        ((), Page::whole(vec![set()]))
    }
}

impl Operation for SetLimit {
    type Target = LimitName;
    type Input = SetLimitRequest;
    type Output = LimitView;
    const ABOUT: About = About::put("setLimit", "/api/limits/{name}", Access::Installation)
        .summary(
            Chapter::Types,
            "Set the values of a limit in place of those that are declared",
        )
        .answers(200, "They hold within a few seconds, in all processes")
        .problems(&[ProblemCode::NoSuchLimit])
        .command(["limits", "set"], &[AT_ONCE, RATE, NOTE])
        .of_gate(GateMove::Set, GateKind::Limit)
        .more("for all processes");
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(one));

    fn example() -> (SetLimitRequest, LimitView) {
        let request = SetLimitRequest {
            at_once: Some(5),
            rate: Some(per_second(20)),
            note: "the bank asks for less".to_owned(),
            actor: Some("kim".to_owned()),
        };
        (request, set())
    }
}

impl Operation for ResetLimit {
    type Target = LimitName;
    type Input = ResetLimitRequest;
    type Output = LimitView;
    const ABOUT: About = About::post(
        "resetLimit",
        "/api/limits/{name}/reset",
        Access::Installation,
    )
    .summary(Chapter::Types, "Let a limit hold again as it is declared")
    .answers(200, "It holds as it is declared")
    .problems(&[ProblemCode::NoSuchLimit])
    .command(["limits", "reset"], &[NOTE])
    .of_gate(GateMove::Reset, GateKind::Limit);
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(one));

    fn example() -> (ResetLimitRequest, LimitView) {
        let request = ResetLimitRequest {
            note: "the bank takes all again".to_owned(),
            actor: Some("kim".to_owned()),
        };
        (request, as_declared())
    }
}

fn per_second(starts: u32) -> Rate {
    Rate {
        starts,
        per: Duration::from_secs(1),
    }
}

fn set() -> LimitView {
    LimitView {
        set: Some(LimitSetView {
            at_once: Some(5),
            rate: Some(per_second(20)),
            by: "operator:kim".to_owned(),
            note: "the bank asks for less".to_owned(),
            since: CHANGED.to_owned(),
        }),
        ..as_declared()
    }
}

fn as_declared() -> LimitView {
    LimitView {
        name: "bank".to_owned(),
        declared: Some(DeclaredLimit {
            at_once: Some(10),
            rate: Some(per_second(50)),
            scope: "all".to_owned(),
        }),
        set: None,
        uses: vec![LimitUseView {
            of: String::new(),
            held: 5,
            waiting: 12,
            holders: [("worker-7f3a".to_owned(), 3), ("worker-b2c9".to_owned(), 2)].into(),
        }],
    }
}

fn values(at_once: Option<u32>, rate: Option<Rate>) -> String {
    let at_once = at_once.map(|most| format!("{most} at once"));
    let rate = rate.map(|rate| rate.to_string());
    let both: Vec<String> = at_once.into_iter().chain(rate).collect();
    both.join(", ")
}

fn table(limits: &[LimitView]) -> View {
    let heads = [
        "limit", "declared", "scope", "set", "by", "reason", "of", "in use", "waiting",
    ];
    View::Table(Table::of("limits", &heads, limits.iter().flat_map(rows_of)))
}

/// A row for each that has the limit for itself.
fn rows_of(limit: &LimitView) -> Vec<Vec<Cell>> {
    let (declared, set) = (limit.declared.as_ref(), limit.set.as_ref());
    let shown = [
        Cell::name(&limit.name),
        declared.map_or(Cell::NONE, |it| values(it.at_once, it.rate).into()),
        Cell::text(declared.map(|it| &*it.scope)),
        set.map_or(Cell::NONE, |it| {
            let values = values(it.at_once, it.rate) + " since ";
            Cell::Parts(vec![values.into(), Cell::Time(it.since.clone())])
        }),
        Cell::text(set.map(|it| &*it.by)),
        Cell::text(set.map(|it| &*it.note)),
    ];
    let used = limit.uses.iter().map(|it| (&*it.of, it.held, it.waiting));
    let used: Vec<_> = used.collect();
    let used = if used.is_empty() {
        vec![("", 0, 0)]
    } else {
        used
    };
    let row = |(of, held, waiting): (&str, u32, u32)| {
        let used = [of.into(), Cell::number(held), Cell::number(waiting)];
        [&shown[..], &used].concat()
    };
    used.into_iter().map(row).collect()
}

fn one(limit: &LimitView) -> View {
    table(std::slice::from_ref(limit))
}
