//! Operations on many tasks: starting one, which there are, one of them, and stopping it.

use super::bulk_shown::{answered, list, shown};
use super::command::{FROM, Flag, LABEL, NOTE, PATCH, Preset, SINCE, Takes, UNTIL, flag};
use super::dead_letters::{GROUP_IDS, group};
use super::decisions::AS;
use super::examples::{CHANGED, GROUP, MADE, OTHER, TASK};
use super::shown::Shown;
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
use crate::pace::{BulkResults, Pace};
use crate::{ProblemCode, TaskStatus};
use serde_json::json;
use std::collections::BTreeMap;

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
const SAMPLE: Flag = flag("pace.sample", "--sample", Takes::Number)
    .is("Decide on this many, and pause until `bulk resume`");
const PER_MINUTE: Flag = flag("pace.per_minute", "--per-minute", Takes::Number)
    .is("Decide on at most this many a minute");
const MAX_FAILURES: Flag = flag("pace.max_failures", "--max-failures", Takes::Number)
    .is("Pause when this many of its tasks have gone wrong: are parked again, or have failed");
const PREVIEW: Flag = flag("preview", "--preview", Takes::Text).is("Count them and change nothing");
const SETTLED: Flag = AS.is("What has become of them").needed();

const PRESETS: &[Preset] = &[
    Preset::of(
        ["dead-letters", "redrive"],
        "Retry many parked tasks, with their retries anew, from the steps that they have completed",
        &[("action", "redrive")],
        &[
            OF_GROUP,
            ALL,
            SEARCH,
            OF_TYPE,
            STATUS,
            LABELS,
            FIRST,
            LAST,
            CLASS,
            TEXT,
            PREVIEW,
            PATCH,
            SAMPLE,
            PER_MINUTE,
            MAX_FAILURES,
            NOTE,
        ],
    ),
    Preset::of(
        ["dead-letters", "resolve"],
        "Settle many parked tasks by hand: they end as resolved",
        &[("action", "resolve")],
        &[
            SETTLED,
            OF_GROUP,
            ALL,
            SEARCH,
            OF_TYPE,
            STATUS,
            LABELS,
            FIRST,
            LAST,
            CLASS,
            TEXT,
            PREVIEW,
            SAMPLE,
            PER_MINUTE,
            MAX_FAILURES,
            NOTE,
        ],
    ),
    Preset::of(
        ["bulk", "cancel"],
        "Cancel many tasks that have not ended and are not parked: what they have done is undone",
        &[("action", "cancel")],
        &[
            OF_GROUP,
            ALL,
            SEARCH,
            OF_TYPE,
            STATUS,
            LABELS,
            FIRST,
            LAST,
            CLASS,
            TEXT,
            PREVIEW,
            SAMPLE,
            PER_MINUTE,
            MAX_FAILURES,
            NOTE,
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
            SAMPLE,
            PER_MINUTE,
            MAX_FAILURES,
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
            pace: Some(pace()),
            note: "the bank is back".to_owned(),
            actor: Some("kim".to_owned()),
            preview: false,
        };
        (request, BulkAnswer::Started(bulk()))
    }
}

const fn pace() -> Pace {
    Pace {
        sample: Some(20),
        per_minute: Some(600),
        max_failures: Some(5),
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
        pace: Some(pace()),
        status: BulkStatus::Running,
        paused_for: None,
        gone_wrong: Some(3),
        waits_for: Some("the circuit breaker `bank`, which is open".to_owned()),
        expected_end: Some(CHANGED.to_owned()),
        done: 600,
        failed: 0,
        skipped: 1,
        already_run_again: None,
        left: Some(4211),
        failures: Vec::new(),
        results: Some(BulkResults {
            tasks: 500,
            by_status: BTreeMap::from([
                (TaskStatus::Completed, 497),
                (TaskStatus::DeadLettered, 3),
            ]),
            deleted: 0,
        }),
        created_at: MADE.to_owned(),
        updated_at: CHANGED.to_owned(),
    }
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
