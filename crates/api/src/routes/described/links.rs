//! Links to files of responses.

use super::examples;
use super::params::{param, text};
use super::tasks::{OF_FIELD, OF_LIST, file};
use crate::openapi::{CACHE_CONTROL, Operation, Reply};
use counterstep_contracts::ProblemCode as C;
use counterstep_contracts::link::{NewLinkRequest, ResultLink};
use counterstep_contracts::operation::{Chapter, Param};

const TENANT: Param = param("tenant", "As in the link", text, "default");
const EXPIRES: Param = param("expires", "As in the link", text, "1795480000");
const SIGNATURE: Param = param(
    "signature",
    "As in the link",
    text,
    "Zm9yZ2VkLCBvZiBjb3Vyc2U",
);

const MADE: &[Reply] = &[Reply::json::<ResultLink>(
    200,
    "The link: its holder needs no other credential",
    examples::link,
)
.headers(&[CACHE_CONTROL])];

const NOT_MADE: &[C] = &[
    C::MalformedParameter,
    C::NoSuchTask,
    C::NotCompleted,
    C::NoSuchResult,
    C::LinksOff,
];

const fn made(id: &'static str, summary: &'static str, path: &'static [Param]) -> Operation {
    Operation::new(id, Chapter::Tasks, summary)
        .path(path)
        .body::<NewLinkRequest>(examples::new_link_request)
        .body_is_optional()
        .replies(MADE)
        .problems(NOT_MADE)
}

pub(in super::super) const MAKE: Operation = made(
    "makeLink",
    "Make a link to a stored file of the response of a task",
    OF_FIELD,
);
pub(in super::super) const MAKE_OF_LIST: Operation = made(
    "makeLinkOfList",
    "Make a link to a stored file of a list in the response of a task",
    OF_LIST,
);

const fn followed(id: &'static str, summary: &'static str, path: &'static [Param]) -> Operation {
    file(id, summary, path)
        .query(&[TENANT, EXPIRES, SIGNATURE])
        .problems(&[C::NoSuchLink, C::RangeNotSatisfiable, C::Unavailable])
}

pub(in super::super) const FOLLOW: Operation =
    followed("followLink", "Get the file of a link", OF_FIELD);
pub(in super::super) const FOLLOW_OF_LIST: Operation = followed(
    "followLinkOfList",
    "Get the file of a link to a file of a list",
    OF_LIST,
);
