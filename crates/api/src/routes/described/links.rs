//! Links to files of responses.

use super::examples;
use super::params::{IF_NONE_MATCH, param, text};
use super::tasks::{FILE_REPLIES, IF_RANGE, INDEX, RANGE, RESULT};
use crate::openapi::{CACHE_CONTROL, Operation, Reply};
use counterstep_contracts::ProblemCode as C;
use counterstep_contracts::link::{NewLinkRequest, ResultLink};
use counterstep_contracts::operation::{Chapter, Param, TASK_ID};

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

pub(in super::super) const MAKE: Operation = Operation::new(
    "makeLink",
    Chapter::Tasks,
    "Make a link to a stored file of the response of a task",
)
.path(&[TASK_ID, RESULT])
.body::<NewLinkRequest>(examples::new_link_request)
.body_is_optional()
.replies(MADE)
.problems(NOT_MADE);

pub(in super::super) const MAKE_OF_LIST: Operation = Operation::new(
    "makeLinkOfList",
    Chapter::Tasks,
    "Make a link to a stored file of a list in the response of a task",
)
.path(&[TASK_ID, RESULT, INDEX])
.body::<NewLinkRequest>(examples::new_link_request)
.body_is_optional()
.replies(MADE)
.problems(NOT_MADE);

const NOT_FOLLOWED: &[C] = &[C::NoSuchLink, C::RangeNotSatisfiable, C::Unavailable];

pub(in super::super) const FOLLOW: Operation =
    Operation::new("followLink", Chapter::Tasks, "Get the file of a link")
        .path(&[TASK_ID, RESULT])
        .query(&[TENANT, EXPIRES, SIGNATURE])
        .headers(&[RANGE, IF_RANGE, IF_NONE_MATCH])
        .replies(FILE_REPLIES)
        .problems(NOT_FOLLOWED);

pub(in super::super) const FOLLOW_OF_LIST: Operation = Operation::new(
    "followLinkOfList",
    Chapter::Tasks,
    "Get the file of a link to a file of a list",
)
.path(&[TASK_ID, RESULT, INDEX])
.query(&[TENANT, EXPIRES, SIGNATURE])
.headers(&[RANGE, IF_RANGE, IF_NONE_MATCH])
.replies(FILE_REPLIES)
.problems(NOT_FOLLOWED);
