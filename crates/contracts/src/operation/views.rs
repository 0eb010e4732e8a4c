//! Saved views of the list of tasks: which there are, saving one and deleting it.

use super::command::{Flag, Takes, flag};
use super::examples::CHANGED;
use super::shown::{Cell, Shown, Table, View};
use super::{About, Access, Chapter, Operation, Param, text_target};
use crate::ProblemCode;
use crate::access::Role;
use crate::http::Page;
use crate::view::{SavedView, ViewSpec};
use serde_json::json;

/// The name of a saved view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewName(pub String);

text_target!(
    ViewName,
    Param {
        name: "name",
        about: "The name of the view",
        schema: || {
            json!({
                "type": "string",
                "pattern": "^[A-Za-z0-9._-]{1,100}$",
                "not": { "enum": [".", ".."] },
            })
        },
        example: "late-orders",
        ids: None,
    }
);

/// List saved views.
#[derive(Debug)]
pub struct ListViews;
/// Save a view.
#[derive(Debug)]
pub struct PutView;
/// Delete a saved view.
#[derive(Debug)]
pub struct DeleteView;

const SPEC: &[Flag] = &[
    flag("q", "--q", Takes::Text).is("The search, as `tasks list --q` takes it"),
    flag("columns", "--page-columns", Takes::Text).is(
        "Columns that the page shows: of id, labels, submitted, changed and names of labels, with commas",
    ),
];

impl Operation for ListViews {
    type Target = ();
    type Input = ();
    type Output = Page<SavedView>;
    const ABOUT: About = About::get("listViews", "/api/views", Access::Role(Role::Read))
        .summary(
            Chapter::Tasks,
            "List the saved views of the list of tasks, by name",
        )
        .answers(200, "All of them, at most 50")
        .command(["views", "list"], &[]);
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(|it| table(&it.items)));

    fn example() -> ((), Page<SavedView>) {
        ((), Page::whole(vec![saved()]))
    }
}

impl Operation for PutView {
    type Target = ViewName;
    type Input = ViewSpec;
    type Output = SavedView;
    const ABOUT: About = About::put("putView", "/api/views/{name}", Access::Role(Role::Operate))
        .summary(
            Chapter::Tasks,
            "Save a search under a name, for all who see these tasks",
        )
        .answers(200, "It is saved")
        .problems(&[
            ProblemCode::InvalidRequest,
            ProblemCode::InvalidLabel,
            ProblemCode::TooManyRequests,
        ])
        .command(["views", "set"], SPEC);
    const SHOWN: Option<Shown<Self::Output>> =
        Some(Shown::by(|it| table(std::slice::from_ref(it))));

    fn example() -> (ViewSpec, SavedView) {
        let SavedView { q, columns, .. } = saved();
        (ViewSpec { q, columns }, saved())
    }
}

impl Operation for DeleteView {
    type Target = ViewName;
    type Input = ();
    type Output = ();
    const ABOUT: About = About::delete(
        "deleteView",
        "/api/views/{name}",
        Access::Role(Role::Operate),
    )
    .summary(Chapter::Tasks, "Delete a saved view; the tasks stay")
    .answers(204, "It is deleted")
    .problems(&[ProblemCode::NoSuchView])
    .command(["views", "delete"], &[]);

    fn example() -> ((), ()) {
        ((), ())
    }
}

fn saved() -> SavedView {
    SavedView {
        name: "late-orders".to_owned(),
        q: "type:place-order status:open until:2h".to_owned(),
        columns: Some("order,submitted".to_owned()),
        by: "operator:kim".to_owned(),
        updated_at: CHANGED.to_owned(),
    }
}

fn table(views: &[SavedView]) -> View {
    let row = |it: &SavedView| {
        vec![
            Cell::name(&it.name),
            Cell::of(&it.q),
            Cell::text(it.columns.as_deref()),
            Cell::of(&it.by),
            Cell::Time(it.updated_at.clone()),
        ]
    };
    let heads = ["view", "search", "columns", "by", "saved"];
    View::Table(Table::of("views", &heads, views.iter().map(row)))
}
