//! Operations on many tasks: starting one, which there are, one of them, and stopping it.

use super::command::{FROM, Flag, LABEL, NOTE, PATCH, Preset, SINCE, Takes, UNTIL, flag};
use super::dead_letters::{GROUP_IDS, group};
use super::decisions::AS;
use super::examples::{CHANGED, GROUP, MADE, OTHER, TASK};
use super::shown::{Cell, Shown, Table, View};
use super::{
    About, Access, Chapter, Ids, Link, Operation, OtherAnswer, Param, WHOLE_LIST, schema,
    text_target,
};
use crate::access::Role;
use crate::bulk::{
    Amount, BulkAction, BulkAnswer, BulkFilter, BulkPreview, BulkRequest, BulkStatus, BulkUndo,
    BulkView, UndoneStep, UnusualTask,
};
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
        ids: Some(&Ids {
            of: "bulk operation",
            length: 36,
            signs: "-_",
            list: ListBulkOperations::ABOUT.id,
            field: "id",
            shown: &["action", "status", "note"],
            looks: WHOLE_LIST,
        }),
    }
);

/// Do the same with many tasks, or show with which.
#[derive(Debug)]
pub struct StartBulkOperation;
/// List operations on many tasks.
#[derive(Debug)]
pub struct ListBulkOperations;
/// Look at an operation on many tasks.
#[derive(Debug)]
pub struct GetBulkOperation;
/// Stop an operation on many tasks.
#[derive(Debug)]
pub struct StopBulkOperation;

const LINKS: &[Link] = &[
    Link {
        operation: "getBulkOperation",
        parameter: "bulk_id",
        value: "$response.body#/id",
    },
    Link {
        operation: "stopBulkOperation",
        parameter: "bulk_id",
        value: "$response.body#/id",
    },
];

const OF_GROUP: Flag = flag("group", "--group", Takes::Id(&GROUP_IDS))
    .is("Of this group, see `dead-letters groups`, or at least 8 characters of the start or the ending of its id")
    .one_of();
const ALL: Flag = flag("filter", "--all", Takes::Empty)
    .is("All tasks to which the action applies")
    .one_of();
const SEARCH: Flag = flag("filter.q", "--q", Takes::Text)
    .is("Those that this search finds, as `tasks list --q` takes it")
    .one_of();
const OF_TYPE: Flag = flag("filter.type", "--type", Takes::Filter).one_of();
const STATUS: Flag = flag("filter.status", "--status", Takes::Filter)
    .is("In this state only; repeated: in one of these")
    .one_of();
const LABELS: Flag = LABEL.at("filter.labels").one_of();
const FIRST: Flag = SINCE.at("filter.since").one_of();
const LAST: Flag = UNTIL.at("filter.until").one_of();
const CLASS: Flag = flag("filter.failure_class", "--failure-class", Takes::Filter).one_of();
const TEXT: Flag = flag("filter.failure_text", "--failure-text", Takes::Filter).one_of();
const PREVIEW: Flag = flag("preview", "--preview", Takes::Text).is("Count them and change nothing");
const SETTLED: Flag = AS.is("What has become of them").needed();

const PRESETS: &[Preset] = &[
    Preset::of(
        ["dead-letters", "redrive"],
        "Retry many parked tasks, with their retries anew, from the steps that they have completed",
        &[("action", "redrive")],
        &[
            OF_GROUP, ALL, SEARCH, OF_TYPE, STATUS, LABELS, FIRST, LAST, CLASS, TEXT, PREVIEW,
            PATCH, NOTE,
        ],
    ),
    Preset::of(
        ["dead-letters", "resolve"],
        "Settle many parked tasks by hand: they end as resolved",
        &[("action", "resolve")],
        &[
            SETTLED, OF_GROUP, ALL, SEARCH, OF_TYPE, STATUS, LABELS, FIRST, LAST, CLASS, TEXT,
            PREVIEW, NOTE,
        ],
    ),
    Preset::of(
        ["bulk", "cancel"],
        "Cancel many tasks that have not ended and are not parked: what they have done is undone",
        &[("action", "cancel")],
        &[
            OF_GROUP, ALL, SEARCH, OF_TYPE, STATUS, LABELS, FIRST, LAST, CLASS, TEXT, PREVIEW, NOTE,
        ],
    ),
    Preset::of(
        ["bulk", "run-again"],
        "Run many tasks that have ended again, as new tasks; name their states with --status",
        &[("action", "run-again")],
        &[
            OF_GROUP,
            ALL,
            SEARCH,
            OF_TYPE,
            STATUS.needed(),
            LABELS,
            FIRST,
            LAST,
            CLASS,
            TEXT,
            PREVIEW,
            FROM,
            PATCH,
            NOTE,
        ],
    ),
];

