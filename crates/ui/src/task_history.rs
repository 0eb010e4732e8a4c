//! What has happened to a task, told by its steps: when each ran, waited, and was undone, and by whom. From
//! the answers of the interface alone; must not know how it is shown.

use crate::time_text::micros;
use counterstep_contracts::http::{AttemptView, AuditTrail, AuditView, StepProgress, TaskView};
use counterstep_contracts::operator::{NotUndoneKind, UndoPlan};
use counterstep_contracts::{Direction, Outcome, StepStatus, TaskStatus};
use serde_json::Value;
use std::collections::HashMap;

/// A task.
#[derive(Debug, Clone)]
pub(crate) struct TaskHistory {
    pub(crate) status: TaskStatus,
    pub(crate) created: i64,
    /// Where it has ended: when it did.
    pub(crate) now: i64,
    pub(crate) steps: Vec<StepHistory>,
    /// When and why it turned back, where it did.
    pub(crate) turn: Option<Turn>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) at: i64,
    pub(crate) why: String,
}

/// One of its steps.
#[derive(Debug, Clone)]
pub(crate) struct StepHistory {
    pub(crate) no: i32,
    pub(crate) name: String,
    pub(crate) status: StepStatus,
    pub(crate) group: Option<String>,
    pub(crate) forward: Vec<Span>,
    pub(crate) back: Vec<Span>,
    pub(crate) way_back: WayBack,
    pub(crate) progress: Option<StepProgress>,
    pub(crate) error: Option<String>,
}

/// A time in which something was so. Without an end it still is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) begin: i64,
    pub(crate) end: Option<i64>,
    pub(crate) kind: SpanKind,
    /// Who ran it, as the audit has it.
    pub(crate) by: Option<String>,
    pub(crate) error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SpanKind {
    /// A try, with its number and how it ended.
    Attempt(i32, Option<Outcome>),
    /// A wait, and for what.
    Wait(String),
    /// Something that took no time of its own: a timer that was due, a signal that came.
    Point(StepStatus),
}

/// How a step is undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WayBack {
    Undo(String),
    Pure,
    Waived(String),
    Unknown,
}

impl Span {
    pub(crate) fn took(&self, now: i64) -> i64 {
        self.end.unwrap_or(now) - self.begin
    }
}

impl TaskHistory {
    pub(crate) fn of(
        task: &TaskView,
        trail: &AuditTrail,
        plan: Option<&UndoPlan>,
        declaration: Option<&Value>,
        now: i64,
    ) -> Self {
        let actors = actors(&trail.entries);
        // The database's clock may be ahead of this machine's.
        let last = trail.entries.last().map_or(0, |last| micros(&last.at));
        let steps = task.steps.iter().map(|step| {
            let of_step = |entry: &&AuditView| entry.step.as_deref() == Some(step.name.as_str());
            let entries: Vec<_> = trail.entries.iter().filter(of_step).collect();
            let attempts = trail.attempts.iter().filter(|it| it.step == step.name);
            let (forward, back): (Vec<_>, Vec<_>) =
                attempts.partition(|it| it.direction == Direction::Forward);
            let declared = declaration.and_then(|it| declared(it, &step.name));
            StepHistory {
                no: step.no.0,
                name: step.name.clone(),
                status: step.status,
                group: declared.and_then(|it| it["group"].as_str().map(str::to_owned)),
                forward: spans(&forward, &entries, &actors, Direction::Forward),
                back: spans(&back, &entries, &actors, Direction::Undo),
                way_back: way_back(&step.name, plan, declared),
                progress: step.progress.clone(),
                error: step.error.clone(),
            }
        });
        let ended = task.finished_at.as_deref();
        let ended = ended.filter(|_| task.status.is_terminal()).map(micros);
        Self {
            status: task.status,
            created: micros(&task.created_at),
            now: ended.unwrap_or(now.max(last)),
            steps: steps.collect(),
            turn: turn(&trail.entries),
        }
    }
}

/// Who started which try.
type Actors<'a> = HashMap<(&'a str, bool, i32), &'a str>;

