//! Operations on many tasks: which there are, one of them, and stopping it.

use super::examples::{CHANGED, GROUP, MADE, OTHER};
use super::shown::{Cell, Shown, Table, View};
use super::{About, Access, Chapter, Operation, Param, text_target};
use crate::access::Role;
use crate::bulk::{BulkAction, BulkFilter, BulkStatus, BulkView};
use crate::http::Page;
use crate::{ProblemCode, TaskStatus};
use serde_json::json;

/// The id of an operation on many tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkId(pub String);

text_target!(
    BulkId,
    Param {
        name: "bulk_id",
        about: "The id of the operation",
        schema: || json!({ "type": "string", "format": "uuid" }),
        example: "01930d2c-6c4b-7d5e-8f00-0123456789ac",
    }
);

/// List operations on many tasks.
#[derive(Debug)]
pub struct ListBulkOperations;
/// Look at an operation on many tasks.
#[derive(Debug)]
pub struct GetBulkOperation;
/// Stop an operation on many tasks.
#[derive(Debug)]
pub struct StopBulkOperation;

impl Operation for ListBulkOperations {
    type Target = ();
    type Input = ();
    type Output = Page<BulkView>;
    const ABOUT: About = About::get(
        "listBulkOperations",
        "/api/bulk-operations",
        Access::Role(Role::Read),
    )
    .summary(
        Chapter::Deciding,
        "List bulk operations of the last 30 days, the last started first",
    )
    .answers(200, "All of them")
    .command(["bulk", "list"], &[]);
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(list));

    fn example() -> ((), Page<BulkView>) {
        ((), Page::whole(vec![bulk()]))
    }
}

impl Operation for GetBulkOperation {
    type Target = BulkId;
    type Input = ();
    type Output = BulkView;
    const ABOUT: About = About::get(
        "getBulkOperation",
        "/api/bulk-operations/{id}",
        Access::Role(Role::Read),
    )
    .summary(Chapter::Deciding, "Look at a bulk operation")
    .answers(200, "How it stands")
    .problems(&[ProblemCode::NoSuchBulkOperation])
    .command(["bulk", "show"], &[]);
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(shown));

    fn example() -> ((), BulkView) {
        ((), bulk())
    }
}

impl Operation for StopBulkOperation {
    type Target = BulkId;
    type Input = ();
    type Output = BulkView;
    const ABOUT: About = About::post(
        "stopBulkOperation",
        "/api/bulk-operations/{id}/stop",
        Access::Role(Role::Operate),
    )
    .summary(
        Chapter::Deciding,
        "Stop a bulk operation; the tasks that are left stay as they are",
    )
    .answers(
        200,
        "How it stands: tasks that were begun are finished. One that has ended stays as it is",
    )
    .problems(&[ProblemCode::NoSuchBulkOperation])
    .command(["bulk", "stop"], &[]);
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(shown));

    fn example() -> ((), BulkView) {
        let stopped = BulkView {
            status: BulkStatus::Stopped,
            ..bulk()
        };
        ((), stopped)
    }
}

/// An example.
#[must_use]
pub fn bulk() -> BulkView {
    BulkView {
        id: OTHER.to_string(),
        action: BulkAction::Redrive,
        settled: None,
        patch: None,
        from: None,
        group: Some(GROUP.to_owned()),
        filter: BulkFilter {
            task_type: Some("BookSeat".to_owned()),
            status: vec![TaskStatus::CompensationFailed, TaskStatus::DeadLettered],
            ..BulkFilter::default()
        },
        note: "the bank is back (by kim)".to_owned(),
        actor: "operator:kim".to_owned(),
        status: BulkStatus::Running,
        done: 600,
        failed: 0,
        skipped: 1,
        left: Some(4211),
        failures: Vec::new(),
        created_at: MADE.to_owned(),
        updated_at: CHANGED.to_owned(),
    }
}

/// How an operation stands, and the first failures.
#[must_use]
pub fn shown(view: &BulkView) -> View {
    let progress = progress(view);
    let of_all = format!("{} {} {}: {progress}", view.id, view.action, view.status);
    let failed = view.failures.iter();
    let failed = failed.map(|it| format!("  {}: {}", it.task_id, it.reason).into());
    View::Lines([of_all.into()].into_iter().chain(failed).collect())
}

fn progress(view: &BulkView) -> String {
    let left = view
        .left
        .map_or_else(|| "more".to_owned(), |left| left.to_string());
    format!(
        "{} done, {} failed, {} skipped, {left} left",
        view.done, view.failed, view.skipped
    )
}

fn list(page: &Page<BulkView>) -> View {
    let row = |view: &BulkView| {
        vec![
            Cell::name(&view.id),
            Cell::of(&view.action),
            Cell::of(&view.status),
            progress(view).into(),
            Cell::Time(view.created_at.clone()),
            Cell::of(&view.actor),
            Cell::of(&view.note),
        ]
    };
    let heads = [
        "operation",
        "action",
        "status",
        "progress",
        "started",
        "by",
        "note",
    ];
    let rows = page.items.iter().map(row);
    View::Table(Table::of("bulk operations", &heads, rows))
}
