//! `counterstep tasks plan | why | dead-letters | resolve | retry | run-again | recoveries`: what tasks wait
//! for, and what a person decides about those that are parked or have ended.

use super::edit::EditArgs;
use super::output::json;
use super::proposal::Caller;
use super::remote::Remote;
use super::table;
use super::task_filter::TaskFilter;
use super::times::{Since, shown};
use counterstep_contracts::http::{Accepted, Page};
use counterstep_contracts::operator::{
    DeadLetter, OperatorAnswer, RecoveriesRequest, ResolveRequest, RetryRequest, UndoPlan, Why,
};
use counterstep_contracts::run_again::RunAgainRequest;
use counterstep_contracts::{Direction, SettledAs, TaskId};
use counterstep_node::Exit;

#[derive(Debug, Clone, clap::Subcommand)]
pub(super) enum OperatorCommand {
    /// Show the plan of an undo: what it would do now, in order
    Plan {
        /// Id of the task
        id: TaskId,
    },
    /// Show what a task is waiting for, and what can be done about it
    Why {
        /// Id of the task
        id: TaskId,
    },
    /// List the tasks that wait for a person, the newest first
    DeadLetters {
        #[command(flatten)]
        which: TaskFilter,
        /// Parked since: a duration (2h) or a time
        #[arg(long)]
        since: Option<Since>,
    },
    /// Settle a parked task, or one step of it, by hand
    Resolve {
        /// Id of the task
        id: TaskId,
        /// This step only; without it the whole task ends as resolved
        #[arg(long)]
        step: Option<String>,
        /// What has become of it
        #[arg(long = "as", value_enum)]
        settled: Settled,
        /// The step's output as JSON, with --as done
        #[arg(long, value_parser = parse_json)]
        output: Option<serde_json::Value>,
        /// The task that has done it, with --as redriven
        #[arg(long)]
        task: Option<TaskId>,
        #[command(flatten)]
        signed: Signed,
    },
    /// Retry a parked task, with its retries anew: forward after a dead letter, backward after
    /// a failed undo
    Retry {
        /// Id of the task
        id: TaskId,
        /// Undo a dead letter instead of running it again
        #[arg(long, conflicts_with_all = ["request", "set"])]
        undo: bool,
        #[command(flatten)]
        edit: EditArgs,
        #[command(flatten)]
        signed: Signed,
    },
    /// Run a task that has ended again, as a new task, and print its id
    RunAgain {
        /// Id of the task
        id: TaskId,
        /// From this step, with what the steps before it gave; without it from the start
        #[arg(long, value_name = "STEP")]
        from: Option<String>,
        #[command(flatten)]
        edit: EditArgs,
        #[command(flatten)]
        signed: Signed,
    },
    /// Set a task's counter of consecutive host losses, e.g. to 0 after an unrelated outage
    Recoveries {
        /// Id of the task
        id: TaskId,
        /// New value of the counter; from 0 to what its type allows
        #[arg(long)]
        set: u32,
        #[command(flatten)]
        signed: Signed,
    },
}

/// Who decides, and why. Both go into the audit.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Signed {
    /// Reason, recorded in the audit
    #[arg(long)]
    pub(super) note: String,
    /// Who [default: the user of this machine]
    #[arg(long)]
    actor: Option<String>,
}

