//! Fields that a change has set, as sparse records: what did not change is not there. Must not know
//! where a field comes from.

use crate::change::transition::Time;
use crate::record::{
    ChildrenRow, DbTime, Failure, ProbeRow, StepFailure, StepRow, TaskRow, UndoGoal,
};
use counterstep_contracts::{
    Attempt, AuditSeq, Host, ParentRef, Settled, StepNo, StepStatus, TaskStatus, Tenant, WaitReason,
};
use serde::{Deserialize, Deserializer, Serialize};
use std::time::Duration;

/// Reads a field that is there: `null` is a value then, and only an absent field is `None`.
pub(super) fn some<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

macro_rules! patch {
    ($(#[$doc:meta])* $name:ident of $row:ident { $($field:ident: $kind:ty,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
        pub(super) struct $name {
            $(#[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "some")]
            pub(super) $field: Option<$kind>,)+
        }

        impl $name {
            /// What `after` has and `before` has not.
            pub(super) fn between(before: &$row, after: &$row) -> Self {
                Self { $($field: (before.$field != after.$field).then(|| after.$field.clone()),)+ }
            }

            /// Whether nothing was set.
            pub(super) fn is_empty(&self) -> bool {
                $(self.$field.is_none())&&+
            }

            /// Sets the fields.
            pub(super) fn apply(self, row: &mut $row) {
                $(if let Some(value) = self.$field {
                    row.$field = value;
                })+
            }
        }
    };
}

patch! {
    /// Fields of a task.
    TaskPatch of TaskRow {
        tenant: Tenant,
        task_type: String,
        version: u32,
        definition_hash: String,
        traceparent: Option<String>,
        status: TaskStatus,
        waiting: Option<WaitReason>,
        host: Host,
        queue: String,
        goal: Option<UndoGoal>,
        recovery_attempts: u32,
        audit_seq: AuditSeq,
        failure: Option<Failure>,
        residue: bool,
        settled: Option<Settled>,
        parent: Option<ParentRef>,
        webhook: Option<String>,
        place_key: Option<String>,
        place_no: Option<u32>,
    }
}

patch! {
    /// Fields of a step.
    StepPatch of StepRow {
        name: String,
        status: StepStatus,
        attempts: Attempt,
        retries_used: u32,
        undo_attempts: Attempt,
        undo_retries_used: u32,
        attempt_open: bool,
        started_seq: Option<AuditSeq>,
        error: Option<StepFailure>,
        due_at: Option<DbTime>,
        in_fallback: bool,
        kept: bool,
        request: u32,
        keeps_request: bool,
        children: Option<ChildrenRow>,
        probe: Option<ProbeRow>,
    }
}

/// A change of a point of time: absent, it stays; `null`, there is none from now on; a number of
/// microseconds after the time of the row.
pub(super) type Shift = Option<Option<u64>>;

/// The shift that a change of a time is.
pub(super) fn shift(time: Time) -> Shift {
    match time {
        Time::Keep => None,
        Time::Clear => Some(None),
        Time::In(after) => Some(Some(u64::try_from(after.as_micros()).unwrap_or(u64::MAX))),
    }
}

/// What a time is after a shift in a row that was written at `at`.
pub(super) fn shifted(was: Option<DbTime>, shift: Shift, at: DbTime) -> Option<DbTime> {
    match shift {
        None => was,
        Some(after) => after.map(|micros| at.later(Duration::from_micros(micros))),
    }
}

/// A step that the row names first.
pub(super) fn unknown_step(no: StepNo) -> StepRow {
    StepRow::pending(no, "")
}
