//! What must hold of the query strings and ranges that the routes read, for [`crate::fuzz`]. Must not
//! parse anything itself.

use super::list::{failure_of, labels_of, limit_of, status_of};
use super::result::{Part, part_of};
use crate::query::Params;
use actix_web::HttpRequest;
use counterstep_contracts::{TaskId, Tenant};
use counterstep_kernel::ports::{ChildQuery, TaskQuery};
use counterstep_operations::cursor;
use counterstep_operations::filters::id_at;
use counterstep_steps::times::read_rfc3339;
use uuid::Uuid;

/// Those of the list of tasks, and what others read beside them.
const ONCE: &[&str] = &[
    "type",
    "since",
    "until",
    "failure_class",
    "failure_text",
    "limit",
    "cursor",
];

pub(crate) fn query(request: &HttpRequest) {
    let Ok(params) = Params::of_list(request, ONCE, &["status", "label"]) else {
        return;
    };
    if let Ok(limit) = limit_of(&params) {
        assert!((1..=200).contains(&limit), "{limit}");
    }
    for text in params.all("status") {
        if let Ok(status) = status_of(text) {
            assert_eq!(status.as_str(), text);
        }
    }
    if let Ok(labels) = labels_of(&params) {
        assert_eq!(labels.len(), params.all("label").count());
    }
    if let Ok(failure) = failure_of(&params) {
        let is_short = |text: &String| (1..=256).contains(&text.chars().count());
        assert!(failure.text.as_ref().is_none_or(is_short));
    }
    for name in ["since", "until"] {
        if let Some(text) = params.get(name) {
            assert_eq!(
                id_at(name, text).is_ok(),
                read_rfc3339(text).is_some(),
                "{text}"
            );
        }
    }
    if let Some(text) = params.get("cursor") {
        cursors(text);
    }
}

fn cursors(text: &str) {
    let (query, tenant) = (TaskQuery::default(), Tenant::default());
    if let Ok(last) = cursor::read(text, cursor::TASKS, &query) {
        assert_eq!(cursor::after(last, cursor::TASKS, &query), text);
    }
    if let Ok(name) = cursor::read_name(text, &tenant) {
        assert_eq!(cursor::after_name(&name, &tenant), text);
    }
    let children = ChildQuery {
        parent: TaskId(Uuid::from_u128(7)),
        step: None,
        statuses: Vec::new(),
        after: None,
        limit: 50,
    };
    if let Ok(last) = cursor::read_child(text, &children) {
        assert_eq!(cursor::after_child(last, &children), text);
    }
}

pub(crate) fn range(request: &HttpRequest) {
    for size in [0, 1, 1_000, u64::MAX] {
        if let Part::Some { first, last } = part_of(request, "\"e\"", size) {
            assert!(first <= last && last < size, "{first}-{last}/{size}");
        }
    }
}
