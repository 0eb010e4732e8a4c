//! A task as it stood at each entry of its audit: a slider through its past, with the picture and the steps of then. Must not hold what
//! it shows.

use super::{audit_section, steps};
use crate::failed::Answer;
use crate::layout::{self, Chapter};
use crate::markup::{plain, state};
use crate::page_request::PageRequest;
use crate::picture;
use crate::query::{Address, Fields, segment};
use crate::task_history::TaskHistory;
use crate::time_text::{exact, micros};
use actix_web::HttpRequest;
use counterstep_contracts::AuditSeq;
use counterstep_contracts::http::{AttemptView, AuditTrail, AuditView, TaskView};
use maud::{Markup, html};

/// Number of entries that are shown: the last ones.
const LAST: usize = 10;

pub(crate) async fn get(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let id = segment(super::super::part(&request, "id"));
    let trail = visit
        .get::<AuditTrail>(&format!("/api/tasks/{id}/audit"))
        .await?;
    let last = trail.entries.last().map_or(1, |last| last.seq.0);
    let query = Fields::of(request.query_string());
    let asked = query.get("seq").and_then(|seq| seq.parse().ok());
    let seq: i64 = asked.unwrap_or(last).clamp(1, last.max(1));
    let body = shown(&visit, &id, &trail, seq, last).await;
    let title = format!("The task at entry {seq}");
    Ok(layout::page(&visit.shell, Chapter::Tasks, &title, body))
}

async fn shown(visit: &PageRequest, id: &str, trail: &AuditTrail, seq: i64, last: i64) -> Markup {
    let asked = Address::new(format!("/api/tasks/{id}/at")).with("seq", seq);
    let task = visit.find::<TaskView>(&asked.text()).await;
    let own = visit.at(&format!("/tasks/{id}"));
    let to = |seq: i64| format!("{own}/at?seq={seq}");
    let entry = trail.entries.iter().find(|it| it.seq == AuditSeq(seq));
    html! {
        p.up { a href=(own) { "The task now" } }
        div.head {
            h1 { "Entry " (seq) " of " (last) @if let Some(task) = &task { " of a task of " (task.task_type) } }
            @if let Some(task) = &task { div.standing { (state(task.status)) } }
        }
        form.slider method="get" action=(format!("{own}/at")) {
            label for="seq" { "Entry of the audit" }
            input #seq type="range" name="seq" min="1" max=(last) value=(seq);
            button type="submit" { "Show" }
            @if seq > 1 { a.button rel="prev" href=(to(seq - 1)) { "Before" } }
            @if seq < last { a.button rel="next" href=(to(seq + 1)) { "After" } }
        }
        @if let Some(entry) = entry { (what(entry)) }
        @match &task {
            Some(task) => (as_it_stood(trail, entry, task)),
            None => p { "How the task stood then cannot be read." },
        }
    }
}

/// Behind the change of this entry.
fn as_it_stood(trail: &AuditTrail, entry: Option<&AuditView>, task: &TaskView) -> Markup {
    let then = until(trail, entry, &task.updated_at);
    let story = TaskHistory::of(task, &then, None, None, micros(&task.updated_at));
    html! {
        (picture::draw(&picture::picture(&story), task.status))
        (steps::of(&story))
        section aria-labelledby="until" {
            h2 #until { "Until then" }
            (audit_section::table(&then.entries[then.entries.len().saturating_sub(LAST)..]))
        }
    }
}

fn what(entry: &AuditView) -> Markup {
    html! {
        p {
            b { (plain(&entry.event)) }
            @if let Some(step) = &entry.step { " of " code { (step) } }
            " by " (entry.actor) ", " time datetime=(entry.at) { (exact(&entry.at)) }
        }
    }
}

/// What had happened until the change of this entry: attempts that ended later are open.
fn until(trail: &AuditTrail, entry: Option<&AuditView>, at: &str) -> AuditTrail {
    let is_then = |it: &&AuditView| {
        entry.is_none_or(|entry| it.seq <= entry.seq || it.change_id == entry.change_id)
    };
    let entries = trail.entries.iter().filter(is_then).cloned();
    let now = micros(at);
    let attempts = trail.attempts.iter();
    let attempts = attempts.filter(|it| micros(&it.started_at) <= now);
    let attempts = attempts.map(|it| match &it.ended_at {
        Some(ended) if micros(ended) > now => AttemptView {
            ended_at: None,
            outcome: None,
            error: None,
            ..it.clone()
        },
        _ => it.clone(),
    });
    AuditTrail {
        task_id: trail.task_id,
        entries: entries.collect(),
        attempts: attempts.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{AuditTrail, until};
    use serde_json::json;

    #[test]
    fn an_attempt_that_ended_later_is_open_and_one_that_began_later_is_not_there() {
        let attempt = |step: &str, from: &str, to: &str| {
            json!({"step": step, "direction": "forward", "attempt": 1, "epoch": 1, "outcome": "failed", "error": "no",
                "started_at": format!("2026-01-01T00:00:{from}Z"), "ended_at": format!("2026-01-01T00:00:{to}Z")})
        };
        let entry = |seq: u32| {
            // The second and the third are of one change.
            let change = format!("01930d2c-6c4b-7d5e-8f00-01234567890{}", seq.min(2));
            json!({"seq": seq, "change_id": change, "at": "2026-01-01T00:00:00Z",
                "event": "x", "to": "running", "epoch": 1, "actor": "client"})
        };
        let trail = json!({
            "task_id": "01930d2c-6c4b-7d5e-8f00-0123456789ab", "entries": [entry(1), entry(2), entry(3)],
            "attempts": [attempt("a", "01", "02"), attempt("b", "02", "05"), attempt("c", "04", "05")],
        });
        let trail: AuditTrail = serde_json::from_value(trail).expect("a trail");
        let at = "2026-01-01T00:00:03Z";
        let then = until(&trail, trail.entries.first(), at);
        assert_eq!(then.entries.len(), 1);
        let then = until(&trail, trail.entries.get(1), at);
        assert_eq!(then.entries.len(), 3);
        let seen: Vec<_> = then
            .attempts
            .iter()
            .map(|it| (it.step.as_str(), it.outcome.is_some(), it.error.is_some()))
            .collect();
        assert_eq!(seen, [("a", true, true), ("b", false, false)]);
    }
}