impl Operation for StartBulkOperation {
    type Target = ();
    type Input = BulkRequest;
    type Output = BulkAnswer;
    const ABOUT: About = About::post(
        "startBulkOperation",
        "/api/bulk-operations",
        Access::Role(Role::Operate),
    )
    .summary(
        Chapter::Deciding,
        "Redrive, resolve, cancel or run again many tasks",
    )
    .answers(202, "Started: API processes execute it")
    .links(LINKS)
    .problems(&[
        ProblemCode::InvalidLabel,
        ProblemCode::GroupRenamed,
        ProblemCode::NoSuchView,
    ])
    .preview_by("preview")
    .presets(PRESETS);
    const OTHER: Option<OtherAnswer<BulkAnswer>> = Some(OtherAnswer {
        status: 200,
        answers: "With `preview`: which tasks it would be for; nothing has changed",
        is_it: |answer| matches!(answer, BulkAnswer::Preview(_)),
        example: || BulkAnswer::Preview(preview()),
        schemas: Some([schema::<BulkView>, schema::<BulkPreview>]),
    });
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(answered));

    fn example() -> (BulkRequest, BulkAnswer) {
        let request = BulkRequest {
            action: BulkAction::Redrive,
            settled: None,
            patch: None,
            from: None,
            group: Some(GROUP.to_owned()),
            filter: Some(of_type()),
            note: "the bank is back".to_owned(),
            actor: Some("kim".to_owned()),
            preview: false,
        };
        (request, BulkAnswer::Started(bulk()))
    }
}

fn of_type() -> BulkFilter {
    BulkFilter {
        task_type: Some("BookSeat".to_owned()),
        ..BulkFilter::default()
    }
}

fn preview() -> BulkPreview {
    BulkPreview {
        count: 4812,
        complete: true,
        tasks: vec![TASK],
        group: Some(GROUP.to_owned()),
        filter: Some(of_type()),
        causes: vec![group()],
        undo: Some(undo()),
        already_run_again: None,
        refused: None,
    }
}

fn undo() -> BulkUndo {
    let sum = Amount {
        currency: "EUR".to_owned(),
        sum: "8213.40".to_owned(),
    };
    BulkUndo {
        tasks: 1000,
        unknown: 4,
        in_doubt: 2,
        gave_up: 998,
        amounts: vec![sum.clone()],
        steps: vec![UndoneStep {
            task_type: "BookSeat".to_owned(),
            step: "charge".to_owned(),
            undo: "refund".to_owned(),
            tasks: 1000,
            in_doubt: 2,
            gave_up: 998,
            amounts: vec![sum],
        }],
        goes_on: Vec::new(),
        unusual: vec![UnusualTask {
            task_id: TASK,
            differs: "undoes `charge`, which is in doubt".to_owned(),
        }],
    }
}

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
        already_run_again: None,
        left: Some(4211),
        failures: Vec::new(),
        created_at: MADE.to_owned(),
        updated_at: CHANGED.to_owned(),
    }
}

/// How an operation stands, and the first failures.
fn shown(view: &BulkView) -> View {
    let progress = progress(view);
    let of_all = format!("{} {} {}: {progress}", view.id, view.action, view.status);
    let failed = view.failures.iter();
    let failed = failed.map(|it| format!("  {}: {}", it.task_id, it.reason).into());
    View::Lines([of_all.into()].into_iter().chain(failed).collect())
}

