//! A page of metrics in the format that a scraper wants: OpenMetrics as it is written, or the older
//! text format, made of it.

use std::collections::HashMap;

/// The media type of OpenMetrics.
pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The media type of the older text format.
pub const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A format of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format of Prometheus, 0.0.4, which `promtool check metrics` reads.
    Text,
}

impl Format {
    /// By the header `Accept`: OpenMetrics where it is named. `curl .. | promtool check metrics` names nothing, and reads text.
    #[must_use]
    pub fn wanted(accept: Option<&str>) -> Self {
        if accept.is_some_and(|accept| accept.contains("application/openmetrics-text")) {
            Self::OpenMetrics
        } else {
            Self::Text
        }
    }

    /// Its media type.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => OPEN_METRICS,
            Self::Text => TEXT,
        }
    }

    /// A page of OpenMetrics in this format.
    #[must_use]
    pub fn of(self, page: String) -> String {
        match self {
            Self::OpenMetrics => page,
            Self::Text => as_text(&page),
        }
    }
}

/// What the older format calls a metric's type, and the suffix with which the name of the family then
/// ends.
fn older(kind: &str) -> (&str, &str) {
    match kind {
        "counter" => ("counter", "_total"),
        "info" => ("gauge", "_info"),
        "stateset" => ("gauge", ""),
        "gaugehistogram" | "unknown" => ("untyped", ""),
        same => (same, ""),
    }
}

fn as_text(page: &str) -> String {
    let kinds: HashMap<&str, &str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .collect();
    let mut text = String::with_capacity(page.len());
    for line in page.lines() {
        if let Some((name, kind)) = described(line, "# TYPE ") {
            let (kind, suffix) = older(kind);
            text += &format!("# TYPE {name}{suffix} {kind}\n");
        } else if let Some((name, help)) = described(line, "# HELP ") {
            let (_, suffix) = older(kinds.get(name).copied().unwrap_or_default());
            text += &format!("# HELP {name}{suffix} {help}\n");
        } else if !line.starts_with('#') {
            text += without_exemplar(line);
            text.push('\n');
        }
    }
    text
}

fn described<'a>(line: &'a str, mark: &str) -> Option<(&'a str, &'a str)> {
    line.strip_prefix(mark)?.split_once(' ')
}

/// The older format has none. A label's value may look like one.
fn without_exemplar(line: &str) -> &str {
    let (mut in_value, mut escaped) = (false, false);
    for (at, sign) in line.char_indices() {
        match sign {
            '"' if !escaped => in_value = !in_value,
            '#' if !in_value => return line[..at].trim_end(),
            _ => {}
        }
        escaped = sign == '\\' && !escaped;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_openmetrics_for_those_that_name_it_and_text_for_all_others() {
        // As Prometheus 2.42 sends it.
        let both = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                    text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for accept in [both, "application/openmetrics-text"] {
            assert_eq!(Format::wanted(Some(accept)), Format::OpenMetrics);
        }
        for accept in [None, Some("*/*"), Some("text/plain;version=0.0.4")] {
            assert_eq!(Format::wanted(accept), Format::Text);
        }
    }

    #[test]
    fn a_page_of_the_older_format_has_the_names_and_types_of_that_and_no_exemplars() {
        let page = "\
# HELP a_b Helps.
# TYPE a_b counter
a_b_total{x=\"1\"} 2 # {trace=\"x\"} 1.0
# HELP t_seconds Time.
# TYPE t_seconds gauge
# UNIT t_seconds seconds
t_seconds{x=\"a \\\" # {\\\\\"} 1.5
# TYPE u unknown
u 1
# EOF
";
        let text = "\
# HELP a_b_total Helps.
# TYPE a_b_total counter
a_b_total{x=\"1\"} 2
# HELP t_seconds Time.
# TYPE t_seconds gauge
t_seconds{x=\"a \\\" # {\\\\\"} 1.5
# TYPE u untyped
u 1
";
        assert_eq!(Format::Text.of(page.to_owned()), text);
        assert_eq!(Format::OpenMetrics.of(page.to_owned()), page);
    }
}
