//! Tasks that are there: one task, its files, its signals.

use super::examples;
use super::params::{
    ETAG, IF_NONE_MATCH, PREFER, PREFERENCE_APPLIED, RETRY_AFTER, WAIT, param, text,
};
use crate::openapi::{CACHE_CONTROL, Header, Operation, Reply};
use counterstep_contracts::ProblemCode as C;
use counterstep_contracts::http::TaskView;
use counterstep_contracts::operation::{Chapter, Param, TASK_ID};
use serde_json::{Value, json};

fn index() -> Value {
    json!({ "type": "integer", "minimum": 0, "maximum": 1_000_000 })
}

const RESULT: Param = param(
    "name",
    "The field of the response that is a stored file, or a list of them",
    text,
    "zip",
);
const INDEX: Param = param("index", "Its place in the list, from 0", index, "0");
pub(super) const OF_FIELD: &[Param] = &[TASK_ID, RESULT];
pub(super) const OF_LIST: &[Param] = &[TASK_ID, RESULT, INDEX];
const RANGE: Param = param(
    "Range",
    "One range of bytes; what cannot be read gets the whole file",
    text,
    "bytes=0-1023",
);
const IF_RANGE: Param = param(
    "If-Range",
    "The `ETag` that the range is of: of another one, the whole file is answered",
    text,
    "\"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"",
);

const SHOWN: &[Header] = &[ETAG, CACHE_CONTROL, RETRY_AFTER, PREFERENCE_APPLIED];
const NO_SUCH_TASK: &[C] = &[C::MalformedParameter, C::NoSuchTask];

pub(in super::super) const GET: Operation = Operation::new(
    "getTask",
    Chapter::Tasks,
    "Show a task, now or when it is at rest",
)
.path(&[TASK_ID])
.query(&[WAIT])
.headers(&[PREFER, IF_NONE_MATCH])
.replies(&[
    Reply::json::<TaskView>(200, "The task", examples::running).headers(SHOWN),
    Reply::empty(304, "The task is as the client has it").headers(SHOWN),
])
.problems(NO_SUCH_TASK);

const FILE: &[Header] = &[
    ETAG,
    Header {
        name: "Content-Disposition",
        about: "The name of the file: it is to be kept, never to be shown as a page",
        is_always: true,
    },
    Header {
        name: "Accept-Ranges",
        about: "`bytes`",
        is_always: true,
    },
];

const FILE_REPLIES: &[Reply] = &[
    Reply::text(200, "The file", "*/*", None).headers(FILE),
    Reply::text(206, "The range of the file", "*/*", None).headers(FILE),
    Reply::empty(304, "The client has the file").headers(FILE),
];

const NO_SUCH_RESULT: &[C] = &[
    C::MalformedParameter,
    C::NoSuchTask,
    C::NotCompleted,
    C::NoSuchResult,
    C::RangeNotSatisfiable,
];

/// A file, or a range of it.
pub(super) const fn file(
    id: &'static str,
    summary: &'static str,
    path: &'static [Param],
) -> Operation {
    Operation::new(id, Chapter::Tasks, summary)
        .path(path)
        .headers(&[RANGE, IF_RANGE, IF_NONE_MATCH])
        .replies(FILE_REPLIES)
        .problems(NO_SUCH_RESULT)
}

pub(in super::super) const FILE_OF_FIELD: Operation = file(
    "getResultFile",
    "Get a stored file of the response of a task",
    OF_FIELD,
);
pub(in super::super) const FILE_OF_LIST: Operation = file(
    "getResultFileOfList",
    "Get a stored file of a list in the response of a task",
    OF_LIST,
);
