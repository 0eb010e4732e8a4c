//! A chart of hours as SVG, with its axes, their unit and what each line is: how long something took. Must not know what that is.

use crate::time_text::duration;
use maud::{Markup, html};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 220.0;
/// Left of the hours, for the times; and below, for the hours.
const LEFT: f64 = 88.0;
const BOTTOM: f64 = 28.0;
const TOP: f64 = 12.0;
const RIGHT: f64 = 8.0;

/// One hour: its number since the first one shown, and what was measured in it, in milliseconds, of each line.
pub(crate) struct Measured {
    pub(crate) hour: u32,
    pub(crate) millis: Vec<u64>,
}

/// What a chart shows.
pub(crate) struct Hours<'a> {
    /// What it is, for those who do not see it.
    pub(crate) words: &'a str,
    /// Names of the lines, from the bottom.
    pub(crate) lines: &'a [&'a str],
    /// Begin of the first hour and of the last, as they are shown.
    pub(crate) from: &'a str,
    pub(crate) to: &'a str,
    /// Number of hours from the first to the last.
    pub(crate) hours: u32,
    pub(crate) measured: &'a [Measured],
}

/// The chart. Times go up by powers of ten: what takes seconds and what takes hours are both to be seen.
pub(crate) fn draw(it: &Hours<'_>) -> Markup {
    let all = || it.measured.iter().flat_map(|hour| hour.millis.iter());
    let (Some(least), Some(most)) = (all().min(), all().max()) else {
        return html! {};
    };
    let (low, high) = (power_below(*least), power_above(*most));
    let y = |millis: f64| {
        let share = (millis.max(1.0).log10() - low) / (high - low);
        HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)
    };
    let x = |hour: u32| {
        let share = f64::from(hour) / f64::from(it.hours.max(2) - 1);
        LEFT + share * (WIDTH - LEFT - RIGHT)
    };
    let marks = (0..=12)
        .map(f64::from)
        .filter(|power| (low..=high).contains(power));
    let marks: Vec<f64> = marks.map(|power| 10f64.powf(power)).collect();
    html! {
        figure.hours tabindex="0" aria-label=(it.words) {
            svg viewBox="0 0 720 220" aria-hidden="true" {
                @for mark in &marks {
                    line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(at(y(*mark))) y2=(at(y(*mark))) {}
                    text x=(LEFT - 6.0) y=(at(y(*mark) + 4.0)) text-anchor="end" { (duration((*mark * 1_000.0) as i64)) }
                }
                text x=(LEFT) y=(HEIGHT - 8.0) { (it.from) }
                text x=(WIDTH - RIGHT) y=(HEIGHT - 8.0) text-anchor="end" { (it.to) }
                @for (place, name) in it.lines.iter().enumerate() {
                    g class={ "line" (place) } {
                        title { (name) }
                        path d=(path(it.measured, place, x, |millis| y(millis as f64))) {}
                        @for hour in it.measured {
                            @if let Some(millis) = hour.millis.get(place) { circle cx=(at(x(hour.hour))) cy=(at(y(*millis as f64))) r="2.5" {} }
                        }
                    }
                }
            }
            figcaption {
                @for (place, name) in it.lines.iter().enumerate() {
                    span class={ "key line" (place) } { svg viewBox="0 0 30 8" aria-hidden="true" { path d="M0 4 L30 4" {} } (name) } " "
                }
                span.quiet { "by the hour, UTC" }
            }
        }
    }
}

/// Lines between hours that follow each other; nothing was measured in the others.
fn path(
    measured: &[Measured],
    place: usize,
    x: impl Fn(u32) -> f64,
    y: impl Fn(u64) -> f64,
) -> String {
    let (mut path, mut before) = (String::new(), None);
    for hour in measured {
        let Some(millis) = hour.millis.get(place) else {
            continue;
        };
        let follows = before.is_some_and(|before: u32| before + 1 == hour.hour);
        let sign = if follows { 'L' } else { 'M' };
        path += &format!("{sign}{:.1} {:.1} ", x(hour.hour), y(*millis));
        before = Some(hour.hour);
    }
    path.trim_end().to_owned()
}

fn at(number: f64) -> String {
    format!("{number:.1}")
}

fn power_below(millis: u64) -> f64 {
    (millis.max(1) as f64).log10().floor()
}

fn power_above(millis: u64) -> f64 {
    let above = (millis.max(1) as f64).log10().ceil();
    above.max(power_below(millis) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_breaks_where_nothing_was_measured() {
        let hour = |hour, millis| Measured {
            hour,
            millis: vec![millis],
        };
        let measured = [hour(0, 10), hour(1, 100), hour(4, 1_000)];
        let drawn = path(&measured, 0, f64::from, |millis| millis as f64);
        assert_eq!(drawn, "M0.0 10.0 L1.0 100.0 M4.0 1000.0");
    }

    #[test]
    fn the_axis_has_a_power_of_ten_below_and_above() {
        assert_eq!((power_below(320), power_above(320)), (2.0, 3.0));
        assert_eq!((power_below(1_000), power_above(1_000)), (3.0, 4.0));
        assert_eq!((power_below(0), power_above(0)), (0.0, 1.0));
    }
}
