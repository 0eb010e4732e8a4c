//! What the address of an operation names. Must not know an address.

use super::task_lists::ListTasks;
use super::{Ids, Limit, Look, Operation, Param};
use crate::{TaskId, TaskStatus};
use serde_json::{Value, json};
use uuid::Uuid;

/// What the address of an operation names: nothing, a text, an id, a pair.
pub trait Target: Sized + Send + Sync + 'static {
    /// The parameters of the path, in its order.
    const PARAMS: &'static [Param];

    /// Reads the segments of the path that vary, in its order.
    ///
    /// # Errors
    /// Where a segment has another form.
    fn parse(segments: &[&str]) -> Result<Self, BadTarget>;

    /// Those segments, as texts: what makes the address encodes them.
    fn segments(&self) -> Vec<String>;
}

/// A segment of a path in another form than its parameter has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadTarget {
    /// Its name in the path.
    pub pointer: &'static str,
    /// What is expected.
    pub detail: &'static str,
}

impl Target for () {
    const PARAMS: &'static [Param] = &[];

    fn parse(_: &[&str]) -> Result<Self, BadTarget> {
        Ok(())
    }

    fn segments(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The id of a task in a path.
pub const TASK_ID: Param = Param {
    name: "task_id",
    about: "The id of the task",
    schema: || json!({ "type": "string", "format": "uuid" }),
    example: "01930d2c-6c4b-7d5e-8f00-0123456789ab",
    ids: Some(&TASK_IDS),
};

/// The ids of tasks.
pub const TASK_IDS: Ids = Ids {
    of: "task",
    length: 36,
    signs: "-_",
    list: ListTasks::ABOUT.id,
    field: "task_id",
    shown: &["task_type", "status"],
    looks: &[
        Look {
            query: || json!({ "limit": Limit::MOST }),
            most: 1_000,
            among: "the newest 1000",
        },
        // One that waits for long has been left behind by others.
        Look {
            query: || {
                let open = TaskStatus::ALL.iter().filter(|it| !it.is_terminal());
                json!({ "limit": Limit::MOST, "status": open.collect::<Vec<_>>() })
            },
            most: 5_000,
            among: "the newest 5000 that have not ended",
        },
    ],
};

impl Target for TaskId {
    const PARAMS: &'static [Param] = &[TASK_ID];

    /// In the one spelling that answers use.
    fn parse(segments: &[&str]) -> Result<Self, BadTarget> {
        let text = segments.concat();
        let id = Uuid::try_parse(&text).ok().filter(|_| text.len() == 36);
        id.map(Self).ok_or(BadTarget {
            pointer: "id",
            detail: "a task id is a UUID with hyphens: use the `task_id` of the answer to its submission",
        })
    }

    fn segments(&self) -> Vec<String> {
        vec![self.to_string()]
    }
}

/// The schema of a parameter that is a text of any form.
#[must_use]
pub fn text() -> Value {
    json!({ "type": "string" })
}

/// A target that is one text of any form.
macro_rules! text_target {
    ($name:ident, $param:literal, $about:literal, $example:literal) => {
        $crate::operation::text_target!(
            $name,
            $crate::operation::Param {
                name: $param,
                about: $about,
                schema: $crate::operation::text,
                example: $example,
                ids: None,
            }
        );
    };
    ($name:ident, $param:expr) => {
        impl $crate::operation::Target for $name {
            const PARAMS: &'static [$crate::operation::Param] = &[$param];

            fn parse(segments: &[&str]) -> Result<Self, $crate::operation::BadTarget> {
                Ok(Self(segments.concat()))
            }

            fn segments(&self) -> Vec<String> {
                vec![self.0.clone()]
            }
        }
    };
}
pub(crate) use text_target;
