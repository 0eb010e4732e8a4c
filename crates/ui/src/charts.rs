//! Small charts as SVG: one curve over time, and as text what it shows. Must not know what that is.

use maud::{Markup, html};

const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 56.0;
/// So that the highest point and the line are within the picture.
const ROOM: f64 = 3.0;

/// A curve of these values, the first at the left. With fewer than two there is none.
pub(crate) fn curve(values: &[f64], tone: &str, words: &str) -> Markup {
    let Some((line, area)) = paths(values) else {
        return html! { svg class={ "chart " (tone) } viewBox="0 0 240 56" preserveAspectRatio="none" role="img" aria-label={ (words) ": nothing yet" } {} };
    };
    html! {
        svg class={ "chart " (tone) } viewBox="0 0 240 56" preserveAspectRatio="none" role="img" aria-label=(words) {
            path.area d=(area) {}
            path.curve d=(line) {}
        }
    }
}

fn paths(values: &[f64]) -> Option<(String, String)> {
    let last = values.len().checked_sub(1).filter(|last| *last > 0)?;
    let most = values.iter().copied().fold(1e-9, f64::max);
    let step = WIDTH / f64::from(u32::try_from(last).ok()?);
    let mut line = String::new();
    for (at, value) in values.iter().enumerate() {
        let x = step * f64::from(u32::try_from(at).ok()?);
        let y = HEIGHT - ROOM - value / most * (HEIGHT - 2.0 * ROOM);
        line += &format!("{}{x:.1} {y:.1} ", if at == 0 { "M" } else { "L" });
    }
    let line = line.trim_end().to_owned();
    let area = format!("{line} L{WIDTH:.1} {HEIGHT} L0 {HEIGHT} Z");
    Some((line, area))
}

#[cfg(test)]
mod tests {
    use super::paths;

    #[test]
    fn a_curve_fills_its_picture() {
        assert_eq!(paths(&[1.0]), None);
        let (line, area) = paths(&[0.0, 2.0, 1.0]).unwrap();
        assert_eq!(line, "M0.0 53.0 L120.0 3.0 L240.0 28.0");
        assert!(area.ends_with("L240.0 56 L0 56 Z"));
        assert_eq!(paths(&[0.0, 0.0]).unwrap().0, "M0.0 53.0 L240.0 53.0");
    }
}
