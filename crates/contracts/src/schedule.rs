//! Schedules: what submits a task by itself at the times of a cron expression, or once. Times are
//! RFC 3339 in UTC, durations as in declarations (`30s`).

use crate::forms::DURATION;
use crate::ids::TaskId;
use crate::state::text_enum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// Maximum characters of a schedule's name.
const LONGEST_NAME: usize = 100;

/// What a name must be.
pub const NAME: &str =
    "a schedule's name is 1 to 100 characters of a-z, A-Z, 0-9, `.`, `_` and `-`";

/// Whether it can name a schedule.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let usable = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !matches!(name, "" | "." | "..") && name.len() <= LONGEST_NAME && name.bytes().all(usable)
}

text_enum!(
    /// What becomes of due times that no reconciler fired within the schedule's grace: all were
    /// away, say. Those within it all fire.
    Misfire {
        /// Where none fires in time, the newest of them does, late; the others are skipped.
        FireOnce = "fire_once",
        /// They are skipped.
        Skip = "skip",
        /// Each of them fires, the oldest first.
        CatchUp = "catch_up",
    }
);

text_enum!(
    /// What becomes of a due time while the schedule's last task has not come to rest.
    Overlap {
        /// It is skipped; one that comes only once waits.
        Skip = "skip",
        /// It waits until that task rests, and those behind it with it.
        Queue = "queue",
        /// It fires all the same.
        Allow = "allow",
    }
);

text_enum!(
    /// Where a schedule comes from.
    ScheduleOrigin {
        /// A program declares it; it fires as long as a reconciler of such a program runs.
        Code = "code",
        /// It was made over the API.
        Api = "api",
    }
);

/// Body of `PUT /api/schedules/{name}`. Either `cron` or `run_at`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleSpec {
    /// The task type, by its declared name or its route.
    #[serde(rename = "type")]
    pub task_type: String,
    /// Five fields (minute, hour, day of the month, month, day of the week), six with the second
    /// first, or a name like `@daily`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "cron"))]
    pub cron: Option<String>,
    /// In which the expression is meant, as `Europe/Berlin`; UTC where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "time-zone"))]
    pub zone: Option<String>,
    /// Once, then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub run_at: Option<String>,
    /// The request that each task is submitted with.
    #[serde(default = "nothing")]
    pub request: Value,
    /// What becomes of due times that passed unfired.
    #[serde(default = "fire_once")]
    pub misfire: Misfire,
    /// What becomes of a due time while the last task runs.
    #[serde(default = "skip")]
    pub overlap: Overlap,
    /// Maximum number of due times that fire at once, the newest; those before them are skipped.
    #[serde(default = "hundred")]
    #[schemars(range(min = 1, max = 10_000))]
    pub catch_up_limit: u32,
    /// A due time counts as missed when it is later than this.
    #[serde(default = "minute")]
    #[schemars(regex(pattern = DURATION))]
    pub grace: String,
}

fn nothing() -> Value {
    Value::Object(serde_json::Map::new())
}

const fn fire_once() -> Misfire {
    Misfire::FireOnce
}

const fn skip() -> Overlap {
    Overlap::Skip
}

const fn hundred() -> u32 {
    100
}

fn minute() -> String {
    "1m".to_owned()
}

impl ScheduleSpec {
    /// Of a task type, without a time yet, and with the policies that hold where none are named.
    #[must_use]
    pub fn of(task_type: &str) -> Self {
        Self {
            task_type: task_type.to_owned(),
            cron: None,
            zone: None,
            run_at: None,
            request: nothing(),
            misfire: fire_once(),
            overlap: skip(),
            catch_up_limit: hundred(),
            grace: minute(),
        }
    }
}

/// A schedule as `GET /api/schedules/{name}` shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleView {
    /// Name of the schedule.
    pub name: String,
    /// What it submits, and when.
    #[serde(flatten)]
    pub spec: ScheduleSpec,
    /// Where it comes from.
    pub origin: ScheduleOrigin,
    /// Whether it is paused.
    pub paused: bool,
    /// What is refused of its words today: an earlier version took them, and it goes on as it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// Its next due time; missing where none will come, and while it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub next_due_at: Option<String>,
    /// The due time that fired last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub last_due_at: Option<String>,
    /// When it fired last, by a due time or by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub last_fired_at: Option<String>,
    /// The task that it submitted last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_task: Option<TaskId>,
    /// Grows with each change and each firing.
    pub revision: i64,
    /// Made.
    #[schemars(extend("format" = "date-time"))]
    pub created_at: String,
    /// Last change, or last firing.
    #[schemars(extend("format" = "date-time"))]
    pub updated_at: String,
    /// The next due times, as many as were asked for with `?next=`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub upcoming: Vec<String>,
}
