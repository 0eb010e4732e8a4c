//! A database with many tasks in it, and how many rows were read there since.

use super::Postgres;
use super::postgres::first_value;
use std::ops::Range;
use std::time::{Duration, Instant};

impl Postgres {
    /// Adds tasks that have ended, by their numbers, the lowest the oldest; the first hundred are
    /// of a rare type and in rare states. Of the tenants `default` and `other`. Then the server
    /// gathers its statistics, as it does by itself within a minute.
    ///
    /// # Panics
    /// When the database has no schema, or does not answer.
    pub fn add_tasks(&self, url: &str, numbers: Range<u32>) {
        self.add_tasks_unseen(url, numbers);
        self.run_sql(url, "VACUUM ANALYZE")
            .unwrap_or_else(|error| panic!("no statistics: {error}"));
    }

    /// The same before the server has gathered its statistics.
    ///
    /// # Panics
    /// When the database has no schema, or does not answer.
    pub fn add_tasks_unseen(&self, url: &str, numbers: Range<u32>) {
        let text = include_str!("rows.sql").replace("{first}", &numbers.start.to_string());
        let text = text.replace("{last}", &(numbers.end.saturating_sub(1)).to_string());
        self.run_sql(url, &text)
            .unwrap_or_else(|error| panic!("no rows: {error}"));
    }

    /// How many rows and blocks were read in this database so far, once all others have left it.
    ///
    /// # Panics
    /// When the server does not answer, or the others do not leave.
    #[must_use]
    pub fn rows_read(&self, url: &str) -> i64 {
        let number = |query: &str| {
            let answer = first_value(url, query).unwrap_or_else(|error| panic!("{query}: {error}"));
            answer
                .and_then(|text| text.parse::<i64>().ok())
                .unwrap_or_else(|| panic!("{query}: no number"))
        };
        let until = Instant::now() + LIMIT;
        while number(OTHERS) > 0 {
            assert!(
                Instant::now() < until,
                "others are still connected to {url}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        number(ROWS_READ)
    }
}

const LIMIT: Duration = Duration::from_secs(60);

const OTHERS: &str = "SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";

/// How many rows and blocks were read in this database, as a query: of tables from end to end, and
/// by indexes. An index entry whose row is not read counts with its block alone. A server's
/// process hands its count in when it ends.
pub const ROWS_READ: &str =
    "SELECT (SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_user_tables)::bigint
    + (SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_user_indexes)::bigint
    + (SELECT coalesce(sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit), 0)
       FROM pg_statio_user_tables)::bigint";
