//! The audit trail of a task as rows.

use counterstep_contracts::http::{AuditTrail, AuditView};
use counterstep_contracts::operation::shown::{Cell, Table};

/// A row an entry.
pub(super) fn rows(trail: &AuditTrail) -> Table {
    let row = |entry: &AuditView| {
        let from = entry.from.filter(|from| *from != entry.to);
        vec![
            Cell::of(&entry.seq),
            Cell::text(Some(entry.at.get(11..23).unwrap_or(&entry.at))),
            event(entry).into(),
            from.map_or_else(
                || Cell::of(&entry.to),
                |from| format!("{from} → {}", entry.to).into(),
            ),
            step(entry).into(),
            entry.attempt.as_ref().map_or(Cell::NONE, Cell::of),
            Cell::of(&entry.epoch),
            Cell::of(&entry.actor),
        ]
    };
    let heads = [
        "#",
        "time (UTC)",
        "event",
        "task",
        "step",
        "try",
        "epoch",
        "by",
    ];
    Table::of("entries", &heads, trail.entries.iter().map(row))
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
    const ID: &str = "0199c0de-0000-7000-8000-000000000001";

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
}
