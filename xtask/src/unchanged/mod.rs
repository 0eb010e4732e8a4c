//! Whether tests that have passed need to run again. Owns what counts as "nothing has changed" and
//! the stamps that say so; must not leave anything out when in doubt: whatever cannot be read makes
//! the tests run.

mod inputs;
mod stamp;

pub(crate) use inputs::{Common, Inputs};
pub(crate) use stamp::Stamp;

use std::path::PathBuf;
use std::time::Duration;

/// What takes less is run each time: there is nothing to gain.
pub(crate) const WORTH_IT: Duration = Duration::from_secs(5);

/// What the key cannot see drifts: a kernel, a library, a certificate's last day. So nothing is
/// believed for longer.
const GOOD_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// Where the stamps are.
fn folder() -> PathBuf {
    crate::tree::target().join("xtask").join("passed")
}

/// What there is to know before tests are run.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// They passed with exactly these inputs.
    Unchanged(Stamp),
    /// They run, and this is why; without a reason when there was no earlier run.
    Run(Option<String>),
}

/// Compares the inputs with those of the run that passed.
pub(crate) fn verdict(title: &str, inputs: &Inputs) -> Verdict {
    judge(Stamp::read(&folder(), title), inputs, stamp::now())
}

fn judge(stamp: Result<Option<Stamp>, String>, inputs: &Inputs, now: u64) -> Verdict {
    match stamp {
        Ok(None) => Verdict::Run(None),
        Err(error) => Verdict::Run(Some(error)),
        Ok(Some(stamp)) => match stamp.inputs.difference(inputs) {
            Some(difference) => Verdict::Run(Some(difference)),
            // A time to come was written by another clock: nothing is known about its age.
            None if stamp.at > now || now - stamp.at > GOOD_FOR.as_secs() => {
                Verdict::Run(Some("they passed too long ago".to_owned()))
            }
            None => Verdict::Unchanged(stamp),
        },
    }
}

/// Remembers that they passed.
pub(crate) fn remember(title: &str, stamp: &Stamp) -> Result<(), String> {
    stamp.write(&folder(), title)
}

/// Forgets that they ever passed: before they run, so that a run that is broken off leaves no
/// stamp.
pub(crate) fn forget(title: &str) -> Result<(), String> {
    Stamp::remove(&folder(), title)
}

#[cfg(test)]
mod tests {
    use super::{GOOD_FOR, Inputs, Stamp, Verdict, judge};

    fn inputs(lines: &[&str]) -> Inputs {
        Inputs::of(lines.iter().map(|&line| line.to_owned()).collect())
    }

    fn after(stamp: &Stamp, inputs: &Inputs, seconds: u64) -> Verdict {
        judge(Ok(Some(stamp.clone())), inputs, stamp.at + seconds)
    }

    #[test]
    fn only_the_same_inputs_within_a_day_need_not_run_again() {
        let before = inputs(&["file a 1", "file b 2"]);
        let stamp = Stamp {
            passed: 7,
            at: 1_000_000,
            inputs: before,
        };
        let same = inputs(&["file b 2", "file a 1"]);
        assert!(matches!(after(&stamp, &same, 60), Verdict::Unchanged(stamp) if stamp.passed == 7));
        assert!(matches!(
            after(&stamp, &same, GOOD_FOR.as_secs() + 1),
            Verdict::Run(Some(_))
        ));
        assert!(matches!(
            judge(Ok(Some(stamp.clone())), &same, stamp.at - 1),
            Verdict::Run(Some(_))
        ));
        for (changed, what) in [
            (inputs(&["file a 1", "file b 3"]), "file b"),
            (inputs(&["file a 1"]), "file b"),
            (inputs(&["file a 1", "file b 2", "file c 4"]), "file c"),
        ] {
            let Verdict::Run(Some(why)) = after(&stamp, &changed, 60) else {
                panic!("{what}: not run again")
            };
            assert!(why.contains(what), "{why}");
        }
    }

    #[test]
    fn what_never_passed_or_cannot_be_read_runs() {
        let now = inputs(&["file a 1"]);
        assert!(matches!(judge(Ok(None), &now, 5), Verdict::Run(None)));
        assert!(matches!(
            judge(Err("odd".to_owned()), &now, 5),
            Verdict::Run(Some(_))
        ));
    }
}
