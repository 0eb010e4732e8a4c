//! Times and durations as people read them. Must not read a clock but for pages' own age.

use jiff::Timestamp;
use maud::{Markup, html};

/// Microseconds since 1970 of an RFC 3339 text; 0 for what is none.
pub(crate) fn micros(text: &str) -> i64 {
    text.parse::<Timestamp>()
        .map_or(0, Timestamp::as_microsecond)
}

/// Microseconds since 1970, by this machine's clock.
pub(crate) fn now() -> i64 {
    Timestamp::now().as_microsecond()
}

/// Seconds as microseconds.
pub(crate) fn seconds(count: u64) -> i64 {
    i64::try_from(count)
        .unwrap_or(i64::MAX)
        .saturating_mul(1_000_000)
}

/// A duration in microseconds as text: two units at most, as `240 ms`, `4.2 s`, `3 min 20 s`, `2 d 4 h`.
pub(crate) fn duration(micros: i64) -> String {
    let millis = micros.max(0) / 1_000;
    let seconds = millis / 1_000;
    let two = |whole: i64, unit: &str, rest: i64, small: &str| match rest {
        0 => format!("{whole} {unit}"),
        rest => format!("{whole} {unit} {rest} {small}"),
    };
    match seconds {
        0 => format!("{millis} ms"),
        1..=9 => format!("{}.{} s", seconds, millis % 1_000 / 100),
        10..=59 => format!("{seconds} s"),
        60..=3_599 => two(seconds / 60, "min", seconds % 60, "s"),
        3_600..=86_399 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "min"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

/// An age in one unit, as lists show it.
pub(crate) fn age(micros: i64) -> String {
    let seconds = micros.max(0) / 1_000_000;
    match seconds {
        0..=59 => format!("{seconds} s"),
        60..=3_599 => format!("{} min", seconds / 60),
        3_600..=86_399 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// A time: how long ago or until when, with the whole of it as its title. The script keeps it up to date.
pub(crate) fn ago(text: &str) -> Markup {
    let distance = now() - micros(text);
    let shown = if distance < -999_999 {
        format!("in {}", age(-distance))
    } else {
        format!("{} ago", age(distance))
    };
    html! { time datetime=(text) title=(exact(text)) data-ago { (shown) } }
}

/// To the millisecond, in UTC.
pub(crate) fn exact(text: &str) -> String {
    let Ok(at) = text.parse::<Timestamp>() else {
        return text.to_owned();
    };
    at.strftime("%Y-%m-%d %H:%M:%S%.3f UTC").to_string()
}

/// The time of the day, to the millisecond.
pub(crate) fn clock(text: &str) -> String {
    let Ok(at) = text.parse::<Timestamp>() else {
        return text.to_owned();
    };
    at.strftime("%H:%M:%S%.3f").to_string()
}

/// Microseconds since 1970 as RFC 3339 text.
pub(crate) fn rfc3339(micros: i64) -> String {
    Timestamp::from_microsecond(micros).map_or_else(|_| String::new(), |it| it.to_string())
}

/// The hour, as an axis shows it.
pub(crate) fn hour(micros: i64) -> String {
    let at = Timestamp::from_microsecond(micros);
    at.map_or_else(
        |_| String::new(),
        |it| it.strftime("%m-%d %H:00").to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units_at_most() {
        for (micros, shown) in [
            (-5, "0 ms"),
            (240_000, "240 ms"),
            (4_260_000, "4.2 s"),
            (59_900_000, "59 s"),
            (200_000_000, "3 min 20 s"),
            (7_200_000_000, "2 h"),
            (188_000_000_000, "2 d 4 h"),
        ] {
            assert_eq!(duration(micros), shown);
        }
        assert_eq!(age(90_000_000), "1 min");
    }

    #[test]
    fn a_text_that_is_no_time_is_shown_as_it_is() {
        assert_eq!(exact("soon"), "soon");
        assert_eq!(
            exact("2026-11-20T18:00:00.123456Z"),
            "2026-11-20 18:00:00.123 UTC"
        );
    }
}