impl Signed {
    pub(super) fn actor(&self) -> Option<String> {
        self.actor
            .clone()
            .or_else(|| std::env::var("USER").ok())
            .filter(|name| !name.is_empty())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Settled {
    /// Done by hand; for a step the output comes with it
    Done,
    /// Undone by hand
    Undone,
    /// Left as it is
    Skipped,
    /// Not needed any more, and left as it is
    NotNeeded,
    /// Done by another task: give it with --task
    Redriven,
}

impl From<Settled> for SettledAs {
    fn from(settled: Settled) -> Self {
        match settled {
            Settled::Done => Self::Done,
            Settled::Undone => Self::Undone,
            Settled::Skipped => Self::Skipped,
            Settled::NotNeeded => Self::NotNeeded,
            Settled::Redriven => Self::Redriven,
        }
    }
}

fn parse_json(text: &str) -> Result<serde_json::Value, String> {
    serde_json::from_str(text)
        .map_err(|error| format!("not JSON ({error}); a text needs its quotes: '\"like this\"'"))
}

pub(super) async fn run(
    remote: &Remote,
    command: &OperatorCommand,
    as_json: bool,
    caller: &Caller,
) -> Result<String, Exit> {
    Ok(match command {
        OperatorCommand::Plan { id } => {
            let found = remote.plan(*id).await?;
            if as_json { json(&found)? } else { plan(&found) }
        }
        OperatorCommand::Why { id } => {
            let found = remote.why(*id).await?;
            if as_json {
                json(&found)?
            } else {
                why(&found, caller)
            }
        }
        OperatorCommand::DeadLetters { which, since } => {
            let mut page = remote.dead_letters(&which.query(None)).await?;
            if let Some(since) = since {
                parked_since(remote, &mut page, which, *since).await?;
            }
            if as_json {
                json(&page)?
            } else {
                dead_letters(&page, which.is_filtered() || since.is_some())
            }
        }
        OperatorCommand::Resolve {
            id,
            step,
            settled,
            output,
            task,
            signed,
        } => {
            let body = ResolveRequest {
                step: step.clone(),
                settled: (*settled).into(),
                output: output.clone(),
                task: *task,
                note: signed.note.clone(),
                actor: signed.actor(),
            };
            let answer = remote.resolve(*id, &body).await?;
            if as_json {
                json(&answer)?
            } else {
                decided(&answer)
            }
        }
        OperatorCommand::Retry {
            id,
            undo,
            edit,
            signed,
        } => {
            let direction = undo.then_some(Direction::Undo);
            let (request, patch) = edit.read()?;
            let body = RetryRequest {
                direction,
                request,
                patch,
                note: signed.note.clone(),
                actor: signed.actor(),
            };
            let answer = remote.retry(*id, &body).await?;
            if as_json {
                json(&answer)?
            } else {
                decided(&answer)
            }
        }
        OperatorCommand::RunAgain {
            id,
            from,
            edit,
            signed,
        } => {
            let (request, patch) = edit.read()?;
            let body = RunAgainRequest {
                from: from.clone(),
                request,
                patch,
                note: signed.note.clone(),
                actor: signed.actor(),
            };
            let path = format!("/api/tasks/{id}/run-again");
            let accepted: Accepted = remote.post_to(&path, Some(&body)).await?;
            if as_json {
                json(&accepted)?
            } else {
                format!("{} {}\n", accepted.task_id, accepted.status)
            }
        }
        OperatorCommand::Recoveries { id, set, signed } => {
            let (note, actor) = (signed.note.clone(), signed.actor());
            let answer = remote
                .set_recoveries(
                    *id,
                    &RecoveriesRequest {
                        recovery_attempts: *set,
                        note,
                        actor,
                    },
                )
                .await?;
            let (count, allowed) = (answer.recovery_attempts, answer.allowed);
            let text = format!(
                "{}; {count} of {allowed} consecutive host losses counted\n",
                answer.status
            );
            if as_json { json(&answer)? } else { text }
        }
    })
}

/// Leaves only what was parked since then, and fetches pages until there are as many as were asked
/// for. The API lists them by when they were submitted, which says nothing of when they were
/// parked: all pages may have some.
async fn parked_since(
    remote: &Remote,
    page: &mut Page<DeadLetter>,
    which: &TaskFilter,
    since: Since,
) -> Result<(), Exit> {
    let is_new = |letter: &DeadLetter| since.includes(&letter.updated_at);
    page.items.retain(is_new);
    while let Some(cursor) = page
        .next_cursor
        .take_if(|_| page.items.len() < which.most())
    {
        let next = remote.dead_letters(&which.query(Some(cursor))).await?;
        page.items.extend(next.items.into_iter().filter(is_new));
        page.next_cursor = next.next_cursor;
    }
    Ok(())
}

fn decided(answer: &OperatorAnswer) -> String {
    let mut text = answer.status.to_string();
    if !answer.open_steps.is_empty() {
        text.push_str(&format!(
            "; still to be decided: {}",
            answer.open_steps.join(", ")
        ));
    }
    if !answer.will_undo.is_empty() {
        text.push_str(&format!(
            "; will be undone: {}",
            answer.will_undo.join(", ")
        ));
    }
    text + "\n"
}

fn plan(plan: &UndoPlan) -> String {
    let mut table = table::table(&["order", "step", "status", "undo", "notes"]);
    for (at, stage) in plan.stages.iter().enumerate() {
        for step in &stage.steps {
            let mut notes = Vec::new();
            notes.extend(
                stage
                    .group
                    .as_ref()
                    .map(|group| format!("side by side in group {group}")),
            );
            notes.extend(step.in_doubt.then(|| "in doubt".to_owned()));
            notes.extend(
                step.probe
                    .as_ref()
                    .map(|probe| format!("{probe} is asked first")),
            );
            notes.extend(
                step.gave_up
                    .then(|| format!("gave up after {} tries", step.undo_attempts)),
            );
            table.add_row([
                (at + 1).to_string(),
                step.step.clone(),
                step.status.to_string(),
                step.undo.clone(),
                notes.join("; "),
            ]);
        }
    }
    for left in &plan.not_undone {
        table.add_row([
            String::new(),
            left.step.clone(),
            left.status.to_string(),
            "none".to_owned(),
            left.reason.clone(),
        ]);
    }
    format!(
        "{} {}: undone {}\n{table}\n",
        plan.task_id, plan.status, plan.when
    )
}

fn why(why: &Why, caller: &Caller) -> String {
    let mut text = format!("{} {}\n", why.task_id, why.status);
    text.extend(
        why.parent
            .map(|parent| format!("  {}", super::tasks::parent(parent))),
    );
    for reason in &why.because {
        let until = reason
            .until
            .as_ref()
            .map_or_else(String::new, |until| format!("; until {}", shown(until)));
        text.push_str(&format!("  because {}{until}\n", reason.detail));
    }
    text.extend(why.cause.iter().map(|cause| format!("  cause: {cause}\n")));
    for can in &why.operator_can {
        text.push_str(&format!("  {}\n      {}\n", caller.command(can), can.does));
    }
    text
}

fn dead_letters(page: &Page<DeadLetter>, filtered: bool) -> String {
    let mut table = table::table(&[
        "task",
        "type",
        "status",
        "since",
        "cause",
        "what went wrong",
        "labels",
    ]);
    for letter in &page.items {
        let failure = letter.failure.as_ref();
        table.add_row([
            letter.task_id.to_string(),
            format!("{} v{}", letter.task_type, letter.version),
            letter.status.to_string(),
            shown(&letter.updated_at),
            letter.cause.to_string(),
            failure.map_or_else(String::new, |failure| {
                let by = failure.blocked_by.as_ref();
                by.map_or_else(|| failure.message.clone(), |by| by.message.clone())
            }),
            table::labels(&letter.labels),
        ]);
    }
    table::page(
        &table,
        "dead letters",
        filtered,
        page.next_cursor.as_deref(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn why_says_which_task_has_submitted_it() {
        let (parent, child) = (
            "0199c0de-0000-7000-8000-000000000001",
            "0199c0de-0000-7000-8000-000000000002",
        );
        let found = json!({
            "task_id": child, "status": "running", "operator_can": [],
            "parent": {"task_id": parent, "step": 2, "place": 7},
            "because": [{"code": "working", "detail": "worker:1 works on reserve"}],
        });
        let found = serde_json::from_value(found).expect("an answer");
        let url = "http://127.0.0.1:8080";
        let text = why(&found, &Caller::new("counterstep", url, url));
        let expected = format!(
            "{child} running\n  submitted by: {parent}, step 2, place 7\n  because worker:1 works on reserve\n"
        );
        assert_eq!(text, expected);
    }
}
