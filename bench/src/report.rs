//! What was measured, for people and for programs.

use crate::Mode;
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
    /// Processor milliseconds a task, by process.
    pub(crate) cpu_ms_per_task: BTreeMap<&'static str, f64>,
    /// Tasks per statement of the baseline.
    pub(crate) ratio: Option<f64>,
}

/// All measurements.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The database's own statements a second, before and after; none where only files were measured.
    pub(crate) baseline: Option<[f64; 2]>,
    pub(crate) measured: Vec<Measured>,
}

impl Report {
    pub(crate) fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    pub(crate) fn text(&self) -> String {
        let head = ["mode", "in flight", "tasks/s", "p50 ms", "p99 ms", "commits", "round trips", "CPU ms", "ratio"];
        let mut rows = Table::new();
        rows.load_style(UTF8_BORDERS_ONLY).set_content_arrangement(ContentArrangement::Dynamic).set_header(head);
        for one in &self.measured {
            let cpu: Vec<_> = one.cpu_ms_per_task.iter().map(|(name, ms)| format!("{name} {ms:.2}")).collect();
            rows.add_row([
                format!("{:?}", one.mode).to_lowercase(),
                one.in_flight.to_string(),
                format!("{:.0}", one.tasks_per_second),
                format!("{:.1}", one.p50_ms),
                format!("{:.1}", one.p99_ms),
                one.commits_per_task.map_or_else(String::new, |commits| format!("{commits:.2}")),
                format!("{:.2}", one.round_trips_per_task),
                cpu.join(", "),
                one.ratio.map_or_else(String::new, |ratio| format!("{ratio:.3}")),
            ]);
        }
        let mut text = String::new();
        if let Some([first, last]) = self.baseline {
            text += &format!(
                "Baseline, one statement with the same three writes from 32 clients: {first:.0}/s before, {last:.0}/s after\n"
            );
        }
        text + "Commits, round trips and CPU are for one task; the ratio is tasks per statement of the baseline\n"
            + &format!("{rows}\n")
    }
}
