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
            event(entry),
            from.map_or_else(
                || Cell::of(&entry.to),
                |from| format!("{from} → {}", entry.to).into(),
            ),
            step(entry),
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
    let table = Table::of("entries", &heads, trail.entries.iter().map(row));
    Table {
        spare: &["epoch", "try", "by", "task"],
        ..table
    }
}

/// What happened, and why: the error of a step, the note of a person.
fn event(entry: &AuditView) -> Cell {
    let text = |key: &&str| Some(entry.details.get(*key)?.as_str()?.to_owned());
    let detail = match entry.event.as_str() {
        "children_submitted" => entry.details.get("count").map(ToString::to_string),
        "parent_undone" => text(&"parent"),
        _ => ["error", "reason", "why", "note"].iter().find_map(text),
    };
    named(&entry.event, detail)
}

fn step(entry: &AuditView) -> Cell {
    let Some(step) = &entry.step else {
        return Cell::NONE;
    };
    let change = match (entry.step_from, entry.step_to) {
        (Some(from), Some(to)) if from != to => Some(format!("{from} → {to}")),
        _ => None,
    };
    named(step, change)
}

/// A name, whole at any width, and what is said of it.
fn named(name: &str, more: Option<String>) -> Cell {
    let more = more.map(|more| format!(": {more}").into());
    let parts = [Cell::name(&name)].into_iter().chain(more);
    Cell::Parts(parts.collect())
}

#[cfg(test)]
mod tests {
    use super::super::table::Look;
    use counterstep_contracts::http::AuditTrail;
    use serde_json::{Value, json};

    const ID: &str = "0199c0de-0000-7000-8000-000000000001";

    /// The rows of entries with these fields.
    fn rows(width: Option<usize>, entries: impl IntoIterator<Item = Value>) -> String {
        let entry = |more: Value| {
            let mut entry = json!({
                "seq": 14, "change_id": ID, "at": "2026-11-20T23:11:05.123456Z", "to": "compensation_failed",
                "epoch": 1, "actor": "worker:08a4bd91a6db",
            });
            let Value::Object(more) = more else {
                panic!("an object")
            };
            entry.as_object_mut().expect("an object").extend(more);
            entry
        };
        let entries: Vec<_> = entries.into_iter().map(entry).collect();
        let trail = json!({"task_id": ID, "entries": entries, "attempts": []});
        let trail: AuditTrail = serde_json::from_value(trail).expect("a trail");
        let look = Look {
            width,
            now: 0,
            columns: Vec::new(),
        };
        look.plain(&super::rows(&trail))
    }

    #[test]
    fn an_event_is_told_with_its_error_its_note_or_whom_it_is_about() {
        for (event, details, told) in [
            (
                "children_submitted",
                json!({"from": 0, "count": 12, "tasks": [ID]}),
                "children_submitted: 12".to_owned(),
            ),
            (
                "parent_undone",
                json!({"parent": ID}),
                format!("parent_undone: {ID}"),
            ),
            (
                "step_failed",
                json!({"error": "no seat is left"}),
                "step_failed: no seat is left".to_owned(),
            ),
            (
                "operator_redrove",
                json!({"note": "the bank has confirmed it"}),
                "operator_redrove: the bank has confirmed it".to_owned(),
            ),
        ] {
            let rows = rows(None, [json!({"event": event, "details": details})]);
            let cell = rows.lines().nth(1).and_then(|row| row.split('\t').nth(2));
            assert_eq!(cell, Some(&*told));
        }
    }

    #[test]
    fn events_and_steps_are_whole_on_a_narrow_terminal() {
        let failed = json!({
            "event": "undo_failed", "step": "upload_source_files", "attempt": 3,
            "step_from": "compensating", "step_to": "compensation_failed", "from": "compensating",
            "details": {"error": "the object store refuses to delete what it has (permanent)"},
        });
        let decided =
            json!({"event": "operator_retried_undo", "details": {"note": "the store is back"}});
        let narrow = rows(Some(80), [failed.clone(), decided.clone()]);
        for whole in [
            "undo_failed: ",
            "upload_source_files: ",
            "operator_retried_undo: ",
            "23:11:05.123",
        ] {
            assert!(narrow.contains(whole), "{whole}: {narrow}");
        }
        assert!(!narrow.contains("epoch"), "{narrow}");
        let narrower = rows(Some(60), [failed.clone(), decided.clone()]);
        assert!(
            narrower.contains("upload_source_files") && narrower.contains("operator_retried_undo"),
            "{narrower}"
        );
        let wide = rows(Some(250), [failed, decided]);
        for column in [
            "epoch",
            "worker:08a4bd91a6db",
            "compensating → compensation_failed",
        ] {
            assert!(wide.contains(column), "{column}: {wide}");
        }
    }
}
