//! What follows a failed attempt.

use super::cases::{Case, duration, step_is, task, undone};
use crate::error::ErrorClass::{self, Cancelled, Permanent, Transient};
use crate::plan::{AfterFailure, Ended, after_failure};
use crate::retry_decision::Next;
use counterstep_contracts::StepStatus::{Completed, Failed, Running};

#[test]
fn what_follows() {
    let again = Next::Retry(duration("1s"));
    let retry = AfterFailure::Retry(duration("1s"));
    let runs = || step_is("a", Running);
    let plain = || task([runs()]);
    let with_fallback = || task([runs().with_fallback()]);
    let rebuilt = || task([step_is("a", Completed)]);
    #[rustfmt::skip]
    let cases: Vec<(&str, Case, Ended, ErrorClass, Next, AfterFailure)> = vec![
        ("the policy retries", plain(), Ended::Step, Transient, again, retry),
        ("the policy gives up", plain(), Ended::Step, Permanent, Next::GiveUp, AfterFailure::GiveUp),
        ("a cancel ends the retries", plain().cancelled(), Ended::Step, Transient, again, AfterFailure::GiveUp),
        ("then the fallback", with_fallback(), Ended::Step, Permanent, Next::GiveUp, AfterFailure::FallBack),
        ("not before the retries", with_fallback(), Ended::Step, Transient, again, retry),
        ("not of a step that was cancelled", with_fallback(), Ended::Step, Cancelled, Next::GiveUp, AfterFailure::GiveUp),
        ("not after a cancel", with_fallback().cancelled(), Ended::Step, Permanent, Next::GiveUp, AfterFailure::GiveUp),
        ("not twice", task([runs().in_fallback()]), Ended::Step, Permanent, Next::GiveUp, AfterFailure::GiveUp),
        ("not beside a step that failed", task([runs().with_fallback().group(), step_is("b", Failed).group()]), Ended::Step, Permanent, Next::GiveUp, AfterFailure::GiveUp),
        ("a rebuild is retried", rebuilt(), Ended::Rebuild, Transient, again, retry),
        ("a rebuild gives up", rebuilt(), Ended::Rebuild, Permanent, Next::GiveUp, AfterFailure::GiveUp),
        ("a rebuild of a cancelled task", rebuilt().cancelled(), Ended::Rebuild, Permanent, Next::GiveUp, AfterFailure::Nothing),
        ("an undo is retried", undone([runs()]), Ended::Undo, Transient, again, retry),
        ("also after a cancel", undone([runs()]).cancelled(), Ended::Undo, Transient, again, retry),
        ("an undo gives up", undone([runs().with_fallback()]), Ended::Undo, Permanent, Next::GiveUp, AfterFailure::GiveUp),
    ];
    for (text, case, ended, class, policy, expected) in cases {
        let follows = after_failure(case.decl(), &case.record, 0, ended, class, policy);
        assert_eq!(follows, expected, "{text}");
    }
}
