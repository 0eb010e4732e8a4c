//! Parked tasks of a tenant: one by one, and counted by cause.

use super::command::{Flag, LABEL, SINCE, Takes, flag};
use super::examples::{CHANGED, GROUP, MADE, OTHER, TASK, cause, cursor};
use super::query::{labels, parked};
use super::shown::{Cell, Shown, Table, View};
use super::task_views::dead_letter;
use super::{About, Access, Chapter, Cursor, Ids, Limit, Operation, Time, WHOLE_LIST};
use crate::access::Role;
use crate::bulk::BulkAction;
use crate::groups::{DeadLetterGroup, DeadLetterGroups};
use crate::http::Page;
use crate::operator::DeadLetter;
use crate::pace::{BulkResults, PastDecision};
use crate::state::text_enum;
use crate::{ProblemCode, TaskStatus};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

const READ: Access = Access::Role(Role::Read);

/// List parked tasks.
#[derive(Debug)]
pub struct ListDeadLetters;
/// Count parked tasks by cause.
#[derive(Debug)]
pub struct GroupDeadLetters;

const WITH: Flag = flag("with", "--with", Takes::Text)
    .is("With `decisions`: what was last decided about each of the largest groups, and which program ran its first task");

text_enum!(
    /// What groups are shown with.
    GroupsWith {
        /// What was last decided about each and how that has ended, and which program ran its first task.
        Decisions = "decisions",
    }
);

fn more(_: &mut SchemaGenerator) -> Schema {
    let all = GroupsWith::ALL.iter().map(|it| it.as_str());
    json_schema!({ "type": "string", "enum": all.collect::<Vec<_>>() })
}

/// The ids of groups.
pub const GROUP_IDS: Ids = Ids {
    of: "group",
    length: 16,
    signs: "-_",
    list: GroupDeadLetters::ABOUT.id,
    field: "id",
    shown: &["task_type", "text"],
    looks: WHOLE_LIST,
};

text_enum!(
    /// Which parked tasks come first.
    DeadLetterOrder {
        /// Those that were submitted last.
        Newest = "newest",
        /// Those that have been parked for the longest time.
        LongestParked = "longest_parked",
    }
);

fn orders(_: &mut SchemaGenerator) -> Schema {
    let all = DeadLetterOrder::ALL.iter().map(|it| it.as_str());
    json_schema!({ "type": "string", "enum": all.collect::<Vec<_>>() })
}

/// Which parked tasks.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DeadLettersQuery {
    /// Of this type, by its declared name or its route
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub task_type: Option<String>,
    /// In this state; repeated, in one of several
    #[serde(default)]
    #[schemars(schema_with = "parked")]
    pub status: Vec<TaskStatus>,
    /// Parked not before this time
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parked_since: Option<Time>,
    /// Which come first: the last submitted ones, or with `longest_parked` those that have been parked for the longest
    /// time, in one page, of the last submitted 100,000
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "orders")]
    pub order: Option<DeadLetterOrder>,
    /// Items of a page
    #[serde(default)]
    pub limit: Limit,
    /// The `next_cursor` of the page before, with the same filters
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
}

/// Which parked tasks are counted.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GroupsQuery {
    /// Of this type, by its declared name or its route
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub task_type: Option<String>,
    /// In this state; repeated, in one of several. Missing: parked
    #[serde(default)]
    #[schemars(schema_with = "parked_or_failed")]
    pub status: Vec<TaskStatus>,
    /// With this label, `name=value`; repeated, with all of them
    #[serde(default)]
    #[schemars(schema_with = "labels")]
    pub label: Vec<String>,
    /// Submitted not before this time
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// With what was last decided about each of the 20 largest groups and how that has ended, and with the version of the program
    /// that ran its first task
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "more")]
    pub with: Option<GroupsWith>,
}

fn parked_or_failed(_: &mut SchemaGenerator) -> Schema {
    let all = TaskStatus::ALL.iter().filter(|it| has_cause(**it));
    let all: Vec<_> = all.map(|it| it.as_str()).collect();
    json_schema!({ "type": "array", "items": { "type": "string", "enum": all } })
}

/// Whether tasks in this state are there for a cause.
#[must_use]
pub const fn has_cause(status: TaskStatus) -> bool {
    status.is_parked() || matches!(status, TaskStatus::Failed)
}

impl Operation for ListDeadLetters {
    type Target = ();
    type Input = DeadLettersQuery;
    type Output = Page<DeadLetter>;
    const ABOUT: About = About::get("listDeadLetters", "/api/dead-letters", READ)
        .summary(Chapter::Deciding, "List parked tasks, the newest first")
        .answers(200, "A page; without `next_cursor` the last one")
        .problems(&[ProblemCode::MalformedParameter])
        .command(
            ["tasks", "dead-letters"],
            &[
                flag("parked_since", "--since", Takes::Text)
                    .is("Parked since: a duration (2h) or a time"),
                flag("order", "--order", Takes::Text)
                    .is("Which come first; the longest parked ones are one page"),
            ],
        );
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(list));

    fn example() -> (DeadLettersQuery, Page<DeadLetter>) {
        let query = DeadLettersQuery {
            task_type: Some("create-zip-from-files".to_owned()),
            status: vec![TaskStatus::DeadLettered],
            parked_since: Some(Time("2026-11-20T18:00:00Z".to_owned())),
            order: Some(DeadLetterOrder::Newest),
            limit: Limit::default(),
            cursor: cursor(),
        };
        (query, Page::whole(vec![dead_letter()]))
    }
}

