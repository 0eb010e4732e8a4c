//! What was measured, for people and for programs.

use crate::limits::Limits;
use crate::mode::Mode;
use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{ContentArrangement, Table};
use serde::Serialize;
use std::collections::BTreeMap;

/// One measurement.
#[derive(Debug, Serialize)]
pub(crate) struct Measured {
    pub(crate) mode: Mode,
    pub(crate) in_flight: u16,
    pub(crate) tasks_per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// Changes of a task; none where the database counts them together with all else.
    pub(crate) commits_per_task: Option<f64>,
    /// Round trips to the store, commits included.
    pub(crate) round_trips_per_task: f64,
    /// Rows that were inserted, updated or deleted; none where no server counts them.
    pub(crate) row_versions_per_task: Option<f64>,
    /// Bytes of the write-ahead log; none where no server counts them.
    pub(crate) wal_bytes_per_task: Option<f64>,
    /// Processor milliseconds a task, by process.
    pub(crate) cpu_ms_per_task: BTreeMap<&'static str, f64>,
    /// Tasks whose rows `fsck` checked a second afterwards, alone; none where no server kept them.
    pub(crate) verified_per_second: Option<f64>,
    /// Tasks per statement of the baseline.
    pub(crate) ratio: Option<f64>,
}

/// All measurements.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// What the database and the disk themselves did, before and after; none where only files were
    /// measured.
    pub(crate) limits: Option<[Limits; 2]>,
    pub(crate) measured: Vec<Measured>,
}

impl Report {
    pub(crate) fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    pub(crate) fn text(&self) -> String {
        let mut rows = Table::new();
        rows.load_style(UTF8_BORDERS_ONLY)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_header([
                "mode",
                "in flight",
                "tasks/s",
                "p50 ms",
                "p99 ms",
                "commits",
                "round trips",
                "rows",
                "WAL bytes",
                "CPU ms",
                "fsck/s",
                "ratio",
            ]);
        let counted = |figure: Option<f64>, digits: usize| {
            figure.map_or_else(String::new, |it| format!("{it:.digits$}"))
        };
        for one in &self.measured {
            let whole: f64 = one.cpu_ms_per_task.values().sum();
            let parts: Vec<_> = one
                .cpu_ms_per_task
                .iter()
                .map(|(name, ms)| format!("{name} {ms:.2}"))
                .collect();
            rows.add_row([
                format!("{:?}", one.mode).to_lowercase(),
                one.in_flight.to_string(),
                format!("{:.0}", one.tasks_per_second),
                format!("{:.1}", one.p50_ms),
                format!("{:.1}", one.p99_ms),
                counted(one.commits_per_task, 2),
                format!("{:.2}", one.round_trips_per_task),
                counted(one.row_versions_per_task, 1),
                counted(one.wal_bytes_per_task, 0),
                format!("{whole:.2}: {}", parts.join(", ")),
                counted(one.verified_per_second, 0),
                counted(one.ratio, 3),
            ]);
        }
        let mut text = String::new();
        for (when, limits) in ["Before", "After"]
            .into_iter()
            .zip(self.limits.iter().flatten())
        {
            text += &format!(
                "{when}: statements with the same three writes {:.0}/s from 1 client, {:.0}/s from 8, {:.0}/s from 32; \
                 {:.0} rows/s appended in batches of 100; {:.0} flushes/s of the disk\n",
                limits.statements_1,
                limits.statements_8,
                limits.statements_32,
                limits.appended_rows,
                limits.disk_flushes
            );
        }
        text + "Commits to CPU are for one task; the ratio is tasks per statement from 32 clients\n"
            + &format!("{rows}\n")
    }
}
