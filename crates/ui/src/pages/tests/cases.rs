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
        "/tasks/{id}/decide/{what}",
        "/tasks/running/decide/cancel",
        "is undone",
        &[],
    ),
    case(
        "/tasks/{id}/decide/{what}",
        "/tasks/dead_lettered/decide/retry",
        "Runs what gave up again.",
        &[PATCH, NOTE],
    ),
    case(
        "/tasks/{id}/decide/{what}",
        "/tasks/compensation_failed/decide/retry",
        "Runs what gave up again.",
        &[NOTE],
    ),
    case(
        "/tasks/{id}/decide/{what}",
        "/tasks/dead_lettered/decide/undo",
        "Undoes what it has done.",
        &[NOTE],
    ),
    case(
        "/tasks/{id}/decide/{what}",
        "/tasks/dead_lettered/decide/step-done?step=ship",
        "the output",
        &[("output", r#"{"parcel": [1, 2.5]}"#), NOTE],
    ),
    case(
        "/tasks/{id}/decide/{what}",
        "/tasks/compensation_failed/decide/step-undone?step=ship",
        "Undoes the others.",
        &[NOTE],
    ),
    case(
        "/tasks/{id}/decide/{what}",
        "/tasks/compensation_failed/decide/step-skipped?step=ship",
        "Leaves the effects",
        &[NOTE],
    ),
    case(
        "/tasks/{id}/decide/{what}",
        "/tasks/dead_lettered/decide/settle-undone",
        "Ends the task as resolved.",
        &[NOTE],
    ),
    case(
        "/tasks/{id}/decide/{what}",
        "/tasks/dead_lettered/decide/settle-done",
        "Ends the task as resolved.",
        &[NOTE],
    ),
    case(
        "/tasks/{id}/decide/{what}",
        "/tasks/dead_lettered/decide/settle-skipped",
        "Ends the task as resolved.",
        &[NOTE],
    ),
    case(
        "/tasks/{id}/decide/{what}",
        "/tasks/dead_lettered/decide/settle-not-needed",
        "Ends the task as resolved.",
        &[NOTE],
    ),
    case(
        "/tasks/{id}/decide/{what}",
        "/tasks/waiting/decide/signal?step=ship",
        "Answers ship.",
        &[
            ("body.by", "Kim \"Lee\""),
            ("body.amount", "12.5"),
            ("body.is_urgent", "true"),
            ("body.note", "by phone"),
        ],
    ),
    case(
        "/tasks/{id}/decide/{what}",
        "/tasks/running/decide/recount",
        "Counts none",
        &[NOTE],
    ),
    case(
        "/tasks/{id}/decide/{what}",
        "/tasks/completed/decide/run-again",
        "a new task",
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
        "/schedules/new",
        "/schedules/new?type=order-lamp",
        "At each due time",
        &[
            ("name", "weekly.1"),
            ("cron", "15 4 * * mon"),
            ("zone", "Europe/Berlin"),
            ("run_at", "2027-01-02T03:04:05Z"),
            ("request", r#"{"name": "Daybreak", "price": 7.25}"#),
            ("misfire", "skip"),
            ("overlap", "allow"),
            ("grace", "5m"),
            ("catch_up_limit", "7"),
        ],
    ),
    case(
        "/schedules/{name}/edit",
        "/schedules/nightly/edit",
        "Due times from now on",
        &[
            ("cron", "15 4 * * mon"),
            ("zone", "Europe/Berlin"),
            ("run_at", "2027-01-02T03:04:05Z"),
            ("request.title", "it's \"so\""),
            ("request.count", "12"),
            ("misfire", "skip"),
            ("overlap", "allow"),
            ("grace", "5m"),
            ("catch_up_limit", "7"),
        ],
    ),
    case(
        "/bulk/new?action=redrive",
        "/bulk/new?action=redrive&group=g1",
        "with its retries anew",
        &[
            ("sample", "20"),
            ("per_minute", "600"),
            ("max_failures", "5"),
            NOTE,
        ],
    ),
    case(
        "/bulk/new?action=resolve",
        "/bulk/new?action=resolve&type=OrderLamp&failure_text=a+b",
        "Nothing more runs",
        &[
            ("as", "done"),
            ("sample", "20"),
            ("per_minute", "600"),
            ("max_failures", "5"),
            NOTE,
        ],
    ),
    case(
        "/bulk/new?action=cancel",
        "/bulk/new?action=cancel&label=a%3Db&label=c%3Dd%3De",
        "what it has done is undone",
        &[
            ("sample", "20"),
            ("per_minute", "600"),
            ("max_failures", "5"),
            NOTE,
        ],
    ),
    case(
        "/bulk/new?action=run-again",
        "/bulk/new?action=run-again&status=completed&failure_class=timed_out",
        "a new task",
        &[
            ("sample", "20"),
            ("per_minute", "600"),
            ("max_failures", "5"),
            NOTE,
        ],
    ),
    case(
        "/bulk/{id}/{what:pause|resume|stop}",
        "/bulk/b1/stop",
        "No further task is begun",
        &[],
    ),
    case(
        "/bulk/{id}/{what:pause|resume|stop}",
        "/bulk/b1/pause",
        "until a person resumes it",
        &[],
    ),
    case(
        "/bulk/{id}/{what:pause|resume|stop}",
        "/bulk/b2/resume",
        "counted anew",
        &[],
    ),
    case(
        "/types/{name}/disable",
        "/types/order-lamp/disable",
        "are refused",
        &[NOTE],
    ),
    case(
        "/types/{name}/enable",
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
        "/schedules/{name}/delete",
        "/schedules/nightly/delete",
        "submits a task any more",
        &[],
    ),
    case(
        "/views/{name}/set",
        "/views/late/set?q=order%3D4711",
        "find it as",
        &[("q", "order=4712 \"a b\""), ("columns", "order,submitted")],
    ),
    case(
        "/views/{name}/delete",
        "/views/late/delete",
        "No search finds it",
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
    case(
        "/breakers/{name}/close",
        "/breakers/carrier/close",
        "Attempts start",
        &[NOTE],
    ),
    case(
        "/workers/{name}/pause",
        "/workers/w1/pause?role=api",
        "No such process is alive now.",
        &[("role", "dev"), NOTE],
    ),
    case(
        "/workers/{name}/resume",
        "/workers/w1/resume",
        "No other process takes tasks meanwhile from",
        &[("role", "dev"), NOTE],
    ),
];