impl Operation for GroupDeadLetters {
    type Target = ();
    type Input = GroupsQuery;
    type Output = DeadLetterGroups;
    const ABOUT: About = About::get("groupDeadLetters", "/api/dead-letters/groups", READ)
        .summary(
            Chapter::Deciding,
            "Count parked tasks, or failed ones, by cause",
        )
        .answers(200, "The groups, the largest first")
        .problems(&[ProblemCode::InvalidLabel])
        .command(["dead-letters", "groups"], &[LABEL, SINCE, WITH])
        .more("step or undo, class, call, and text without ids, numbers and times");
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(groups));

    fn example() -> (GroupsQuery, DeadLetterGroups) {
        let query = GroupsQuery {
            task_type: Some("create-zip-from-files".to_owned()),
            status: vec![TaskStatus::DeadLettered],
            label: vec!["order=4711".to_owned()],
            since: Some(Time(MADE.to_owned())),
            with: Some(GroupsWith::Decisions),
        };
        let groups = DeadLetterGroups {
            groups: vec![group()],
            counted: 4812,
            others: 0,
            complete: true,
        };
        (query, groups)
    }
}

/// An example.
#[must_use]
pub fn group() -> DeadLetterGroup {
    DeadLetterGroup {
        id: GROUP.to_owned(),
        task_type: "BookSeat".to_owned(),
        step: Some("charge".to_owned()),
        class: Some("permanent".to_owned()),
        cause: cause(),
        text: "the card # was declined".to_owned(),
        count: 4812,
        by_status: BTreeMap::from([(TaskStatus::DeadLettered, 4812)]),
        first_at: MADE.to_owned(),
        last_at: CHANGED.to_owned(),
        first: Some(TASK),
        first_program: Some("0.1.0".to_owned()),
        example: TASK,
        last_decision: Some(PastDecision {
            operation: OTHER.to_string(),
            action: BulkAction::Redrive,
            note: "the bank is back (by kim)".to_owned(),
            actor: "operator:kim".to_owned(),
            at: MADE.to_owned(),
            results: BulkResults {
                tasks: 41,
                by_status: BTreeMap::from([
                    (TaskStatus::Completed, 40),
                    (TaskStatus::DeadLettered, 1),
                ]),
                deleted: 0,
            },
        }),
    }
}

fn list(page: &Page<DeadLetter>) -> View {
    let row = |letter: &DeadLetter| {
        let failure = letter.failure.as_ref();
        let message = failure.map(|failure| {
            let by = failure.blocked_by.as_ref();
            by.map_or(&*failure.message, |by| &*by.message)
        });
        vec![
            Cell::Task(letter.task_id.to_string()),
            format!("{} v{}", letter.task_type, letter.version).into(),
            Cell::of(&letter.status),
            Cell::Time(letter.updated_at.clone()),
            Cell::of(&letter.cause),
            Cell::text(message),
            Cell::labels(&letter.labels),
        ]
    };
    let heads = [
        "task",
        "type",
        "status",
        "since",
        "cause",
        "what went wrong",
        "labels",
    ];
    let table = Table::of("dead letters", &heads, page.items.iter().map(row));
    View::Table(table.page(false, page.next_cursor.as_deref()))
}

/// What was last decided, and how that ended: `redrive: 40 completed, 1 dead_lettered`.
fn last_time(group: &DeadLetterGroup) -> Option<String> {
    let last = group.last_decision.as_ref()?;
    let states = last.results.states();
    Some(match states.as_str() {
        "" => last.action.to_string(),
        states => format!("{}: {states}", last.action),
    })
}

fn groups(found: &DeadLetterGroups) -> View {
    let row = |group: &DeadLetterGroup| {
        vec![
            Cell::name(&group.id),
            Cell::Number(group.count),
            Cell::of(&group.task_type),
            Cell::of(&group.cause),
            Cell::of(&group.text),
            Cell::Time(group.first_at.clone()),
            Cell::text(group.first_program.as_deref()),
            Cell::Time(group.last_at.clone()),
            Cell::Task(group.example.to_string()),
            Cell::text(last_time(group).as_deref()),
        ]
    };
    let heads = [
        "group",
        "count",
        "type",
        "cause",
        "what went wrong",
        "first",
        "by program",
        "last",
        "one of them",
        "last time",
    ];
    let mut table = Table::of("dead letters", &heads, found.groups.iter().map(row));
    // What no row has.
    if found.others > 0 {
        let text = format!("{} more tasks in further groups", found.others);
        table.below.push(text.into());
    }
    if !found.complete {
        let text = "older tasks were not looked at: give --type, --status or --label";
        table.below.push(text.into());
    }
    View::Table(table)
}
