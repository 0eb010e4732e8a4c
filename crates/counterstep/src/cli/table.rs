//! Tables for terminals.

use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{ContentArrangement, Table};
use counterstep_contracts::http::{AuditTrail, AuditView};

/// A table with these headings.
pub(super) fn table(headings: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY).set_content_arrangement(ContentArrangement::Dynamic).set_header(headings);
    table
}

/// The audit trail of a task, a row an entry.
pub(super) fn audit(trail: &AuditTrail) -> Table {
    let mut table = table(&["#", "time (UTC)", "event", "task", "step", "try", "epoch", "by"]);
    for entry in &trail.entries {
        let from = entry.from.filter(|from| *from != entry.to);
        table.add_row([
            entry.seq.to_string(),
            entry.at.get(11..23).unwrap_or(&entry.at).to_owned(),
            event(entry),
            from.map_or_else(|| entry.to.to_string(), |from| format!("{from} → {}", entry.to)),
            step(entry),
            entry.attempt.map_or_else(String::new, |attempt| attempt.to_string()),
            entry.epoch.to_string(),
            entry.actor.clone(),
        ]);
    }
    table
}

fn event(entry: &AuditView) -> String {
    let detail = ["error", "reason", "why"].iter().find_map(|key| entry.details.get(key)?.as_str());
    detail.map_or_else(|| entry.event.clone(), |detail| format!("{}: {detail}", entry.event))
}

fn step(entry: &AuditView) -> String {
    let Some(step) = &entry.step else { return String::new() };
    match (entry.step_from, entry.step_to) {
        (Some(from), Some(to)) if from != to => format!("{step}: {from} → {to}"),
        _ => step.clone(),
    }
}
