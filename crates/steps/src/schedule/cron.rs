//! Cron expressions: five fields, or six with the second first. Reads them, and finds the next
//! local time that fits one. Knows no zone: that an hour may be missing or come twice is the
//! business of [`next_time`](super::next_time).

use jiff::civil::{Date, DateTime, Time};

/// Maximum number of days that are searched from a time on: 29 February on a given weekday is at most 40
/// years away.
const DAYS: u32 = 41 * 366;

/// What an expression says, as sets of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cron {
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// The day of the month, or that of the week, says nothing. Where both say something, one of
    /// them is enough.
    any_day: bool,
    any_weekday: bool,
    /// The hour begins with `*`, or names each: the expression means real time that passes, and not given times of
    /// a day.
    every_hour: bool,
}

/// An expression that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CronError(String);

struct Field {
    name: &'static str,
    lowest: u8,
    highest: u8,
    names: &'static [&'static str],
}

const SECOND: Field = Field {
    name: "second",
    lowest: 0,
    highest: 59,
    names: &[],
};
const MINUTE: Field = Field {
    name: "minute",
    lowest: 0,
    highest: 59,
    names: &[],
};
const HOUR: Field = Field {
    name: "hour",
    lowest: 0,
    highest: 23,
    names: &[],
};
const DAY: Field = Field {
    name: "day of the month",
    lowest: 1,
    highest: 31,
    names: &[],
};
const MONTH: Field = Field {
    name: "month",
    lowest: 1,
    highest: 12,
    names: &[
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ],
};
/// 7 is Sunday, too.
const WEEKDAY: Field = Field {
    name: "day of the week",
    lowest: 0,
    highest: 7,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

impl Cron {
    /// Reads `minute hour day-of-month month day-of-week`, the same with a second in front, or one
    /// of `@hourly`, `@daily`, `@midnight`, `@weekly`, `@monthly`, `@yearly`, `@annually`.
    ///
    /// # Errors
    /// [`CronError`] names the field, what was found, and what was expected.
    pub fn parse(text: &str) -> Result<Self, CronError> {
        let (cron, refused) = Self::parse_stored(text)?;
        refused.map_or(Ok(cron), Err)
    }

    /// Reads one that an earlier version took: with why it is refused today, where it is.
    ///
    /// # Errors
    /// [`CronError`] of what never was one.
    pub fn parse_stored(text: &str) -> Result<(Self, Option<CronError>), CronError> {
        let text = match text.trim() {
            "@hourly" => "0 * * * *",
            "@daily" | "@midnight" => "0 0 * * *",
            "@weekly" => "0 0 * * 0",
            "@monthly" => "0 0 1 * *",
            "@yearly" | "@annually" => "0 0 1 1 *",
            other => other,
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let (second, rest) = match fields.as_slice() {
            [second, rest @ ..] if rest.len() == 5 => (*second, rest),
            rest if rest.len() == 5 => ("0", rest),
            _ => {
                let words = "a cron expression has five fields (minute, hour, day of the month, month, day of the week), \
                             or six with the second first";
                return Err(CronError(format!("`{text}` has {}: {words}", fields.len())));
            }
        };
        let mut refused = None;
        let mut read = |field: &Field, text| field.read(text, &mut refused);
        let weekdays = read(&WEEKDAY, rest[4])?;
        let hours = read(&HOUR, rest[1])?;
        let cron = Self {
            seconds: read(&SECOND, second)?,
            minutes: read(&MINUTE, rest[0])?,
            hours,
            days: read(&DAY, rest[2])?,
            months: read(&MONTH, rest[3])?,
            weekdays: (weekdays | weekdays >> 7) & 0x7f,
            any_day: is_any(rest[2]),
            any_weekday: is_any(rest[4]),
            every_hour: rest[1].starts_with('*') || hours == HOUR.all(),
        };
        // A leap year is enough to meet every day that there is.
        let exists = cron.next(Date::constant(2024, 1, 1).at(0, 0, 0, 0));
        exists
            .map(|_| (cron, refused))
            .ok_or_else(|| CronError(format!("`{text}` names no day that exists")))
    }

    /// Whether it means real time that passes (`*` or `*/n` hours), so that a clock change neither
    /// repeats nor moves anything, and not given times of a day.
    pub(super) const fn is_every_hour(&self) -> bool {
        self.every_hour
    }

    /// The first local time at or after `from` that fits, to the second.
    pub(super) fn next(&self, from: DateTime) -> Option<DateTime> {
        let mut date = from.date();
        let mut time = from.time();
        for _ in 0..DAYS {
            if self.has_day(date)
                && let Some(found) = self.time_from(time)
            {
                return Some(date.to_datetime(found));
            }
            date = date.tomorrow().ok()?;
            time = Time::midnight();
        }
        None
    }

    fn has_day(&self, date: Date) -> bool {
        let day = has(self.days, date.day());
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        has(self.months, date.month())
            && match (self.any_day, self.any_weekday) {
                (false, false) => day || weekday,
                (true, _) | (_, true) => day && weekday,
            }
    }

    fn time_from(&self, from: Time) -> Option<Time> {
        let mut hour = next(self.hours, from.hour())?;
        let same = hour == from.hour();
        let (mut minute, mut second) = if same {
            (from.minute(), from.second())
        } else {
            (0, 0)
        };
        loop {
            let Some(found) = next(self.minutes, minute) else {
                hour = next(self.hours, hour + 1)?;
                (minute, second) = (0, 0);
                continue;
            };
            if found != minute {
                second = 0;
            }
            if let Some(second) = next(self.seconds, second) {
                return Time::new(hour, found, second, 0).ok();
            }
            (minute, second) = (found + 1, 0);
        }
    }
}

fn has(bits: u64, at: i8) -> bool {
    bits >> at & 1 == 1
}

fn next(bits: u64, from: i8) -> Option<i8> {
    let left = bits & (!0 << from);
    (left != 0).then(|| i8::try_from(left.trailing_zeros()).unwrap_or(i8::MAX))
}

/// Whether a field of days says nothing: `*`, as the manual of Vixie's cron has it. `*/2` says something.
fn is_any(text: &str) -> bool {
    text.split(',').any(|part| matches!(part, "*" | "*/1"))
}

impl Field {
    /// The values, as bits. `refused`: why a part that earlier versions took is refused, where there is one.
    fn read(&self, text: &str, refused: &mut Option<CronError>) -> Result<u64, CronError> {
        text.split(',').try_fold(0, |bits, part| {
            Ok(bits
                | self
                    .part(part, refused)
                    .map_err(|why| self.wrong(text, why))?)
        })
    }

    fn all(&self) -> u64 {
        (self.lowest..=self.highest).fold(0, |bits, at| bits | 1 << at)
    }

    /// Without the second name of Sunday.
    fn last(&self) -> u8 {
        if self.highest == WEEKDAY.highest {
            6
        } else {
            self.highest
        }
    }

    fn wrong(&self, text: &str, why: Option<String>) -> CronError {
        let Self {
            name,
            lowest,
            highest,
            names,
        } = self;
        if let Some(why) = why {
            return CronError(format!("the {name} is `{text}`: {why}"));
        }
        let or = if names.is_empty() {
            String::new()
        } else {
            format!(", or names like {}", names[1])
        };
        CronError(format!(
            "the {name} is `{text}`; expected *, or numbers from {lowest} to {highest}{or}, as a list (1,2), a range \
             (1-5) or steps (*/2)"
        ))
    }

    /// `*`, `5`, `1-5`, each with `/2`; `5/2` is `5-59/2`. An error says what is wrong, where more can be said than what a
    /// field may be.
    fn part(&self, text: &str, refused: &mut Option<CronError>) -> Result<u64, Option<String>> {
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, Some(number(step).ok_or(None)?)),
            None => (text, None),
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (self.lowest, self.last()),
            Some((first, last)) => (self.one(first)?, self.one(last)?),
            None => {
                let one = self.one(range)?;
                (
                    one,
                    if step.is_some() {
                        self.last().max(one)
                    } else {
                        one
                    },
                )
            }
        };
        if first > last {
            let span = |first, last| {
                if first == last {
                    format!("{first}")
                } else {
                    format!("{first}-{last}")
                }
            };
            let (to, from) = (span(first, self.last()), span(self.lowest, last));
            return Err(Some(format!(
                "a range does not go over the end of the field; write `{to},{from}` for `{range}`"
            )));
        }
        let step_by = step.unwrap_or(1);
        if step_by == 0 {
            return Err(None);
        }
        if step_by > 1 && u32::from(first) + u32::from(step_by) > u32::from(last) {
            let most = last - first;
            let or = if most > 1 {
                format!(", or a step of at most {most}")
            } else {
                String::new()
            };
            let why = format!(
                "a step of {step_by} goes beyond {first}-{last}; write `{first}` for what `{text}` means{or}"
            );
            refused.get_or_insert_with(|| self.wrong(text, Some(why)));
        }
        Ok((first..=last)
            .step_by(step_by.into())
            .fold(0, |bits, at| bits | 1 << at))
    }

    fn one(&self, text: &str) -> Result<u8, Option<String>> {
        let at = self
            .names
            .iter()
            .position(|name| name.eq_ignore_ascii_case(text));
        let value = match at {
            Some(at) => u8::try_from(at).map_err(|_| None)? + self.lowest,
            None => number(text).ok_or(None)?,
        };
        if (self.lowest..=self.highest).contains(&value) {
            Ok(value)
        } else {
            Err(None)
        }
    }
}

fn number(text: &str) -> Option<u8> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}
