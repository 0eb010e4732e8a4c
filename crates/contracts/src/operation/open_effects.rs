//! Open effects of a tenant: of each task, and counted.

use super::command::{Takes, flag};
use super::examples::{CHANGED, TASK, cursor};
use super::shown::{Cell, Shown, Table, View};
use super::{About, Access, Chapter, Cursor, Limit, Operation};
use crate::access::Role;
use crate::bulk::Amount;
use crate::http::Page;
use crate::open_effects::{OpenEffect, OpenEffectKind, OpenEffectSum, OpenEffectSums, OpenEffects};
use crate::{StepNo, TaskStatus};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

const READ: Access = Access::Role(Role::Read);

/// List tasks with open effects.
#[derive(Debug)]
pub struct ListOpenEffects;
/// Count open effects.
#[derive(Debug)]
pub struct SumOpenEffects;

fn kinds(_: &mut SchemaGenerator) -> Schema {
    let all = OpenEffectKind::ALL.iter().map(|it| it.as_str());
    json_schema!({ "type": "array", "items": { "type": "string", "enum": all.collect::<Vec<_>>() } })
}

/// Which open effects.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct OpenEffectsQuery {
    /// Of tasks of this type, by its declared name or its route
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub task_type: Option<String>,
    /// Of this kind; repeated, of one of several
    #[serde(default)]
    #[schemars(schema_with = "kinds")]
    pub kind: Vec<OpenEffectKind>,
    /// Tasks of a page
    #[serde(default)]
    pub limit: Limit,
    /// The `next_cursor` of the page before, with the same filters
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
}

/// Which open effects are counted.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct OpenEffectSumsQuery {
    /// Of tasks of this type, by its declared name or its route
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub task_type: Option<String>,
}

impl Operation for ListOpenEffects {
    type Target = ();
    type Input = OpenEffectsQuery;
    type Output = Page<OpenEffects>;
    const ABOUT: About = About::get("listOpenEffects", "/api/open-effects", READ)
        .summary(
            Chapter::Deciding,
            "List tasks at rest that have done something outside which nothing has taken back",
        )
        .answers(
            200,
            "A page, the newest tasks first; it may be short or empty, and is the last one without `next_cursor`",
        )
        .command(
            ["effects", "list"],
            &[flag("kind", "--kind", Takes::Text).is("Of this kind: in_doubt, undo_failed, parked, left or waived")],
        );
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(list));

    fn example() -> (OpenEffectsQuery, Page<OpenEffects>) {
        let query = OpenEffectsQuery {
            task_type: Some("create-zip-from-files".to_owned()),
            kind: vec![OpenEffectKind::UndoFailed],
            limit: Limit::default(),
            cursor: cursor(),
        };
        let effect = OpenEffect {
            no: StepNo(2),
            step: "charge".to_owned(),
            kind: OpenEffectKind::UndoFailed,
            reason: "its undo gave up: the account is closed".to_owned(),
            service: Some("bank".to_owned()),
            amounts: amounts(),
        };
        let task = OpenEffects {
            task_id: TASK,
            task_type: "PlaceOrder".to_owned(),
            status: TaskStatus::CompensationFailed,
            since: CHANGED.to_owned(),
            effects: vec![effect],
        };
        (query, Page::whole(vec![task]))
    }
}

impl Operation for SumOpenEffects {
    type Target = ();
    type Input = OpenEffectSumsQuery;
    type Output = OpenEffectSums;
    const ABOUT: About = About::get("sumOpenEffects", "/api/open-effects/sums", READ)
        .summary(
            Chapter::Deciding,
            "Count open effects by type, step, kind and service, with the sums of their amounts",
        )
        .answers(
            200,
            "Of the newest 1,000 parked tasks, and of the newest 2,000 that have ended, of which the rows of 1,000 are read",
        )
        .command(["effects", "sums"], &[]);
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(sums));

    fn example() -> (OpenEffectSumsQuery, OpenEffectSums) {
        let query = OpenEffectSumsQuery {
            task_type: Some("create-zip-from-files".to_owned()),
        };
        let sum = OpenEffectSum {
            task_type: "PlaceOrder".to_owned(),
            step: "charge".to_owned(),
            kind: OpenEffectKind::UndoFailed,
            service: Some("bank".to_owned()),
            effects: 33,
            oldest: CHANGED.to_owned(),
            amounts: amounts(),
            example: TASK,
        };
        let sums = OpenEffectSums {
            sums: vec![sum],
            tasks: 33,
            unknown: 0,
            complete: true,
        };
        (query, sums)
    }
}

fn amounts() -> Vec<Amount> {
    vec![Amount {
        currency: "EUR".to_owned(),
        sum: "8213.40".to_owned(),
    }]
}

fn list(page: &Page<OpenEffects>) -> View {
    let of_task = |task: &OpenEffects| {
        let row = |it: &OpenEffect| {
            vec![
                Cell::Task(task.task_id.to_string()),
                Cell::of(&task.task_type),
                Cell::of(&task.status),
                Cell::of(&it.step),
                Cell::of(&it.kind),
                Cell::text(it.service.as_deref()),
                Amount::joined(&it.amounts).into(),
                Cell::Time(task.since.clone()),
                Cell::of(&it.reason),
            ]
        };
        task.effects.iter().map(row).collect::<Vec<_>>()
    };
    let heads = [
        "task", "type", "status", "step", "kind", "service", "amount", "since", "why",
    ];
    let rows = page.items.iter().flat_map(of_task);
    let table = Table::of("open effects", &heads, rows);
    View::Table(table.page(false, page.next_cursor.as_deref()))
}

fn sums(found: &OpenEffectSums) -> View {
    let row = |it: &OpenEffectSum| {
        vec![
            Cell::of(&it.kind),
            Cell::of(&it.task_type),
            Cell::of(&it.step),
            Cell::text(it.service.as_deref()),
            Cell::Number(it.effects),
            Amount::joined(&it.amounts).into(),
            Cell::Time(it.oldest.clone()),
            Cell::Task(it.example.to_string()),
        ]
    };
    let heads = [
        "kind",
        "type",
        "step",
        "service",
        "effects",
        "amount",
        "oldest",
        "one of them",
    ];
    let mut table = Table::of("open effects", &heads, found.sums.iter().map(row));
    if found.unknown > 0 {
        let text = format!(
            "what {} tasks have done is not counted: the server does not know their type, or cannot read their rows",
            found.unknown
        );
        table.below.push(text.into());
    }
    if !found.complete {
        let text = "older tasks were not looked at: give --type, or walk `effects list`";
        table.below.push(text.into());
    }
    View::Table(table)
}
