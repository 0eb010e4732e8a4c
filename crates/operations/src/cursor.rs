//! The cursor of a list: the last task of a page, sealed together with the filters it was made
//! under, so that neither a made-up cursor nor one of another list gives a page that looks right
//! and is not. It is no secret: every query is bound to its tenant anyway.

use crate::Refused;
use counterstep_contracts::{ProblemCode, StepNo, TaskId, Tenant};
use counterstep_kernel::ports::{ChildQuery, TaskQuery};
use counterstep_kernel::status::task_log::LogCursor;

use counterstep_steps::digest::hex;
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// The list of all tasks.
pub const TASKS: &str = "tasks";
/// The list of those that wait for a person.
pub const DEAD_LETTERS: &str = "dead letters";

/// The cursor of the page after `last` of a list.
#[must_use]
pub fn after(last: TaskId, list: &str, query: &TaskQuery) -> String {
    format!("{}{}", last.0.as_simple(), seal(last, list, query))
}

/// The task after which a page begins.
///
/// # Errors
/// Where no answer gave it for this list.
pub fn read(cursor: &str, list: &str, query: &TaskQuery) -> Result<TaskId, Refused> {
    let read = cursor
        .get(..32)
        .and_then(|id| Uuid::try_parse(id).ok())
        .map(TaskId);
    read.filter(|&last| cursor == after(last, list, query))
        .ok_or_else(not_ours)
}

/// The cursor of the page of schedules after the one of this name.
#[must_use]
pub fn after_name(last: &str, tenant: &Tenant) -> String {
    let digest = Sha256::digest(format!("list of schedules {last} {tenant:?}").as_bytes());
    format!("{last}~{}", hex(&digest[..8]))
}

/// The name after which a page of schedules begins.
///
/// # Errors
/// Where no answer gave it for this list.
pub fn read_name(cursor: &str, tenant: &Tenant) -> Result<String, Refused> {
    let name = cursor
        .rsplit_once('~')
        .map(|(name, _)| name)
        .filter(|name| cursor == after_name(name, tenant));
    name.map(str::to_owned).ok_or_else(not_ours)
}

/// The cursor of the page that begins at this place of what this operation on many tasks has done.
#[must_use]
pub fn at_place(place: usize, of: &str, tenant: &Tenant) -> String {
    let sealed = format!("list of tasks of {of} {place} {tenant:?}");
    let digest = Sha256::digest(sealed.as_bytes());
    format!("{place}.{}", hex(&digest[..8]))
}

/// The place at which a page begins.
///
/// # Errors
/// Where no answer gave it for this list.
pub fn read_place(cursor: &str, of: &str, tenant: &Tenant) -> Result<usize, Refused> {
    let read = cursor.split('.').next().and_then(|it| it.parse().ok());
    read.filter(|&place| cursor == at_place(place, of, tenant))
        .ok_or_else(not_ours)
}

/// The line of a log after which a page begins. It is not sealed: a line that is not there is the same as
/// the last one before it.
///
/// # Errors
/// Where no answer gave it for this list.
pub fn read_log(cursor: &str) -> Result<LogCursor, Refused> {
    cursor.parse().map_err(|_| {
        let detail = "no answer gave this cursor for a log: use `cursor` as it was";
        Refused::new(ProblemCode::MalformedParameter, detail).at("cursor")
    })
}

/// The cursor of the page of children after the one of this step and place.
#[must_use]
pub fn after_child(step: StepNo, no: u32, query: &ChildQuery) -> String {
    let ChildQuery {
        parent,
        step: of_step,
        statuses,
        after: _,
        limit: _,
    } = query;
    let sealed = format!("list of children {step} {no} {parent} {of_step:?} {statuses:?}");
    let digest = Sha256::digest(sealed.as_bytes());
    format!("{step}.{no}.{}", hex(&digest[..8]))
}