fn actors(entries: &[AuditView]) -> Actors<'_> {
    let started = entries.iter().filter_map(|entry| {
        let is_undo = match entry.event.as_str() {
            "step_started" => false,
            "undo_started" => true,
            _ => return None,
        };
        let (step, attempt) = (entry.step.as_deref()?, entry.attempt?);
        Some(((step, is_undo, attempt.0), entry.actor.as_str()))
    });
    started.collect()
}

fn declared<'a>(declaration: &'a Value, step: &str) -> Option<&'a Value> {
    let mut steps = declaration["steps"].as_array()?.iter();
    steps.find(|it| it["name"] == step)
}

fn spans(
    attempts: &[&AttemptView],
    entries: &[&AuditView],
    actors: &Actors<'_>,
    direction: Direction,
) -> Vec<Span> {
    let is_undo = direction == Direction::Undo;
    let tries = attempts.iter().map(|it| Span {
        begin: micros(&it.started_at),
        end: it.ended_at.as_deref().map(micros),
        kind: SpanKind::Attempt(it.attempt.0, it.outcome),
        by: actors
            .get(&(it.step.as_str(), is_undo, it.attempt.0))
            .map(|by| (*by).to_owned()),
        error: it.error.clone(),
    });
    let mut spans: Vec<Span> = tries.collect();
    spans.extend(waits(entries, is_undo));
    if is_undo {
        spans.extend(entries.iter().filter_map(|entry| settled(entry)));
    } else if attempts.is_empty() {
        spans.extend(entries.iter().filter_map(|entry| point(entry)));
    }
    // A wait begins where a try ends.
    spans.sort_by_key(|span| (span.begin, span.end.unwrap_or(i64::MAX)));
    spans
}

fn waits(entries: &[&AuditView], is_undo: bool) -> Vec<Span> {
    let mut waits: Vec<Span> = Vec::new();
    for entry in entries {
        if let Some(open) = waits.last_mut().filter(|wait| wait.end.is_none()) {
            // That a signal came early, that tasks were submitted, or that a result came too late, ends no wait.
            if matches!(
                entry.event.as_str(),
                "signal_received" | "children_submitted" | "result_dropped"
            ) {
                continue;
            }
            open.end = Some(micros(&entry.at));
        }
        let of = match (entry.event.as_str(), is_undo) {
            ("step_retries", false) | ("undo_retries", true) => "the next try",
            ("step_falls_back", false) => "the fallback",
            ("step_waits", false) => waits_for(entry),
            ("probe_retries", false) => "the next try of its probe",
            ("step_in_doubt", false) | ("undo_in_doubt", true) => "another host",
            _ => continue,
        };
        waits.push(Span {
            begin: micros(&entry.at),
            end: None,
            kind: SpanKind::Wait(of.to_owned()),
            by: None,
            error: None,
        });
    }
    waits
}

fn waits_for(entry: &AuditView) -> &'static str {
    match entry.details["for"].as_str() {
        Some("timer") => "its time",
        Some("signal") => "a signal",
        Some("children") => "its tasks",
        _ => "what it waits for",
    }
}

/// The end of a step that runs no code of its own.
fn point(entry: &AuditView) -> Option<Span> {
    let is_end = matches!(
        entry.event.as_str(),
        "step_succeeded" | "step_failed" | "step_skipped" | "step_supplied"
    );
    let status = entry.step_to.filter(|_| is_end)?;
    Some(Span {
        begin: micros(&entry.at),
        end: Some(micros(&entry.at)),
        kind: SpanKind::Point(status),
        by: Some(entry.actor.clone()),
        error: None,
    })
}

/// What a person has said of an undo that gave up.
fn settled(entry: &AuditView) -> Option<Span> {
    (entry.event == "undo_resolved").then(|| Span {
        begin: micros(&entry.at),
        end: Some(micros(&entry.at)),
        kind: SpanKind::Point(StepStatus::Resolved),
        by: Some(entry.actor.clone()),
        error: None,
    })
}

