//! Samples as a table of comma-separated values, and as a picture. Judges nothing.

use super::{Kind, Samples};
use std::fmt::Write;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 220.0;
/// Of a panel's curves.
const LEFT: f64 = 60.0;
const TOP: f64 = 24.0;
const RIGHT: f64 = 640.0;
const BOTTOM: f64 = 200.0;
const COLOURS: [&str; 8] = [
    "#1b6ca8", "#d1495b", "#3a7d44", "#8e5ea2", "#c77700", "#2a9d8f", "#6d597a", "#555555",
];

/// One line a sample, one column a series; what was not measured is empty.
pub(super) fn csv(samples: &Samples) -> String {
    let mut text = "seconds".to_owned();
    for series in samples.series.keys() {
        _ = write!(text, ",{series}");
    }
    text.push('\n');
    for (at, seconds) in samples.at.iter().enumerate() {
        _ = write!(text, "{seconds:.1}");
        for values in samples.series.values() {
            match values.get(&at) {
                Some(value) => _ = write!(text, ",{value}"),
                None => text.push(','),
            }
        }
        text.push('\n');
    }
    text
}

/// A panel for each kind, with a curve for each series. What lies before `judged_from` is not judged.
pub(super) fn svg(samples: &Samples, judged_from: f64) -> String {
    let end = samples.at.last().copied().unwrap_or_default().max(1.0);
    let height = HEIGHT * Kind::ALL.len() as f64;
    let mut picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (number, kind) in Kind::ALL.into_iter().enumerate() {
        _ = writeln!(
            picture,
            "<g transform=\"translate(0 {})\">",
            HEIGHT * number as f64
        );
        panel(&mut picture, samples, kind, (judged_from, end));
        picture.push_str("</g>\n");
    }
    picture + "</svg>\n"
}

fn panel(picture: &mut String, samples: &Samples, kind: Kind, (from, end): (f64, f64)) {
    let of_kind = || {
        let all = samples.series.iter();
        all.filter(move |(it, _)| it.kind == kind)
    };
    let most = of_kind().flat_map(|(_, values)| values.values());
    let most = most.fold(1.0_f64, |most, value| most.max(*value));
    let x = |seconds: f64| LEFT + (RIGHT - LEFT) * seconds / end;
    let y = |value: f64| BOTTOM - (BOTTOM - TOP) * value / most;
    let warm = x(from) - LEFT;
    _ = write!(
        picture,
        "<rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{warm:.1}\" height=\"{}\" fill=\"#eeeeee\"/>\n\
         <path d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\" fill=\"none\" stroke=\"#999999\"/>\n\
         <text x=\"{LEFT}\" y=\"16\">{kind}</text>\n\
         <text x=\"{}\" y=\"{TOP}\" text-anchor=\"end\">{most:.0}</text>\n\
         <text x=\"{}\" y=\"{BOTTOM}\" text-anchor=\"end\">0</text>\n\
         <text x=\"{RIGHT}\" y=\"{}\" text-anchor=\"end\">{:.0} min</text>\n",
        BOTTOM - TOP,
        LEFT - 4.0,
        LEFT - 4.0,
        BOTTOM + 14.0,
        end / 60.0
    );
    for (number, (series, values)) in of_kind().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let points: Vec<String> = values
            .iter()
            .map(|(at, value)| format!("{:.1},{:.1}", x(samples.at[*at]), y(*value)))
            .collect();
        let name = 12.0f64.mul_add(number as f64, TOP + 4.0);
        _ = write!(
            picture,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\"/>\n\
             <text x=\"{}\" y=\"{name}\" fill=\"{colour}\">{}</text>\n",
            points.join(" "),
            RIGHT + 10.0,
            series.of
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::Series;
    use super::*;

    fn samples() -> Samples {
        let mut samples = Samples::default();
        for at in 0..3_u32 {
            let series = |kind, of: &str| Series {
                kind,
                of: of.to_owned(),
            };
            let mut values = vec![(series(Kind::Memory, "api 1"), f64::from(at) + 50.5)];
            if at != 1 {
                values.push((series(Kind::Rows, "tasks"), 7.0));
            }
            samples.add(f64::from(at) * 5.0, values);
        }
        samples
    }

    #[test]
    fn each_sample_is_a_line_and_what_was_not_measured_is_empty() {
        let lines =
            "seconds,MiB of memory: api 1,rows: tasks\n0.0,50.5,7\n5.0,51.5,\n10.0,52.5,7\n";
        assert_eq!(csv(&samples()), lines);
    }

    #[test]
    fn each_series_is_a_curve_with_its_name() {
        let picture = svg(&samples(), 5.0);
        assert_eq!(picture.matches("<polyline").count(), 2);
        assert_eq!(picture.matches("<g ").count(), Kind::ALL.len());
        for text in [
            ">api 1</text>",
            ">tasks</text>",
            "points=\"60.0,30.7 350.0,27.4 640.0,24.0\"",
            // Half of the time is not judged.
            "width=\"290.0\"",
        ] {
            assert!(picture.contains(text), "{text} is missing in {picture}");
        }
    }
}
