//! The rules, as pure functions of a row, the database's clock, and what was counted.

use crate::error::ErrorClass;
use crate::ports::{Disabled, TypeRow};
use crate::record::{DbTime, LOST};
use counterstep_contracts::retry::format_duration;
use counterstep_contracts::{AutoDisable, Rev, TaskId, TaskStatus};
use std::time::Duration;

/// The classes of failures that count. Any other, a client can bring about alone with what it
/// sends: a permanent error, a deadline that it lets pass, a limit that it runs into.
pub const COUNTED: &[&str] = &[
    ErrorClass::Transient.as_str(),
    ErrorClass::TimedOut.as_str(),
    ErrorClass::Panicked.as_str(),
    LOST,
];

/// How a probe's task stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeState {
    /// Its state.
    pub status: TaskStatus,
    /// The class of its failure, where it has one.
    pub class: Option<String>,
}

impl ProbeState {
    fn counts(&self) -> bool {
        self.class
            .as_deref()
            .is_some_and(|class| COUNTED.contains(&class))
    }
}

/// Whether a submission is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// It is.
    Open,
    /// It is, as the probe, once this row is written.
    AsProbe(TypeRow),
    /// It is not.
    Closed {
        /// Until a probe is taken, as far as that is known.
        retry_after: Option<Duration>,
        /// Whether a probe is under way.
        probing: bool,
    },
}

/// What becomes of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeVerdict {
    /// Too many failures: disabled.
    Disabled,
    /// Its probe failed: disabled for another cooldown.
    StaysDisabled,
    /// Its probe came to nothing: the next submission is one.
    ProbeGone,
    /// Its probe completed: enabled.
    Enabled,
}

/// A change of a row that is going to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeStep {
    /// The row afterwards.
    pub row: TypeRow,
    /// What that means.
    pub verdict: TypeVerdict,
}

fn left(until: DbTime, now: DbTime) -> Duration {
    Duration::from_micros(u64::try_from(until.0.saturating_sub(now.0)).unwrap_or_default())
}

pub(super) fn later(now: DbTime, by: Duration) -> DbTime {
    DbTime(
        now.0
            .saturating_add(i64::try_from(by.as_micros()).unwrap_or(i64::MAX)),
    )
}

/// Whether `task` may be submitted.
#[must_use]
pub fn admit(row: &TypeRow, task: TaskId, now: DbTime) -> Admission {
    let Some(disabled) = row.disabled else {
        return Admission::Open;
    };
    let closed = |retry_after, probing| Admission::Closed {
        retry_after,
        probing,
    };
    match (disabled.probe_from, disabled.probe) {
        (None, _) => closed(None, false),
        (Some(_), Some(_)) => closed(None, true),
        (Some(from), None) if from > now => closed(Some(left(from, now)), false),
        (Some(_), None) => {
            let mut row = row.clone();
            row.disabled = Some(Disabled {
                probe: Some((task, now)),
                ..disabled
            });
            row.rev = row.rev.next();
            Admission::AsProbe(row)
        }
    }
}

/// Whether this number of consecutive failures disables a type; `row`: as it is, where it has one.
#[must_use]
pub fn weigh(
    name: &str,
    row: Option<&TypeRow>,
    policy: AutoDisable,
    failures: u32,
    now: DbTime,
) -> Option<TypeStep> {
    let is_open = row.is_none_or(|row| row.disabled.is_none());
    if !is_open || failures < policy.after_failures {
        return None;
    }
    let row = TypeRow {
        name: name.to_owned(),
        disabled: Some(Disabled {
            since: now,
            probe_from: policy.cooldown.map(|time| later(now, time)),
            probe: None,
        }),
        reason: format!(
            "{} or more tasks in a row failed within {}",
            policy.after_failures,
            format_duration(policy.within)
        ),
        by: "counterstep".to_owned(),
        counts_from: row.and_then(|row| row.counts_from),
        rev: row.map_or(Rev(0), |row| row.rev).next(),
    };
    Some(TypeStep {
        row,
        verdict: TypeVerdict::Disabled,
    })
}

