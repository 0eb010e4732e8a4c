//! The flags by which a list of tasks is filtered and paged, as the API's parameters.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use counterstep_contracts::TaskStatus;

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
