//! The states of a task and of its steps. Which one follows which is decided in the kernel's judge,
//! not here.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! text_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
        pub enum $name {
            $($(#[$vdoc])* #[serde(rename = $text)] $variant,)+
        }

        impl $name {
            /// Every value, in the order of the declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The stable text used in rows, JSON and metrics.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::state::UnknownText;
            fn from_str(text: &str) -> Result<Self, $crate::state::UnknownText> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    _ => Err($crate::state::UnknownText { kind: stringify!($name), text: text.to_owned() }),
                }
            }
        }
    };
}
pub(crate) use text_enum;

/// A text that none of an enum's values has: a newer program wrote the row, or someone typed it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no {kind}")]
pub struct UnknownText {
    /// The enum that was expected.
    pub kind: &'static str,
    /// What was found instead.
    pub text: String,
}

text_enum!(
    /// Where a task stands.
    TaskStatus {
        /// Accepted; the next step is to run in an API process.
        Submitted = "submitted",
        /// It waits for a worker of its queue.
        Dispatched = "dispatched",
        /// A host holds the lease and runs forward steps.
        Running = "running",
        /// Waits by itself: for a retry, a breaker, a limit, a timer, a signal, tasks that it has submitted, or
        /// a worker that knows its version.
        Waiting = "waiting",
        /// Every step that was not skipped completed. Terminal.
        Completed = "completed",
        /// It is being undone, in reverse. No forward step ever runs again.
        Compensating = "compensating",
        /// An undo gave up: parked for a person.
        CompensationFailed = "compensation_failed",
        /// It did not succeed, and nothing is left to undo (or the policy said to leave it).
        /// Terminal.
        Failed = "failed",
        /// It was cancelled and undone. Terminal.
        Cancelled = "cancelled",
        /// It gave up going forward, and its policy parks it for a person.
        DeadLettered = "dead_lettered",
        /// A person settled it by hand, with a note. Terminal.
        Resolved = "resolved",
    }
);

impl TaskStatus {
    /// No event leaves this state.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Failed | Self::Cancelled | Self::Resolved
        )
    }

    /// It waits on its queue for a host that claims it.
    #[must_use]
    pub const fn is_unclaimed(self) -> bool {
        matches!(self, Self::Submitted | Self::Dispatched)
    }

    /// Only a person's decision leaves this state.
    #[must_use]
    pub const fn is_parked(self) -> bool {
        matches!(self, Self::CompensationFailed | Self::DeadLettered)
    }

    /// Nothing will change by itself any more: terminal or parked.
    #[must_use]
    pub const fn is_at_rest(self) -> bool {
        self.is_terminal() || self.is_parked()
    }
}

text_enum!(
    /// What a waiting task waits for.
    WaitReason {
        /// The due time of a step's next attempt.
        Retry = "retry",
        /// An open circuit breaker.
        Breaker = "breaker",
        /// A limit of its next step, which other tasks use up.
        Limit = "limit",
        /// A place among the tasks of its type, or of its key.
        Concurrency = "concurrency",
        /// A time without another submission of its key.
        Debounce = "debounce",
        /// A timer step.
        Timer = "timer",
        /// A signal from outside.
        Signal = "signal",
        /// The end of tasks that it has submitted.
        Children = "children",
        /// A worker that can run this version of the type.
        Version = "version",
    }
);

text_enum!(
    /// Where a step stands.
    StepStatus {
        /// Not started.
        Pending = "pending",
        /// An attempt is open under the current epoch.
        Running = "running",
        /// Between two attempts, the next one due later; or for a timer, a signal or other tasks.
        Waiting = "waiting",
        /// Its one output is committed.
        Completed = "completed",
        /// Its condition said no.
        Skipped = "skipped",
        /// It gave up.
        Failed = "failed",
        /// Started, outcome unknown: its lease was lost, or the process shut down.
        InDoubt = "in_doubt",
        /// Its undo is under way.
        Compensating = "compensating",
        /// Its undo is done.
        Compensated = "compensated",
        /// Its undo gave up.
        CompensationFailed = "compensation_failed",
        /// A person settled its undo by hand.
        Resolved = "resolved",
    }
);

text_enum!(
    /// Which way an attempt goes.
    Direction {
        /// Runs the step.
        Forward = "forward",
        /// Runs its counter-step.
        Undo = "undo",
    }
);

text_enum!(
    /// How an attempt ended.
    Outcome {
        /// Its result was committed.
        Succeeded = "succeeded",
        /// It returned an error, panicked or timed out.
        Failed = "failed",
        /// Its end is unknown: its lease was lost, or its process shut down.
        InDoubt = "in_doubt",
        /// Its token was cancelled on request and it stopped.
        Cancelled = "cancelled",
    }
);
