//! The stamp of a run that passed: how many tests, when, and with which inputs. A text file for
//! each test program.

use super::Inputs;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Another form gets another first line, so that no program misreads the stamp of another.
const FORM: &str = "tests passed, form 1";

/// A run without a filter in which every test passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// How many tests passed.
    pub(crate) passed: u64,
    /// When, in seconds since 1970.
    pub(crate) at: u64,
    /// What they depended on.
    pub(crate) inputs: Inputs,
}

/// Seconds since 1970, by this machine's clock.
pub(super) fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

impl Stamp {
    /// Of tests that have passed just now.
    pub(crate) fn new(passed: u64, inputs: Inputs) -> Self {
        Self {
            passed,
            at: now(),
            inputs,
        }
    }

    /// `None`: there is none.
    pub(super) fn read(folder: &Path, title: &str) -> Result<Option<Self>, String> {
        let file = place(folder, title);
        match std::fs::read_to_string(&file) {
            Ok(text) => Self::parse(&text)
                .map(Some)
                .ok_or_else(|| format!("{} is not understood", file.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("{} cannot be read: {error}", file.display())),
        }
    }

    pub(super) fn write(&self, folder: &Path, title: &str) -> Result<(), String> {
        let file = place(folder, title);
        let draft = file.with_extension("new");
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&draft, self.to_text()))
            // A full disk leaves half of the draft, never half of a stamp.
            .and_then(|()| std::fs::rename(&draft, &file))
            .map_err(|error| format!("{} cannot be written: {error}", file.display()))
    }

    pub(super) fn remove(folder: &Path, title: &str) -> Result<(), String> {
        let file = place(folder, title);
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(format!("{} cannot be removed: {error}", file.display()))
            }
            _ => Ok(()),
        }
    }

    fn to_text(&self) -> String {
        let lines = self.inputs.lines();
        let mut text = format!(
            "{FORM}\npassed {}\nat {}\ninputs {}\n",
            self.passed,
            self.at,
            lines.len()
        );
        for line in lines {
            let _ = writeln!(text, "{line}");
        }
        text
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        if lines.next()? != FORM {
            return None;
        }
        let mut number =
            |word: &str| -> Option<u64> { lines.next()?.strip_prefix(word)?.parse().ok() };
        let (passed, at, count) = (number("passed ")?, number("at ")?, number("inputs ")?);
        let inputs: Vec<String> = lines.map(str::to_owned).collect();
        let whole = u64::try_from(inputs.len()).is_ok_and(|found| found == count);
        whole.then(|| Self {
            passed,
            at,
            inputs: Inputs::of(inputs),
        })
    }

    /// When they passed, as people write it: `2026-11-21 06:40 UTC`.
    pub(crate) fn when(&self) -> String {
        let (days, seconds) = (self.at / 86_400, self.at % 86_400);
        let (year, month, day) = date(days);
        format!(
            "{year:04}-{month:02}-{day:02} {:02}:{:02} UTC",
            seconds / 3600,
            seconds / 60 % 60
        )
    }
}

fn place(folder: &Path, title: &str) -> PathBuf {
    folder.join(title.replace(' ', "-"))
}

/// The date that many days after 1970-01-01. Counted year by year and month by month: there are
/// few, and it is plain.
fn date(mut days: u64) -> (u64, u64, u64) {
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let months = [
        31,
        28 + u64::from(leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let mut month = 1;
    for length in months {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::{Inputs, Stamp};

    fn stamp() -> Stamp {
        Stamp {
            passed: 77,
            at: 1_795_243_200,
            inputs: Inputs::of(vec!["file a 1".to_owned(), "env B 2".to_owned()]),
        }
    }

    #[test]
    fn a_stamp_comes_back_as_it_was_written() {
        let stamp = stamp();
        assert_eq!(Stamp::parse(&stamp.to_text()), Some(stamp));
    }

    #[test]
    fn half_a_stamp_is_none() {
        let text = stamp().to_text();
        let half: String = text.lines().take(4).collect::<Vec<_>>().join("\n");
        assert_eq!(Stamp::parse(&half), None);
        assert_eq!(Stamp::parse(&text.replace("form 1", "form 2")), None);
        assert_eq!(Stamp::parse(""), None);
    }

    #[test]
    fn its_time_is_written_as_people_write_it() {
        for (at, shown) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (951_868_800, "2000-03-01 00:00 UTC"),
            (1_798_761_599, "2026-12-31 23:59 UTC"),
            (1_798_761_600, "2027-01-01 00:00 UTC"),
        ] {
            assert_eq!(Stamp { at, ..stamp() }.when(), shown);
        }
    }
}
