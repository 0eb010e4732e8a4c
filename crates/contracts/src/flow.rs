//! How the tasks of a type share capacity, as data: how many of a key run at a time, the key, and the
//! priority. The kernel decides what follows from it (`places`).

use crate::state::text_enum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

text_enum!(
    /// What becomes of a task beyond those that may be under way.
    Beyond {
        /// It waits until one of them is at rest.
        Wait = "wait",
        /// The older ones are cancelled for it.
        Replace = "replace",
        /// It is not accepted.
        Refuse = "refuse",
    }
);

text_enum!(
    /// Which tasks of a queue of workers come first.
    Priority {
        /// They wait beside the others, which they need not wait for.
        High = "high",
        /// In the order of submissions.
        Normal = "normal",
        /// Behind the others, with what large tenants have waiting.
        Low = "low",
    }
);

/// How the tasks of a type share what there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FlowDecl {
    /// What is made of the request, as written: tasks of one tenant with the same value share a key. `None`:
    /// all tasks of the type do.
    pub key: Option<&'static str>,
    /// How many tasks of a key are under way at a time; `None`: as many as there are.
    pub concurrency: Option<ConcurrencyDecl>,
    /// Which tasks of its queue come before them.
    pub priority: Priority,
}

/// How many tasks of a key are under way at a time: from their first start to their rest, over all hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ConcurrencyDecl {
    /// Maximum number of tasks.
    pub at_once: u32,
    /// What becomes of a further one.
    pub beyond: Beyond,
    /// How long no other task of its key must be submitted before a task starts; it replaces the older ones
    /// that have not started. `None`: each starts at once.
    #[serde(serialize_with = "crate::retry::as_optional_text")]
    #[schemars(with = "Option<String>")]
    pub debounce: Option<Duration>,
}

impl FlowDecl {
    /// As many tasks as there are.
    pub const FREE: Self = Self {
        key: None,
        concurrency: None,
        priority: Priority::Normal,
    };
}

impl ConcurrencyDecl {
    /// Maximum of `at_once`: a claim reads the tasks of its key that are under way.
    pub const MOST: u32 = 1_000;
}
