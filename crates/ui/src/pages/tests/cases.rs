//! Each decision of the pages, with other values for its fields.

/// A decision, on a page that offers it.
pub(super) struct Case {
    /// Its address, as `routes::all_decisions` has it.
    pub(super) decision: &'static str,
    pub(super) page: &'static str,
    /// Another value for each field of its form.
    pub(super) changed: &'static [(&'static str, &'static str)],
    /// A part of its preview.
    pub(super) says: &'static str,
}

const fn case(
    decision: &'static str,
    page: &'static str,
    says: &'static str,
    changed: &'static [(&'static str, &'static str)],
) -> Case {
    Case {
        decision,
        page,
        changed,
        says,
    }
}

const NOTE: (&str, &str) = ("note", "it's \"so\" <now>");
const PATCH: (&str, &str) = (
    "patch",
    r#"{"amount": 12, "to": {"city": "Bonn", "old": {}}, "x": null}"#,
);

pub(super) const CASES: &[Case] = &[
    case(
        "/tasks/{id}/decide/cancel",
        "/tasks/running/decide/cancel",
        "told to stop",
        &[],
    ),
    case(
        "/tasks/{id}/decide/retry",
        "/tasks/dead_lettered/decide/retry",
        "tried again",
        &[PATCH, NOTE],
    ),
    case(
        "/tasks/{id}/decide/retry",
        "/tasks/compensation_failed/decide/retry",
        "tried again",
        &[NOTE],
    ),
    case(
        "/tasks/{id}/decide/undo",
        "/tasks/dead_lettered/decide/undo",
        "is undone",
        &[NOTE],
    ),
    case(
        "/tasks/{id}/decide/step-done",
        "/tasks/dead_lettered/decide/step-done?step=ship",
        "gets an output",
        &[("output", r#"{"parcel": [1, 2.5]}"#), NOTE],
    ),
    case(
        "/tasks/{id}/decide/step-undone",
        "/tasks/compensation_failed/decide/step-undone?step=ship",
        "counts as undone",
        &[NOTE],
    ),
    case(
        "/tasks/{id}/decide/step-skipped",
        "/tasks/compensation_failed/decide/step-skipped?step=ship",
        "effects stay",
        &[NOTE],
    ),
    case(
        "/tasks/{id}/decide/settle-undone",
        "/tasks/dead_lettered/decide/settle-undone",
        "ends as resolved",
        &[NOTE],
    ),
    case(
        "/tasks/{id}/decide/settle-done",
        "/tasks/dead_lettered/decide/settle-done",
        "ends as resolved",
        &[NOTE],
    ),
    case(
        "/tasks/{id}/decide/settle-skipped",
        "/tasks/dead_lettered/decide/settle-skipped",
        "effects left",
        &[NOTE],
    ),
    case(
        "/tasks/{id}/decide/settle-not-needed",
        "/tasks/dead_lettered/decide/settle-not-needed",
        "effects left",
        &[NOTE],
    ),
    case(
        "/tasks/{id}/decide/signal",
        "/tasks/waiting/decide/signal?step=ship",
        "gets this answer",
        &[("body", r#"{"by": "Kim"}"#)],
    ),
    case(
        "/tasks/{id}/decide/recount",
        "/tasks/running/decide/recount",
        "counts as the first",
        &[NOTE],
    ),
    case(
        "/tasks/{id}/decide/run-again",
        "/tasks/completed/decide/run-again",
        "A new task",
        &[("from", "ship"), PATCH, NOTE],
    ),
    case(
        "/submit/{type}",
        "/submit/order-lamp",
        "",
        &[
            ("request", r#"{"name": "Daybreak", "price": 1.50}"#),
            ("key", "k-1"),
            ("label", "order=4711, urgent=yes"),
        ],
    ),
    case(
        "/bulk/new?action=redrive",
        "/bulk/new?action=redrive&group=g1",
        "with its retries anew",
        &[NOTE],
    ),
    case(
        "/bulk/new?action=resolve",
        "/bulk/new?action=resolve&type=OrderLamp&failure_text=a+b",
        "Nothing more runs",
        &[("as", "done"), NOTE],
    ),
    case(
        "/bulk/new?action=cancel",
        "/bulk/new?action=cancel&label=a%3Db&label=c%3Dd%3De",
        "what it has done is undone",
        &[NOTE],
    ),
    case(
        "/bulk/new?action=run-again",
        "/bulk/new?action=run-again&status=completed&failure_class=timed_out",
        "a new task",
        &[NOTE],
    ),
    case(
        "/bulk/{id}/stop",
        "/bulk/b1/stop",
        "No further task is begun",
        &[],
    ),
    case(
        "/types/{type}/disable",
        "/types/order-lamp/disable",
        "are refused",
        &[NOTE],
    ),
    case(
        "/types/{type}/enable",
        "/types/order-lamp/enable",
        "takes submissions again",
        &[NOTE],
    ),
    case(
        "/schedules/{name}/pause",
        "/schedules/nightly/pause",
        "are not caught up",
        &[],
    ),
    case(
        "/schedules/{name}/resume",
        "/schedules/nightly/resume",
        "are not caught up",
        &[],
    ),
    case(
        "/schedules/{name}/run",
        "/schedules/nightly/run",
        "is submitted now",
        &[],
    ),
    case(
        "/queues/{name}/pause",
        "/queues/lamps/pause",
        "no process claims",
        &[NOTE],
    ),
    case(
        "/queues/{name}/resume",
        "/queues/lamps/resume",
        "claimed again",
        &[NOTE],
    ),
    case(
        "/limits/{name}/set",
        "/limits/carrier/set",
        "20 at once, 500/1s started",
        &[("at_once", "7"), ("rate", "50/2s"), NOTE],
    ),
    case(
        "/limits/{name}/set",
        "/limits/free/set",
        "counts in all processes",
        &[("at_once", "7"), ("rate", "50/2s"), NOTE],
    ),
    case(
        "/limits/{name}/reset",
        "/limits/carrier/reset",
        "as it is declared",
        &[NOTE],
    ),
];
