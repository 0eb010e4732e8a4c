//! Streams of events.

use super::params::{LAST_EVENT_ID, RETRY_AFTER};
use crate::openapi::{CACHE_CONTROL, Operation, Reply, schema_of};
use counterstep_contracts::ProblemCode as C;
use counterstep_contracts::http::{AuditEvent, ChangeEvent, ProgressEvent};
use counterstep_contracts::operation::task_lists::ListTasks;
use counterstep_contracts::operation::{Chapter, Declared, QueryParam, TASK_ID};

const OF_TASK_EXAMPLE: &str = "id: 3\ndata: {\"seq\":3,\"change_id\":\"01930d2c-6d00-7000-8000-000000000003\",\
    \"at\":\"2026-11-20T18:00:01Z\",\"event\":\"claimed\",\"from\":\"dispatched\",\"to\":\"running\",\"epoch\":1,\
    \"actor\":\"worker:08a4bd91a6db\",\"status\":\"running\"}\n\n";

const OF_MANY_EXAMPLE: &str = "id: 4711\ndata: {\"task_id\":\"01930d2c-6c4b-7d5e-8f00-0123456789ab\",\
    \"task_type\":\"CreateZipFromFiles\",\"status\":\"completed\",\"created_at\":\"2026-11-20T18:00:00Z\",\
    \"updated_at\":\"2026-11-20T18:00:02Z\",\"revision\":7}\n\n";

pub(in super::super) const OF_TASK: Operation = Operation::new(
    "followTask",
    Chapter::Tasks,
    "Follow what happens to a task, as a stream of events",
)
.path(&[TASK_ID])
.headers(&[LAST_EVENT_ID])
.replies(&[
    Reply::events(
        "A stream; `data` is an entry of the audit with the `status` after it, and of events `progress` the progress of \
         running steps",
        &[schema_of::<AuditEvent>, schema_of::<ProgressEvent>],
        OF_TASK_EXAMPLE,
    )
    .headers(&[CACHE_CONTROL]),
    Reply::empty(204, "The task has ended, and the client has all its events").headers(&[RETRY_AFTER]),
])
.problems(&[
    C::MalformedParameter,
    C::NoSuchTask,
    C::TooManyRequests,
    C::TooManyStreams,
]);

/// Those of the list that hold for a task from its beginning to its end, and its state.
fn filters() -> Vec<QueryParam> {
    let all = Declared::of::<ListTasks>()
        .query
        .map_or_else(Vec::new, |all| all());
    let of_events = |it: &QueryParam| ["type", "status", "label"].contains(&&*it.name);
    all.into_iter().filter(of_events).collect()
}

pub(in super::super) const OF_MANY: Operation = Operation::new(
    "followTasks",
    Chapter::Tasks,
    "Follow which tasks change, as a stream of events",
)
.declared_query(filters)
.headers(&[LAST_EVENT_ID])
.replies(&[Reply::events(
    "An endless stream; `data` is a line of the list of tasks with a `revision`",
    &[schema_of::<ChangeEvent>],
    OF_MANY_EXAMPLE,
)
.headers(&[CACHE_CONTROL])])
.problems(&[
    C::MalformedParameter,
    C::InvalidLabel,
    C::TooManyRequests,
    C::TooManyStreams,
]);
