//! What must hold of the query strings and ranges that the routes read, for [`crate::fuzz`]. Must not
//! parse anything itself.

use super::result::{Part, part_of};
use crate::query::DeclaredQuery;
use actix_web::HttpRequest;
use counterstep_contracts::operation::task_lists::{ListTasks, TasksQuery};
use counterstep_contracts::operation::{Cursor, Declared, Time};
use counterstep_contracts::{TaskId, Tenant};
use counterstep_kernel::ports::{ChildQuery, TaskQuery};
use counterstep_operations::filters::{failure_filter, id_at, labels_of};
use counterstep_operations::{cursor, read_input};
use counterstep_steps::times::read_rfc3339;
use std::sync::LazyLock;
use uuid::Uuid;

/// That of the list of tasks, which has all that other lists have.
static TASKS: LazyLock<DeclaredQuery> =
    LazyLock::new(|| DeclaredQuery::of(&Declared::of::<ListTasks>()));

pub(crate) fn query(request: &HttpRequest) {
    let Ok(input) = TASKS.read(request) else {
        return;
    };
    let asked = read_input::<TasksQuery>(input).expect("each value is one of its schema");
    assert!((1..=200).contains(&asked.limit.0), "{asked:?}");
    if let Ok(labels) = labels_of(asked.label.iter().map(String::as_str)) {
        assert_eq!(labels.len(), asked.label.len());
    }
    let (class, text) = (
        asked.failure_class.as_deref(),
        asked.failure_text.as_deref(),
    );
    if let Ok(failure) = failure_filter(class, text) {
        let is_short = |text: &String| (1..=256).contains(&text.chars().count());
        assert!(failure.text.as_ref().is_none_or(is_short));
    }
    for (name, time) in [("since", &asked.since), ("until", &asked.until)] {
        if let Some(Time(text)) = time {
            assert_eq!(
                id_at(name, text).is_ok(),
                read_rfc3339(text).is_some(),
                "{text}"
            );
        }
    }
    if let Some(Cursor(text)) = &asked.cursor {
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
        assert_eq!(cursor::after_child(last.0, last.1, &children), text);
    }
}

pub(crate) fn range(request: &HttpRequest) {
    for size in [0, 1, 1_000, u64::MAX] {
        if let Part::Some { first, last } = part_of(request, "\"e\"", size) {
            assert!(first <= last && last < size, "{first}-{last}/{size}");
        }
    }
}
