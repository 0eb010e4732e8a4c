//! What the store is asked to count. What is counted stands where its subject has it.

use super::children::ChildCount;
use super::finding::InFlight;
use super::places::PlaceCount;
use super::types::{FailureQuery, WaitingQuery};
use super::workers::{Flow, FlowQuery, Gauges};
use counterstep_contracts::{TaskId, Tenant};
use std::time::Duration;

/// What to count. The answer is [`Counted`] of the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Count {
    /// Tasks that have not ended, and those that have completed and that such a task above them may undo
    /// yet, by what they were submitted under; in the order of that.
    InFlight,
    /// What is under way. Its cost grows with the tasks that have not ended, never with
    /// those that have. With names of labels by which tasks are counted apart; where tasks have more than
    /// [`MOST_LABEL_VALUES`](super::MOST_LABEL_VALUES) combinations of their values, those of the most
    /// tasks keep theirs, and the rest counts as [`OTHER`](super::OTHER).
    Gauges(Vec<String>),
    /// What came and went. Its cost grows with that, and with nothing else.
    Flow(FlowQuery),
    /// The tasks that a task has submitted, by step and state.
    Children(TaskId),
    /// A page of the keys of tasks that are counted with others, by key.
    Places {
        /// Behind this key.
        after: Option<String>,
        /// Maximum number of keys.
        limit: u32,
    },
    /// How many consecutive tasks of a type failed.
    Failures(FailureQuery),
    /// The tenants of which a task of a type has failed, or was parked, and is so still.
    FailingTenants {
        /// Declared name of the type.
        task_type: String,
        /// In this time before now.
        within: Duration,
    },
    /// How many tasks of a tenant wait to be claimed.
    Waiting(WaitingQuery),
    /// Names and values of the labels of a tenant's tasks. Its cost grows with how many are asked for, and with nothing else.
    Labels(LabelQuery),
}

/// Which names or values of labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LabelQuery {
    /// The names that there are, in their order.
    Names {
        /// Tenant of the tasks.
        tenant: Tenant,
        /// That begin so.
        prefix: String,
        /// Maximum number of them.
        limit: u32,
    },
    /// Those of these names under which a task has a value.
    With {
        /// Tenant of the tasks.
        tenant: Tenant,
        /// The names.
        names: Vec<String>,
        /// The value.
        value: String,
    },
    /// The values of a name, in their order.
    Values {
        /// Tenant of the tasks.
        tenant: Tenant,
        /// The name.
        name: String,
        /// That begin so.
        prefix: String,
        /// Maximum number of them.
        limit: u32,
    },
}

/// What was counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Counted {
    /// See [`Count::InFlight`].
    InFlight(Vec<InFlight>),
    /// See [`Count::Gauges`].
    Gauges(Gauges),
    /// See [`Count::Flow`].
    Flow(Flow),
    /// See [`Count::Children`].
    Children(Vec<ChildCount>),
    /// See [`Count::Places`].
    Places(Vec<PlaceCount>),
    /// See [`Count::Failures`].
    Failures(u32),
    /// See [`Count::FailingTenants`].
    FailingTenants(Vec<Tenant>),
    /// See [`Count::Waiting`].
    Waiting(u32),
    /// See [`Count::Labels`].
    Labels(Vec<String>),
}