/// The step and the place after which a page of children begins.
///
/// # Errors
/// Where no answer gave it for this list.
pub fn read_child(cursor: &str, query: &ChildQuery) -> Result<(StepNo, u32), Refused> {
    let mut parts = cursor.split('.');
    let mut part = || parts.next();
    let read = part().zip(part()).and_then(|(step, no)| {
        let step = step.parse().ok().map(StepNo)?;
        Some((step, no.parse().ok()?))
    });
    read.filter(|&(step, no)| cursor == after_child(step, no, query))
        .ok_or_else(not_ours)
}

fn not_ours() -> Refused {
    let detail = "no answer gave this cursor for this list: use `next_cursor` as it was, with the same filters";
    Refused::new(ProblemCode::MalformedParameter, detail).at("cursor")
}

fn seal(last: TaskId, list: &str, query: &TaskQuery) -> String {
    // Not the times: under others the page goes on in the same order, and an age, as people write
    // it, is another time with each request.
    let TaskQuery {
        tenant,
        task_type,
        statuses,
        labels,
        failure,
        ending,
        order,
        from: _,
        before: _,
        limit: _,
    } = query;
    let filters = format!(
        "{tenant:?} {task_type:?} {statuses:?} {labels:?} {failure:?} {ending:?} {order:?}"
    );
    let digest = Sha256::digest(format!("list of {list} {last} {filters}").as_bytes());
    hex(&digest[..8])
}

#[cfg(test)]
mod tests {
    use super::*;
    use counterstep_contracts::TaskStatus;

    #[test]
    fn only_a_cursor_of_the_same_children_is_taken() {
        let query = ChildQuery {
            parent: TaskId(Uuid::from_u128(7)),
            step: None,
            statuses: Vec::new(),
            after: None,
            limit: 50,
        };
        let last = (StepNo(2), 49);
        let cursor = after_child(last.0, last.1, &query);
        assert_eq!(read_child(&cursor, &query).ok(), Some(last));
        let other_parent = ChildQuery {
            parent: TaskId(Uuid::from_u128(8)),
            ..query.clone()
        };
        let of_step = ChildQuery {
            step: Some(StepNo(2)),
            ..query.clone()
        };
        let other_states = ChildQuery {
            statuses: vec![TaskStatus::Failed],
            ..query.clone()
        };
        for other in [other_parent, of_step, other_states] {
            assert!(read_child(&cursor, &other).is_err(), "{other:?}");
        }
        let moved = cursor.replacen("49", "50", 1);
        for forged in [
            "",
            ".",
            "2.49",
            "é.1.2",
            "2.-1.0",
            &format!("+{cursor}"),
            &moved,
        ] {
            assert!(read_child(forged, &query).is_err(), "{forged}");
        }
    }

    #[test]
    fn only_a_cursor_of_the_same_operation_is_taken() {
        let tenant = Tenant::default();
        let cursor = at_place(50, "one", &tenant);
        assert_eq!(read_place(&cursor, "one", &tenant).ok(), Some(50));
        assert!(read_place(&cursor, "other", &tenant).is_err());
        assert!(read_place(&cursor, "one", &Tenant("umbra".to_owned())).is_err());
        for forged in ["", ".", "50", "-1.0", &cursor.replacen("50", "51", 1)] {
            assert!(read_place(forged, "one", &tenant).is_err(), "{forged}");
        }
    }

    #[test]
    fn only_a_cursor_of_the_same_list_is_taken() {
        let query = TaskQuery::default();
        let last = TaskId(Uuid::from_u128(7));
        let cursor = after(last, TASKS, &query);
        assert_eq!(read(&cursor, TASKS, &query).ok(), Some(last));
        assert!(read(&cursor, DEAD_LETTERS, &query).is_err());
        let other = TaskQuery {
            statuses: vec![TaskStatus::Failed],
            ..TaskQuery::default()
        };
        assert!(read(&cursor, TASKS, &other).is_err());
        let moved = cursor.replacen('7', "8", 1);
        for forged in [
            "",
            "x",
            "ééééééééééééééééé",
            &cursor[..32],
            &cursor.to_uppercase(),
            &moved,
        ] {
            assert!(
                forged == cursor || read(forged, TASKS, &query).is_err(),
                "{forged}"
            );
        }
    }
}