fn way_back(step: &str, plan: Option<&UndoPlan>, declared: Option<&Value>) -> WayBack {
    let planned = plan.into_iter().flat_map(|plan| &plan.stages);
    let mut planned = planned.flat_map(|stage| &stage.steps);
    if let Some(undo) = planned.find(|it| it.step == step) {
        return WayBack::Undo(undo.undo.clone());
    }
    if let Some(undo) = declared.map(|it| &it["undo"]) {
        return match undo["kind"].as_str() {
            Some("function") => WayBack::Undo(undo["name"].as_str().unwrap_or("undo").to_owned()),
            Some("built_in") => WayBack::Undo("built-in".to_owned()),
            Some("waived") => {
                WayBack::Waived(undo["reason"].as_str().unwrap_or_default().to_owned())
            }
            Some("pure") => WayBack::Pure,
            _ => WayBack::Unknown,
        };
    }
    let mut others = plan.into_iter().flat_map(|plan| &plan.not_undone);
    match others.find(|it| it.step == step) {
        Some(it) if it.kind == NotUndoneKind::Waived => WayBack::Waived(it.reason.clone()),
        Some(it) if it.kind == NotUndoneKind::Pure => WayBack::Pure,
        Some(_) | None => WayBack::Unknown,
    }
}

fn turn(entries: &[AuditView]) -> Option<Turn> {
    let turns = |entry: &&AuditView| {
        entry.to == TaskStatus::Compensating && entry.from != Some(TaskStatus::Compensating)
    };
    // A task whose undo was parked goes on with it: the way has turned before.
    let entry = entries
        .iter()
        .filter(turns)
        .find(|entry| entry.from != Some(TaskStatus::CompensationFailed))?;
    let cancelled = || {
        let mut asked = entries.iter().filter(|it| it.event == "cancel_requested");
        let by = asked
            .next()
            .map_or(entry.actor.as_str(), |it| it.actor.as_str());
        format!("cancelled by {by}")
    };
    let why = match entry.event.as_str() {
        "gave_up" => failed_step(entries, entry)
            .map_or_else(|| "it gave up".to_owned(), |step| format!("{step} gave up")),
        "cancel_requested" | "stopped" => cancelled(),
        "lost_too_often" | "lost_for_good" => "its hosts were lost".to_owned(),
        "operator_undid" => format!("{} decided so", entry.actor),
        "parent_undone" => "its parent is undone".to_owned(),
        other => other.replace('_', " "),
    };
    Some(Turn {
        at: micros(&entry.at),
        why,
    })
}

