//! The flags by which a list of tasks is filtered and paged, as the API's parameters.

use super::times::Since;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use counterstep_contracts::TaskStatus;
use counterstep_contracts::http::FAILURE_CLASSES;

/// Reads a state; another text is refused with those that there are.
pub(super) fn status() -> impl TypedValueParser<Value = TaskStatus> {
    PossibleValuesParser::new(TaskStatus::ALL.iter().map(|it| it.as_str()))
        .try_map(|text| text.parse::<TaskStatus>())
}

/// Which tasks a list shows.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct TaskFilter {
    /// Of this type only
    #[arg(long = "type")]
    task_type: Option<String>,
    /// In this state only; repeated: in one of these
    #[arg(long, value_parser = status())]
    status: Vec<TaskStatus>,
    /// Maximum number of rows
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=200))]
    limit: u32,
    /// Continue where another page ended
    #[arg(long)]
    cursor: Option<String>,
}

impl TaskFilter {
    /// As the API's parameters; `cursor`: of a further page.
    pub(super) fn query(&self, cursor: Option<String>) -> Vec<(&'static str, String)> {
        let mut query = vec![("limit", self.limit.to_string())];
        query.extend(self.task_type.clone().map(|value| ("type", value)));
        query.extend(
            self.status
                .iter()
                .map(|value| ("status", value.to_string())),
        );
        query.extend(
            cursor
                .or_else(|| self.cursor.clone())
                .map(|value| ("cursor", value)),
        );
        query
    }

    /// Maximum number that is shown; the last page may bring a few more.
    pub(super) fn most(&self) -> usize {
        usize::try_from(self.limit).unwrap_or(usize::MAX)
    }

    /// Whether there may be others than these.
    pub(super) fn is_filtered(&self) -> bool {
        self.task_type.is_some() || !self.status.is_empty() || self.cursor.is_some()
    }
}

/// What else the list of all tasks is searched by.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Search {
    /// With this label only, as order=4711; may be repeated, and then all must be there
    #[arg(long, value_name = "NAME=VALUE")]
    label: Vec<String>,
    /// Submitted since: a duration (2h) or a time
    #[arg(long)]
    since: Option<Since>,
    /// Submitted before this time, or longer ago than this
    #[arg(long)]
    until: Option<Since>,
    /// With a failure of this class only, as permanent or timed_out
    #[arg(long, value_parser = PossibleValuesParser::new(FAILURE_CLASSES))]
    failure_class: Option<String>,
    /// With this in the text of the failure; needs --type or --since
    #[arg(long)]
    failure_text: Option<String>,
}

impl Search {
    /// As the API's parameters.
    pub(super) fn query(&self) -> Vec<(&'static str, String)> {
        let label = self.label.iter().map(|label| ("label", label.clone()));
        let mut query: Vec<_> = label.collect();
        query.extend(self.since.map(|time| ("since", time.rfc3339())));
        query.extend(self.until.map(|time| ("until", time.rfc3339())));
        let failure = [
            ("failure_class", &self.failure_class),
            ("failure_text", &self.failure_text),
        ];
        query.extend(
            failure
                .into_iter()
                .filter_map(|(key, value)| Some((key, value.clone()?))),
        );
        query
    }

    /// Whether there may be others than these.
    pub(super) const fn is_filtered(&self) -> bool {
        !self.label.is_empty()
            || self.since.is_some()
            || self.until.is_some()
            || self.failure_class.is_some()
            || self.failure_text.is_some()
    }
}