/// How long a disabled type and its probe have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeTimes {
    /// From a probe that failed to the next one. `None`: an operator decides.
    pub cooldown: Option<Duration>,
    /// From the admission of a probe to its task; then another submission may be the probe.
    pub arrives_within: Duration,
}

/// What follows from the state of a disabled type's probe. `None` where its task is not there, and
/// has time to arrive. After a probe that failed for a reason that does not count, another
/// submission may be the probe.
#[must_use]
pub fn settle(
    row: &TypeRow,
    probe: Option<&ProbeState>,
    times: ProbeTimes,
    now: DbTime,
) -> Option<TypeStep> {
    let disabled = row.disabled?;
    let (_, since) = disabled.probe?;
    let mut after = row.clone();
    after.rev = row.rev.next();
    let without_probe = Disabled {
        probe: None,
        ..disabled
    };
    let counts = probe.is_some_and(ProbeState::counts);
    let verdict = match probe.map(|probe| probe.status) {
        None if left(later(since, times.arrives_within), now) > Duration::ZERO => return None,
        None | Some(TaskStatus::Cancelled) => {
            after.disabled = Some(without_probe);
            TypeVerdict::ProbeGone
        }
        Some(TaskStatus::Completed) => {
            after.disabled = None;
            after.reason = "its probe completed".to_owned();
            after.by = "counterstep".to_owned();
            after.counts_from = Some(now);
            TypeVerdict::Enabled
        }
        Some(
            TaskStatus::Failed
            | TaskStatus::CompensationFailed
            | TaskStatus::DeadLettered
            | TaskStatus::Resolved,
        ) if !counts => {
            after.disabled = Some(without_probe);
            TypeVerdict::ProbeGone
        }
        Some(
            TaskStatus::Failed
            | TaskStatus::CompensationFailed
            | TaskStatus::DeadLettered
            | TaskStatus::Resolved,
        ) => {
            after.disabled = Some(Disabled {
                probe_from: times.cooldown.map(|time| later(now, time)),
                ..without_probe
            });
            after.reason = "its probe failed like those before it".to_owned();
            after.by = "counterstep".to_owned();
            TypeVerdict::StaysDisabled
        }
        Some(
            TaskStatus::Submitted
            | TaskStatus::Dispatched
            | TaskStatus::Running
            | TaskStatus::Waiting
            | TaskStatus::Compensating,
        ) => return None,
    };
    Some(TypeStep {
        row: after,
        verdict,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    const POLICY: AutoDisable = AutoDisable::after_failures(3).within("10m").cooldown("5m");
    const TIMES: ProbeTimes = ProbeTimes {
        cooldown: POLICY.cooldown,
        arrives_within: Duration::from_secs(30 * 60),
    };
    const NOW: DbTime = DbTime(1_000_000_000);

    fn disabled() -> TypeRow {
        weigh("Zip", None, POLICY, 3, NOW).expect("disabled").row
    }

    fn after(time: &str) -> DbTime {
        later(
            NOW,
            counterstep_contracts::retry::parse_duration(time).expect("a time"),
        )
    }

    fn probed() -> TypeRow {
        let task = TaskId(Uuid::from_u128(7));
        match admit(&disabled(), task, after("5m")) {
            Admission::AsProbe(row) => row,
            other => panic!("no probe: {other:?}"),
        }
    }

    #[test]
    fn fewer_failures_than_the_policy_says_change_nothing() {
        assert_eq!(weigh("Zip", None, POLICY, 2, NOW), None);
        assert_eq!(
            weigh("Zip", Some(&disabled()), POLICY, 30, NOW),
            None,
            "it is disabled already"
        );
    }

    #[test]
    fn a_disabled_type_takes_one_probe_after_its_cooldown() {
        let (row, task) = (disabled(), TaskId(Uuid::from_u128(8)));
        let early = Admission::Closed {
            retry_after: Some(Duration::from_secs(1)),
            probing: false,
        };
        assert_eq!(admit(&row, task, after("299s")), early);
        assert_eq!(
            probed().disabled.expect("disabled").probe,
            Some((TaskId(Uuid::from_u128(7)), after("5m")))
        );
        let taken = Admission::Closed {
            retry_after: None,
            probing: true,
        };
        assert_eq!(admit(&probed(), task, after("6m")), taken);
    }

    #[test]
    fn what_a_person_disabled_only_a_person_enables() {
        let mut row = disabled();
        row.disabled = Some(Disabled {
            since: NOW,
            probe_from: None,
            probe: None,
        });
        let closed = Admission::Closed {
            retry_after: None,
            probing: false,
        };
        assert_eq!(admit(&row, TaskId(Uuid::from_u128(8)), after("7d")), closed);
    }

    #[test]
    fn without_a_cooldown_only_a_person_enables_a_type_that_failures_disabled() {
        let row = weigh("Zip", None, POLICY.until_enabled(), 3, NOW)
            .expect("disabled")
            .row;
        let closed = Admission::Closed {
            retry_after: None,
            probing: false,
        };
        assert_eq!(admit(&row, TaskId(Uuid::from_u128(8)), after("7d")), closed);
        // The settings may say so while a probe is under way that an earlier policy has let go.
        let failed = ProbeState {
            status: TaskStatus::Failed,
            class: Some("transient".to_owned()),
        };
        let step = settle(
            &probed(),
            Some(&failed),
            ProbeTimes {
                cooldown: None,
                ..TIMES
            },
            after("6m"),
        )
        .expect("a step");
        assert_eq!(step.verdict, TypeVerdict::StaysDisabled);
        assert_eq!(
            admit(&step.row, TaskId(Uuid::from_u128(9)), after("7d")),
            closed
        );
    }

    #[test]
    fn a_probe_decides() {
        let row = probed();
        let of_class = |status, class: &str| {
            let probe = ProbeState {
                status,
                class: Some(class.to_owned()),
            };
            settle(&row, Some(&probe), TIMES, after("6m"))
        };
        let settled =
            |status: Option<TaskStatus>| status.and_then(|status| of_class(status, "transient"));
        for running in [
            TaskStatus::Submitted,
            TaskStatus::Dispatched,
            TaskStatus::Running,
            TaskStatus::Waiting,
            TaskStatus::Compensating,
        ] {
            assert_eq!(settled(Some(running)), None);
        }
        let enabled = settled(Some(TaskStatus::Completed)).expect("enabled");
        assert_eq!(
            (enabled.verdict, enabled.row.disabled),
            (TypeVerdict::Enabled, None)
        );
        assert_eq!(
            enabled.row.counts_from,
            Some(after("6m")),
            "what failed before does not count again"
        );
        for failed in [
            TaskStatus::Failed,
            TaskStatus::CompensationFailed,
            TaskStatus::DeadLettered,
            TaskStatus::Resolved,
        ] {
            let step = settled(Some(failed)).expect("a step");
            assert_eq!(step.verdict, TypeVerdict::StaysDisabled);
            let disabled = step.row.disabled.expect("disabled");
            assert_eq!(
                (disabled.probe, disabled.probe_from),
                (None, Some(after("11m")))
            );
        }
        for by_its_client in ["permanent", "deadline", "rate_limited", "unreadable"] {
            let step = of_class(TaskStatus::Failed, by_its_client).expect("a step");
            assert_eq!(
                step.verdict,
                TypeVerdict::ProbeGone,
                "a client must not keep a type disabled: {by_its_client}"
            );
        }
        let gone = settled(Some(TaskStatus::Cancelled)).expect("a step");
        assert_eq!(gone.verdict, TypeVerdict::ProbeGone);
        let next = admit(&gone.row, TaskId(Uuid::from_u128(9)), after("6m"));
        assert!(matches!(next, Admission::AsProbe(_)), "{next:?}");
    }

    #[test]
    fn a_probe_that_never_arrives_makes_room_for_another() {
        let row = probed();
        assert_eq!(settle(&row, None, TIMES, after("34m")), None);
        let gone = settle(&row, None, TIMES, after("35m")).expect("a step");
        assert_eq!(gone.verdict, TypeVerdict::ProbeGone);
    }
}
