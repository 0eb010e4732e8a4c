//! The database's times as RFC 3339 texts. A dozen lines of calendar, so that no date crate is
//! needed for one format.

use crate::record::DbTime;

/// `2026-11-20T23:11:05.123456Z`.
#[must_use]
pub fn rfc3339(time: DbTime) -> String {
    let (seconds, micros) = (time.0.div_euclid(1_000_000), time.0.rem_euclid(1_000_000));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// Reads an RFC 3339 time, as microseconds since 1970-01-01 UTC; `None`: it is none.
#[must_use]
pub fn read_rfc3339(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>()
        .ok()
        .map(jiff::Timestamp::as_microsecond)
}

/// Year, month and day of a day since 1970-01-01, in the Gregorian calendar. Years are taken to
/// begin in March, so that the leap day is the last of its year, and in eras of 400 years, which
/// all have the same length.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times_are_written_as_known() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000000Z"),
            (1_709_251_199_999_999, "2024-02-29T23:59:59.999999Z"),
            (1_709_251_200_000_000, "2024-03-01T00:00:00.000000Z"),
            (4_107_542_400_000_001, "2100-03-01T00:00:00.000001Z"),
            (1_000_000_000_000_000, "2001-09-09T01:46:40.000000Z"),
        ] {
            assert_eq!(rfc3339(DbTime(micros)), text);
        }
    }
}
