//! Schedules that a program declares beside its task types.

use crate::task::{RequestError, TaskType};
use counterstep_contracts::{Misfire, Overlap, ScheduleSpec};
use serde_json::Value;

/// A schedule as code writes it down.
///
/// ```
/// # use counterstep_steps::Schedule;
/// # use serde_json::json;
/// Schedule::cron("nightly", "0 3 * * *", "Europe/Berlin").request(json!({"days": 1}));
/// ```
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Schedule {
    pub(crate) name: String,
    pub(crate) spec: ScheduleSpec,
}

impl Schedule {
    /// At the times of a cron expression (five fields, or six with the second first) in a zone like
    /// `Europe/Berlin`.
    pub fn cron(name: &str, expression: &str, zone: &str) -> Self {
        let spec = ScheduleSpec {
            cron: Some(expression.to_owned()),
            zone: Some(zone.to_owned()),
            ..ScheduleSpec::of("")
        };
        Self {
            name: name.to_owned(),
            spec,
        }
    }

    /// Once, at an RFC 3339 time. Where that has passed before a reconciler first sees it, it never
    /// fires.
    pub fn once(name: &str, run_at: &str) -> Self {
        let spec = ScheduleSpec {
            run_at: Some(run_at.to_owned()),
            ..ScheduleSpec::of("")
        };
        Self {
            name: name.to_owned(),
            spec,
        }
    }

    /// The request of each task; an empty object where there is none. Where it differs from the one that was
    /// declared last, the schedule has changed: made of a `HashSet`, it does so in each process.
    pub fn request(mut self, request: Value) -> Self {
        self.spec.request = request;
        self
    }

    /// What becomes of due times that were not fired in time; by default the newest fires.
    pub const fn misfire(mut self, misfire: Misfire) -> Self {
        self.spec.misfire = misfire;
        self
    }

    /// What becomes of a due time while the last task runs; it is skipped where nothing is
    /// said, and waits where it comes only once.
    pub const fn overlap(mut self, overlap: Overlap) -> Self {
        self.spec.overlap = overlap;
        self
    }

    /// Maximum number of due times that fire at once, the newest; 100 where nothing is said.
    pub const fn catch_up_limit(mut self, limit: u32) -> Self {
        self.spec.catch_up_limit = limit;
        self
    }

    /// A due time counts as missed when it is later than this, as `30s`; a minute where nothing is
    /// said.
    pub fn grace(mut self, grace: &str) -> Self {
        self.spec.grace = grace.to_owned();
        self
    }
}

/// A schedule that cannot be declared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("schedule `{name}`: {why}")]
pub struct ScheduleMistake {
    /// Name of the schedule.
    pub name: String,
    /// What is wrong with it.
    pub why: String,
}

/// Whether a schedule can submit tasks of the type with this request. It keeps the request as it is written, and each
/// task reads it: written again by its type, the same words may come out otherwise, as a set in another order.
///
/// # Errors
/// [`RequestError`] names the field at fault.
pub fn check(task_type: &TaskType, request: &Value) -> Result<(), RequestError> {
    if task_type.begins_with_uploads() {
        let message = format!(
            "tasks of type `{}` begin with an upload, and a schedule has no files to send: schedule a type whose request \
             is JSON alone",
            task_type.decl.name
        );
        return Err(RequestError::new("type", message));
    }
    let read = (task_type.read_request)(request.clone());
    read.map(drop).map_err(|error| {
        let pointer = if error.pointer == "." {
            "request".to_owned()
        } else {
            format!("request.{}", error.pointer)
        };
        RequestError { pointer, ..error }
    })
}
