//! Identifiers and counters as newtypes, so that an epoch is never passed where a revision is
//! meant.

use serde::{Deserialize, Serialize};
use std::fmt;
use uuid::Uuid;

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.as_hyphenated().fmt(f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::try_parse(text).map(Self)
            }
        }
    };
}

uuid_id!(
    /// A submitted run of a task type. A UUID version 7, so that ids sort by the time of their
    /// submission.
    TaskId
);
uuid_id!(
    /// Names one durable change: the task's row, its row in the journal, and the attempts and
    /// outbox rows that it wrote all carry it. It is ours and not the database's transaction id,
    /// because SQLite has none.
    ChangeId
);

macro_rules! counter {
    ($(#[$doc:meta])* $name:ident($int:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub $int);

        impl $name {
            /// The value that follows this one.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

counter!(
    /// The lease's fence number: grows by one with every claim and every take-back.
    Epoch(i64)
);
counter!(
    /// The task row's revision: grows by one with every durable change except a heartbeat. 0 means
    /// "no row yet".
    Rev(i64)
);
counter!(
    /// Position of an audit entry within its task, from 1, without gaps.
    AuditSeq(i64)
);
counter!(
    /// One try of a step in one direction, from 1. 0 means "never tried".
    Attempt(i32)
);
counter!(
    /// A step's number as its declaration gives it; steps run in ascending order.
    StepNo(i32)
);

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// The owner of a task. Every row and every object key carries it; without authentication there is
    /// one tenant.
    Tenant
);
name!(
    /// Where dispatched tasks wait for a host: `{queue}` for workers, `{queue}.api` for the API
    /// process.
    QueueName
);

impl QueueName {
    const URGENT: &str = ".urgent";
    const BACKLOG: &str = ".backlog";

    /// Where tasks of a high priority wait, beside the others.
    #[must_use]
    pub fn urgent(&self) -> Self {
        Self(format!("{}{}", self.0, Self::URGENT))
    }

    /// Where tasks of a low priority wait, and those of a tenant with many waiting ones.
    #[must_use]
    pub fn backlog(&self) -> Self {
        Self(format!("{}{}", self.0, Self::BACKLOG))
    }

    /// The queue itself, also of one of its lanes.
    #[must_use]
    pub fn base(&self) -> Self {
        let lane = [Self::URGENT, Self::BACKLOG].into_iter();
        let mut base = lane.filter_map(|lane| self.0.strip_suffix(lane));
        Self(base.next().unwrap_or(&self.0).to_owned())
    }

    /// Itself and its lanes: where tasks of the queue may stand, those of the highest priority first. Tasks of
    /// API processes have no priority: they are few steps of a moment each.
    #[must_use]
    pub fn lanes(&self) -> Vec<Self> {
        if self.is_of_workers() {
            vec![self.urgent(), self.clone(), self.backlog()]
        } else {
            vec![self.clone()]
        }
    }

    /// Its place among the lanes of its queue: 0 goes first.
    #[must_use]
    pub fn rank(&self) -> u8 {
        if self.0.ends_with(Self::URGENT) {
            0
        } else if self.0.ends_with(Self::BACKLOG) {
            2
        } else {
            1
        }
    }

    /// Whether a turn goes to the lane of the lowest rank: three of four do. The fourth goes to the others, so that a lane that
    /// is never empty does not starve them.
    #[must_use]
    pub const fn is_turn_by_rank(turn: usize) -> bool {
        turn % 4 != 3
    }

    /// Whether workers serve it, and not API processes.
    #[must_use]
    pub fn is_of_workers(&self) -> bool {
        !self.0.ends_with(".api")
    }
}

impl Tenant {
    /// Whether it can be a part of object keys: 1 to 64 of `A-Z a-z 0-9 . _ -`, and neither `.` nor
    /// `..`.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let fits = |sign: u8| sign.is_ascii_alphanumeric() || b"._-".contains(&sign);
        (1..=64).contains(&self.0.len())
            && self.0.bytes().all(fits)
            && self.0 != "."
            && self.0 != ".."
    }
}

impl Default for Tenant {
    fn default() -> Self {
        Self("default".to_owned())
    }
}
