//! How operations on many tasks are shown on the command line.

use super::shown::{Cell, Table, View};
use crate::bulk::{Amount, BulkAnswer, BulkPreview, BulkUndo, BulkView};
use crate::http::Page;
use crate::pace::BulkTask;
use crate::state::TaskStatus;

/// How an operation stands, and the first failures.
pub(super) fn shown(view: &BulkView) -> View {
    let progress = progress(view);
    let mut lines = vec![format!(
        "{} {} {}: {progress}",
        view.id, view.action, view.status
    )];
    if let Some(why) = view.paused_for {
        lines.push(format!("  paused: {}", why.text()));
    }
    let waits_for = view.waits_for.iter();
    lines.extend(waits_for.map(|it| format!("  waits for {it}")));
    let end = view.expected_end.iter();
    lines.extend(end.map(|it| format!("  expected end: {it}")));
    let results = view.results.as_ref().filter(|it| it.tasks > 0);
    lines.extend(results.map(|it| format!("  {}", it.text())));
    let failed = view.failures.iter();
    lines.extend(failed.map(|it| format!("  {}: {}", it.task_id, it.reason)));
    View::Lines(lines.into_iter().map(Cell::from).collect())
}

/// What was started, or which tasks it would be for.
pub(super) fn answered(answer: &BulkAnswer) -> View {
    match answer {
        BulkAnswer::Started(view) => shown(view),
        BulkAnswer::Preview(found) => would_be_for(found),
    }
}

/// Which tasks an operation would be for.
fn would_be_for(found: &BulkPreview) -> View {
    let at_least = if found.complete { "" } else { "at least " };
    let mut lines = vec![format!(
        "{at_least}{}; nothing was changed",
        tasks(found.count)
    )];
    if let Some(again @ 1..) = found.already_run_again {
        lines.push(format!("already run again, and left out: {again}"));
    }
    if let Some(refused) = found.refused.as_ref().filter(|it| !it.reasons.is_empty()) {
        lines.push(format!("would be refused, of {}:", tasks(refused.tasks)));
        let reasons = refused.reasons.iter();
        lines.extend(reasons.map(|it| format!("  {}: {}", it.tasks, it.reason)));
    }
    lines.extend(found.group.iter().map(|group| format!("group: {group}")));
    lines.extend(found.filter.as_ref().map(|filter| {
        // A filter is texts, times and labels: there is none that has no form as JSON.
        format!(
            "filter: {}",
            serde_json::to_string(filter).unwrap_or_default()
        )
    }));
    let causes = found.causes.iter();
    lines.extend(causes.map(|it| {
        format!(
            "cause of {}: {}, {}: {}",
            it.count, it.task_type, it.cause, it.text
        )
    }));
    lines.extend(found.undo.iter().flat_map(what_if));
    lines.extend(found.tasks.iter().map(ToString::to_string));
    View::Lines(lines.into_iter().map(Cell::from).collect())
}

/// What would become of the tasks.
fn what_if(undo: &BulkUndo) -> Vec<String> {
    let mut lines = Vec::new();
    if undo.unknown > 0 {
        lines.push(format!("of {} no code is known here", tasks(undo.unknown)));
    }
    let looked_at = tasks(undo.tasks) + &Amount::listed(&undo.amounts);
    let some = |count: u64, what: &str| match count {
        0 => String::new(),
        count => format!(", {count} {what}"),
    };
    if !undo.goes_on.is_empty() {
        lines.push(format!("would go on, of {looked_at}:"));
    }
    lines.extend(undo.goes_on.iter().map(|it| {
        let in_doubt = some(it.in_doubt, "in doubt");
        format!(
            "  from {} of {}: {}{in_doubt}",
            it.step, it.task_type, it.tasks
        )
    }));
    if !undo.steps.is_empty() || undo.goes_on.is_empty() {
        lines.push(format!("would be undone, of {looked_at}:"));
    }
    lines.extend(undo.steps.iter().map(|it| {
        let more = some(it.in_doubt, "in doubt") + &some(it.gave_up, "gave up before");
        let (step, undo, sums) = (&it.step, &it.undo, Amount::listed(&it.amounts));
        format!(
            "  {step} of {} by {undo}: {}{sums}{more}",
            it.task_type, it.tasks
        )
    }));
    let unusual = undo.unusual.iter();
    lines.extend(unusual.map(|it| format!("differs: {} {}", it.task_id, it.differs)));
    lines
}

fn tasks(count: u64) -> String {
    format!("{count} task{}", if count == 1 { "" } else { "s" })
}

fn progress(view: &BulkView) -> String {
    let left = view
        .left
        .map_or_else(|| "more".to_owned(), |left| left.to_string());
    let again = view.already_run_again;
    let again = again.map_or_else(String::new, |again| format!("{again} already run again, "));
    format!(
        "{} done, {} failed, {} skipped, {again}{left} left",
        view.done, view.failed, view.skipped
    )
}

/// Operations on many tasks, one a row.
pub(super) fn list(page: &Page<BulkView>) -> View {
    let row = |view: &BulkView| {
        vec![
            Cell::name(&view.id),
            Cell::of(&view.action),
            Cell::of(&view.status),
            progress(view).into(),
            Cell::Time(view.created_at.clone()),
            Cell::of(&view.actor),
            Cell::of(&view.note),
        ]
    };
    let heads = [
        "operation",
        "action",
        "status",
        "progress",
        "started",
        "by",
        "note",
    ];
    let rows = page.items.iter().map(row);
    View::Table(Table::of("bulk operations", &heads, rows))
}

/// What became of each task, one a row.
pub(super) fn tasks_of(page: &Page<BulkTask>) -> View {
    let row = |task: &BulkTask| {
        vec![
            Cell::task(Some(&task.task_id)),
            Cell::of(&task.outcome),
            Cell::text(task.status.map(TaskStatus::as_str)),
            Cell::task(task.new_task_id.as_ref()),
            Cell::text(task.reason.as_deref()),
        ]
    };
    let heads = ["task", "outcome", "status", "new task", "reason"];
    let rows = page.items.iter().map(row);
    let table = Table::of("tasks", &heads, rows);
    View::Table(table.page(false, page.next_cursor.as_deref()))
}
