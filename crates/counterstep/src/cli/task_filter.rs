//! The flags by which a list of tasks is filtered and paged, as the API's parameters.

use counterstep_contracts::TaskStatus;

/// Which tasks a list shows.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct TaskFilter {
    /// Of this type only
    #[arg(long = "type")]
    task_type: Option<String>,
    /// In this state only
    #[arg(long)]
    status: Option<TaskStatus>,
    /// At most so many
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
        query.extend(self.status.map(|value| ("status", value.to_string())));
        query.extend(
            cursor
                .or_else(|| self.cursor.clone())
                .map(|value| ("cursor", value)),
        );
        query
    }

    /// At most so many are shown; the last page may bring a few more.
    pub(super) fn most(&self) -> usize {
        usize::try_from(self.limit).unwrap_or(usize::MAX)
    }

    /// Whether there may be others than these.
    pub(super) const fn is_filtered(&self) -> bool {
        self.task_type.is_some() || self.status.is_some() || self.cursor.is_some()
    }
}