fn failed_step<'a>(entries: &'a [AuditView], turn: &AuditView) -> Option<&'a str> {
    let before = entries.iter().filter(|it| it.seq <= turn.seq);
    let mut failed = before.filter(|it| it.event == "step_failed").rev();
    failed.next()?.step.as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const AT: &str = "2026-11-20T18:00:0";

    fn entry(seq: u32, second: u32, event: &str, more: &Value) -> Value {
        let mut entry = json!({
            "seq": seq, "change_id": "01930d2c-6c4b-7d5e-8f00-0123456789ab", "at": format!("{AT}{second}Z"),
            "event": event, "to": "running", "epoch": 1, "actor": "worker:7",
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            entry[name] = value.clone();
        }
        entry
    }

    /// A charge that was tried twice, in doubt once, and whose undo a person has settled.
    fn told() -> TaskHistory {
        let step = json!({ "step": "charge", "attempt": 1 });
        let second = json!({ "step": "charge", "attempt": 2 });
        let id = "01930d2c-6c4b-7d5e-8f00-0123456789ab";
        let trail: AuditTrail = serde_json::from_value(json!({
            "task_id": id,
            "entries": [
                entry(1, 0, "submitted", &json!({})),
                entry(2, 1, "step_started", &step),
                entry(3, 3, "step_in_doubt", &step),
                entry(4, 3, "result_dropped", &step),
                entry(5, 4, "step_started", &second),
                entry(6, 5, "step_failed", &second),
                entry(7, 5, "gave_up", &json!({ "from": "running", "to": "compensating" })),
                entry(8, 6, "undo_started", &step),
                entry(9, 7, "undo_failed", &step),
                entry(10, 9, "undo_resolved", &json!({ "step": "charge", "actor": "operator:kim" })),
            ],
            "attempts": [
                { "step": "charge", "direction": "forward", "attempt": 1, "epoch": 1, "outcome": "in_doubt",
                  "started_at": format!("{AT}1Z"), "ended_at": format!("{AT}3Z") },
                { "step": "charge", "direction": "forward", "attempt": 2, "epoch": 2, "outcome": "failed",
                  "error": "declined", "started_at": format!("{AT}4Z"), "ended_at": format!("{AT}5Z") },
                { "step": "charge", "direction": "undo", "attempt": 1, "epoch": 2, "outcome": "failed",
                  "started_at": format!("{AT}6Z"), "ended_at": format!("{AT}7Z") },
            ],
        }))
        .unwrap();
        let task: TaskView = serde_json::from_value(json!({
            "task_id": id, "task_type": "Order", "version": 1, "status": "failed", "cancel_requested": false,
            "residue": false, "revision": 9, "created_at": format!("{AT}0Z"), "updated_at": format!("{AT}9Z"),
            "recovery_attempts": 0, "progress": { "done": 0, "total": 1 },
            "steps": [{ "no": 1, "name": "charge", "status": "resolved", "attempts": 2, "undo_attempts": 1 }],
        }))
        .unwrap();
        let declared = json!({ "steps": [{ "name": "charge", "group": "pay", "undo": { "kind": "function", "name": "refund" } }] });
        TaskHistory::of(&task, &trail, None, Some(&declared), 0)
    }

    #[test]
    fn tries_and_the_waits_between_them_follow_each_other() {
        let story = told();
        let step = &story.steps[0];
        let kinds: Vec<_> = step.forward.iter().map(|span| span.kind.clone()).collect();
        assert_eq!(
            kinds,
            [
                SpanKind::Attempt(1, Some(Outcome::InDoubt)),
                SpanKind::Wait("another host".to_owned()),
                SpanKind::Attempt(2, Some(Outcome::Failed)),
            ]
        );
        assert_eq!(step.forward[1].took(story.now), 1_000_000);
        assert_eq!(step.forward[2].by.as_deref(), Some("worker:7"));
        assert_eq!(step.forward[2].error.as_deref(), Some("declined"));
        assert_eq!(
            (step.group.as_deref(), &step.way_back),
            (Some("pay"), &WayBack::Undo("refund".to_owned()))
        );
    }

    #[test]
    fn what_a_task_waited_for_when_it_ended_it_waits_for_no_longer() {
        let id = "01930d2c-6c4b-7d5e-8f00-0123456789ab";
        let step = json!({ "step": "approval", "details": { "for": "signal" } });
        let trail: AuditTrail = serde_json::from_value(json!({
            "task_id": id, "attempts": [],
            "entries": [
                entry(1, 0, "submitted", &json!({})),
                entry(2, 1, "step_waits", &step),
                entry(3, 4, "cancel_requested", &json!({ "to": "cancelled" })),
            ],
        }))
        .unwrap();
        let task: TaskView = serde_json::from_value(json!({
            "task_id": id, "task_type": "Order", "version": 1, "status": "cancelled", "cancel_requested": true,
            "residue": false, "revision": 3, "created_at": format!("{AT}0Z"), "updated_at": format!("{AT}4Z"),
            "finished_at": format!("{AT}4Z"), "recovery_attempts": 0, "progress": { "done": 0, "total": 1 },
            "steps": [{ "no": 1, "name": "approval", "status": "waiting", "attempts": 0, "undo_attempts": 0 }],
        }))
        .unwrap();
        let story = TaskHistory::of(&task, &trail, None, None, i64::MAX);
        assert_eq!(story.steps[0].forward[0].took(story.now), 3_000_000);
    }

    #[test]
    fn it_turned_where_the_step_gave_up_and_a_person_has_the_last_word() {
        let story = told();
        let turn = story.turn.clone().unwrap();
        assert_eq!(
            (turn.why.as_str(), turn.at - story.created),
            ("charge gave up", 5_000_000)
        );
        let last = story.steps[0].back.last().unwrap();
        assert_eq!(last.kind, SpanKind::Point(StepStatus::Resolved));
        assert_eq!(last.by.as_deref(), Some("operator:kim"));
        // The last entry is later than this machine's clock.
        assert_eq!(story.now - story.created, 9_000_000);
    }
}
