//! Tables for terminals.

use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{ColumnConstraint, ContentArrangement, Table};
use counterstep_contracts::Labels;
use counterstep_contracts::http::{AuditTrail, AuditView};

/// Columns of ids and names: people copy them, so no line break stands in them, however narrow the
/// terminal is.
const UNBROKEN: [&str; 11] = [
    "group",
    "operation",
    "task",
    "last task",
    "one of them",
    "probe",
    "process",
    "schedule",
    "key",
    "webhook",
    "definition",
];

/// A table with these headings.
pub(super) fn table(headings: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(UTF8_BORDERS_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(headings);
    for (column, heading) in table.column_iter_mut().zip(headings) {
        if UNBROKEN.contains(heading) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table
}

/// A page of a list, or that there is nothing in it. `what`: what is listed, in the plural.
pub(super) fn page(table: &Table, what: &str, filtered: bool, next: Option<&str>) -> String {
    let mut text = match (table.is_empty(), filtered) {
        (false, _) => format!("{table}\n"),
        (true, false) => format!("No {what}\n"),
        (true, true) => format!("No {what} match\n"),
    };
    if let Some(cursor) = next {
        text += &format!("more: --cursor {cursor}\n");
    }
    text
}

/// `customer=7 order=4711`.
pub(super) fn labels(labels: &Labels) -> String {
    let words: Vec<_> = labels
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    words.join(" ")
}

/// The audit trail of a task, a row an entry.
pub(super) fn audit(trail: &AuditTrail) -> Table {
    let mut table = table(&[
        "#",
        "time (UTC)",
        "event",
        "task",
        "step",
        "try",
        "epoch",
        "by",
    ]);
    for entry in &trail.entries {
        let from = entry.from.filter(|from| *from != entry.to);
        table.add_row([
            entry.seq.to_string(),
            entry.at.get(11..23).unwrap_or(&entry.at).to_owned(),
            event(entry),
            from.map_or_else(
                || entry.to.to_string(),
                |from| format!("{from} → {}", entry.to),
            ),
            step(entry),
            entry
                .attempt
                .map_or_else(String::new, |attempt| attempt.to_string()),
            entry.epoch.to_string(),
            entry.actor.clone(),
        ]);
    }
    table
}

fn event(entry: &AuditView) -> String {
    let text = |key: &&str| Some(entry.details.get(*key)?.as_str()?.to_owned());
    let detail = match entry.event.as_str() {
        "children_submitted" => entry.details.get("count").map(ToString::to_string),
        "parent_undone" => text(&"parent"),
        _ => ["error", "reason", "why"].iter().find_map(text),
    };
    detail.map_or_else(
        || entry.event.clone(),
        |detail| format!("{}: {detail}", entry.event),
    )
}

fn step(entry: &AuditView) -> String {
    let Some(step) = &entry.step else {
        return String::new();
    };
    match (entry.step_from, entry.step_to) {
        (Some(from), Some(to)) if from != to => format!("{step}: {from} → {to}"),
        _ => step.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0199c0de-0000-7000-8000-000000000001";

    #[test]
    fn an_id_is_never_broken_over_lines() {
        for width in [20, 60, 80, 100] {
            let mut table = table(&["task", "type", "status", "submitted", "last change"]);
            let time = "2026-11-20T23:11:05Z (3m ago)";
            table
                .add_row([ID, "CreateZipFromFiles", "compensation_failed", time, time])
                .set_width(width);
            assert!(table.to_string().contains(ID), "{width} columns:\n{table}");
        }
    }

    #[test]
    fn events_of_parents_and_children_are_told_with_how_many_and_by_whom() {
        let entry = |event: &str, details: serde_json::Value| {
            let entry = serde_json::json!({
                "seq": 4, "change_id": ID, "at": "2026-11-20T23:11:05.000000Z", "event": event,
                "to": "running", "epoch": 1, "actor": "worker:1", "details": details,
            });
            super::event(&serde_json::from_value(entry).expect("an entry"))
        };
        let details = serde_json::json!({"from": 0, "count": 12, "tasks": [ID]});
        assert_eq!(
            entry("children_submitted", details),
            "children_submitted: 12"
        );
        let details = serde_json::json!({"parent": ID});
        assert_eq!(
            entry("parent_undone", details),
            format!("parent_undone: {ID}")
        );
        let details = serde_json::json!({"error": "no seat is left"});
        assert_eq!(
            entry("step_failed", details),
            "step_failed: no seat is left"
        );
    }

    #[test]
    fn a_list_of_nothing_says_so() {
        let mut table = table(&["task"]);
        assert_eq!(page(&table, "tasks", false, None), "No tasks\n");
        assert_eq!(page(&table, "tasks", true, None), "No tasks match\n");
        table.add_row([ID]);
        assert!(page(&table, "tasks", true, Some("x")).ends_with("more: --cursor x\n"));
    }
}
