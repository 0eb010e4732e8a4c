//! Task types: whether one takes submissions.

use super::command::NOTE;
use super::examples::CHANGED;
use super::shown::{Cell, Shown, View};
use super::{About, Access, Chapter, Operation, text_target};
use crate::ProblemCode;
use crate::disable::{SwitchRequest, SwitchView};

/// The name of a task type in kebab-case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeRoute(pub String);

text_target!(
    TypeRoute,
    "type",
    "The name of the type in kebab-case",
    "create-zip-from-files"
);

/// Take no more submissions of a type.
#[derive(Debug)]
pub struct DisableTaskType;
/// Take submissions of a type again.
#[derive(Debug)]
pub struct EnableTaskType;

impl Operation for DisableTaskType {
    type Target = TypeRoute;
    type Input = SwitchRequest;
    type Output = SwitchView;
    const ABOUT: About = About::post(
        "disableTaskType",
        "/api/task-types/{id}/disable",
        Access::Installation,
    )
    .summary(Chapter::Types, "Take no more submissions of a type")
    .answers(200, "The type takes none")
    .problems(&[ProblemCode::NoSuchTaskType])
    .command(["types", "disable"], &[NOTE])
    .more("tasks that were accepted go on");
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(line));

    fn example() -> (SwitchRequest, SwitchView) {
        let disabled = SwitchView {
            disabled_since: Some(CHANGED.to_owned()),
            ..switch("the bank is down until noon")
        };
        (request(), disabled)
    }
}

impl Operation for EnableTaskType {
    type Target = TypeRoute;
    type Input = SwitchRequest;
    type Output = SwitchView;
    const ABOUT: About = About::post(
        "enableTaskType",
        "/api/task-types/{id}/enable",
        Access::Installation,
    )
    .summary(Chapter::Types, "Take submissions of a type again")
    .answers(200, "The type takes them")
    .problems(&[ProblemCode::NoSuchTaskType])
    .command(["types", "enable"], &[NOTE])
    .more("failures from before do not count any more");
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(line));

    fn example() -> (SwitchRequest, SwitchView) {
        (request(), switch("the bank is back"))
    }
}

fn request() -> SwitchRequest {
    SwitchRequest {
        note: "the bank is down until noon".to_owned(),
        actor: Some("kim".to_owned()),
    }
}

fn switch(reason: &str) -> SwitchView {
    SwitchView {
        task_type: "BookSeat".to_owned(),
        disabled_since: None,
        reason: Some(reason.to_owned()),
        by: Some("operator:kim".to_owned()),
        probe_from: None,
        probe: None,
    }
}

fn line(view: &SwitchView) -> View {
    let mut parts = vec![Cell::Text(view.task_type.clone())];
    match &view.disabled_since {
        Some(since) => parts.extend([" is disabled since ".into(), Cell::Time(since.clone())]),
        None => parts.push(" is enabled".into()),
    }
    parts.extend([" by ".into(), Cell::text(view.by.as_deref())]);
    parts.extend([": ".into(), Cell::text(view.reason.as_deref())]);
    View::Lines(vec![Cell::Parts(parts)])
}
