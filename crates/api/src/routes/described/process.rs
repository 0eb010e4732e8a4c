//! The processes, their health and metrics, and this document.

use super::examples;
use super::params::{param, text};
use crate::openapi::{Header, Operation, Reply};
use counterstep_contracts::ProblemCode as C;
use counterstep_contracts::http::Health;
use counterstep_contracts::operation::{Chapter, Param};
use counterstep_contracts::workers::HistoryView;
use serde_json::Value;

pub(in super::super) const HISTORY: Operation = Operation::new(
    "getHistory",
    Chapter::Process,
    "Show how the installation was doing in the last hour",
)
.replies(&[Reply::json::<HistoryView>(
    200,
    "As the process that answers has looked at it since it started",
    examples::history,
)]);

pub(in super::super) const LIVE: Operation = Operation::new(
    "isLive",
    Chapter::Process,
    "Whether the process answers and works",
)
.replies(&[Reply::json::<Health>(200, "It does", examples::live)])
.problems(&[C::Unavailable]);

pub(in super::super) const READY: Operation = Operation::new(
    "isReady",
    Chapter::Process,
    "Whether database and object store answer and take writes",
)
.replies(&[Reply::json::<Health>(200, "They do", examples::ready)])
.problems(&[C::Unavailable]);

pub(in super::super) const METRICS: Operation =
    Operation::new("getMetrics", Chapter::Process, "Show metrics").replies(&[Reply::text(
        200,
        "In the text format of Prometheus, or in OpenMetrics where `Accept` names `application/openmetrics-text`",
        "text/plain",
        Some("counterstep_database_up 1.0\n"),
    )]);

pub(in super::super) const DOCUMENT: Operation = Operation::new(
    "getOpenApi",
    Chapter::Process,
    "Get this document: OpenAPI 3.1",
)
.replies(&[Reply::json::<Value>(
    200,
    "The document",
    examples::document,
)]);

const CHAPTER: Param = param(
    "chapter",
    "Only the operations of this chapter",
    text,
    "tasks",
);
const OPERATION: Param = param("operation", "Only this operation", text, "getTask");
const SCHEMA: Param = param("schema", "Only this schema", text, "TaskView");
const WORDS: Param = param(
    "q",
    "Operations and schemas with these words",
    text,
    "label",
);

pub(in super::super) const PAGE: Operation =
    Operation::new("getDocs", Chapter::Process, "Show this document as pages")
        .query(&[CHAPTER, OPERATION, SCHEMA, WORDS])
        .problems(&[C::NoSuchRoute])
        .replies(&[Reply::text(
            200,
            "A page without scripts and without anything from another address",
            "text/html",
            Some("<!doctype html>"),
        )
        .headers(&[Header {
            name: "Content-Security-Policy",
            about: "What the page may load: nothing",
            is_always: true,
        }])]);