/// What was started, or which tasks it would be for.
fn answered(answer: &BulkAnswer) -> View {
    match answer {
        BulkAnswer::Started(view) => shown(view),
        BulkAnswer::Preview(found) => would_be_for(found),
    }
}

/// Which tasks an operation would be for.
fn would_be_for(found: &BulkPreview) -> View {
    let at_least = if found.complete { "" } else { "at least " };
    let mut lines = vec![format!(
        "{at_least}{}; nothing was changed",
        tasks(found.count)
    )];
    if let Some(again @ 1..) = found.already_run_again {
        lines.push(format!("already run again, and left out: {again}"));
    }
    if let Some(refused) = found.refused.as_ref().filter(|it| !it.reasons.is_empty()) {
        lines.push(format!("would be refused, of {}:", tasks(refused.tasks)));
        let reasons = refused.reasons.iter();
        lines.extend(reasons.map(|it| format!("  {}: {}", it.tasks, it.reason)));
    }
    lines.extend(found.group.iter().map(|group| format!("group: {group}")));
    lines.extend(found.filter.as_ref().map(|filter| {
        // A filter is texts, times and labels: there is none that has no form as JSON.
        format!(
            "filter: {}",
            serde_json::to_string(filter).unwrap_or_default()
        )
    }));
    let causes = found.causes.iter();
    lines.extend(causes.map(|it| {
        format!(
            "cause of {}: {}, {}: {}",
            it.count, it.task_type, it.cause, it.text
        )
    }));
    lines.extend(found.undo.iter().flat_map(what_if));
    lines.extend(found.tasks.iter().map(ToString::to_string));
    View::Lines(lines.into_iter().map(Cell::from).collect())
}

/// What would become of the tasks.
fn what_if(undo: &BulkUndo) -> Vec<String> {
    let mut lines = Vec::new();
    if undo.unknown > 0 {
        lines.push(format!("of {} no code is known here", tasks(undo.unknown)));
    }
    let looked_at = tasks(undo.tasks) + &Amount::listed(&undo.amounts);
    let some = |count: u64, what: &str| match count {
        0 => String::new(),
        count => format!(", {count} {what}"),
    };
    if !undo.goes_on.is_empty() {
        lines.push(format!("would go on, of {looked_at}:"));
    }
    lines.extend(undo.goes_on.iter().map(|it| {
        let in_doubt = some(it.in_doubt, "in doubt");
        format!(
            "  from {} of {}: {}{in_doubt}",
            it.step, it.task_type, it.tasks
        )
    }));
    if !undo.steps.is_empty() || undo.goes_on.is_empty() {
        lines.push(format!("would be undone, of {looked_at}:"));
    }
    lines.extend(undo.steps.iter().map(|it| {
        let more = some(it.in_doubt, "in doubt") + &some(it.gave_up, "gave up before");
        let (step, undo, sums) = (&it.step, &it.undo, Amount::listed(&it.amounts));
        format!(
            "  {step} of {} by {undo}: {}{sums}{more}",
            it.task_type, it.tasks
        )
    }));
    let unusual = undo.unusual.iter();
    lines.extend(unusual.map(|it| format!("differs: {} {}", it.task_id, it.differs)));
    lines
}

fn tasks(count: u64) -> String {
    format!("{count} task{}", if count == 1 { "" } else { "s" })
}

fn progress(view: &BulkView) -> String {
    let left = view
        .left
        .map_or_else(|| "more".to_owned(), |left| left.to_string());
    let again = view.already_run_again;
    let again = again.map_or_else(String::new, |again| format!("{again} already run again, "));
    format!(
        "{} done, {} failed, {} skipped, {again}{left} left",
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

#[cfg(test)]
mod tests {
    use super::StartBulkOperation;
    use crate::operation::Operation;
    use serde_json::json;

    #[test]
    fn a_preview_changes_nothing_and_need_not_outlive_its_caller() {
        let about = StartBulkOperation::ABOUT;
        assert!(about.changes_with(&json!({"action": "cancel"})));
        assert!(about.changes_with(&json!({"action": "cancel", "preview": false})));
        assert!(!about.changes_with(&json!({"action": "cancel", "preview": true})));
    }
}
