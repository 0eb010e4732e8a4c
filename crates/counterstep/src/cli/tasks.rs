//! `counterstep tasks …`: what an operator asks of running services, beside what follows from declarations.

use super::group::{Group, Shown};
use super::ids::{self, Named};
use super::operator::parent;
use super::output::OutputArgs;
use super::remote::Remote;
use super::submit::{self, DownloadArgs, SubmitArgs};
use super::table::Look;
use counterstep_contracts::TaskId;
use counterstep_contracts::http::{StepProgress, StepView, TaskView};
use counterstep_contracts::operation::TASK_IDS;
use counterstep_contracts::operation::shown::{Cell, Table, labels};
use counterstep_kernel::audit::one_line;
use counterstep_node::Exit;

/// Flags of `tasks`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct TasksArgs {
    #[command(flatten)]
    group: Group,
    #[command(subcommand)]
    command: TasksCommand,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum TasksCommand {
    /// Submit a task
    Submit(SubmitArgs),
    /// Print each change of a task until it is at rest; exit with 1 where it has not completed
    Watch {
        #[arg(help = ids::about(&TASK_IDS))]
        id: Named,
    },
    /// Write a file of a task's response to the disk
    Download(DownloadArgs),
    /// Print a link to a file of a task's response: its holder needs no key until it expires
    Link {
        #[arg(help = ids::about(&TASK_IDS))]
        id: Named,
        /// The field of the response that names the file, as archive or renditions/0
        name: String,
        /// For how long the link is valid, as 30m, at most 7d [default: 1h]
        #[arg(long, value_name = "TIME")]
        valid_for: Option<String>,
    },
    /// Show one task with its steps
    Show {
        #[arg(help = ids::about(&TASK_IDS))]
        id: Named,
        /// As it stood at this entry of its audit, see `tasks audit`
        #[arg(long, value_name = "SEQ")]
        at: Option<i64>,
    },
}

pub(super) fn main(args: &TasksArgs) -> Result<(), Exit> {
    let out = &args.group.out;
    args.group.run(async |remote| {
        let (task, text) = run(remote, out, &args.command).await?;
        Ok(Shown::of(text, "tasks", Some(&task.to_string())))
    })
}

/// The task that a command is about, and what is left to print.
async fn run(
    remote: &Remote,
    out: &OutputArgs,
    command: &TasksCommand,
) -> Result<(TaskId, String), Exit> {
    let is_json = out.is_json();
    Ok(match command {
        TasksCommand::Submit(submit) => (submit.run(remote, is_json).await?, String::new()),
        TasksCommand::Watch { id } => {
            let id = id.id(remote).await?;
            submit::watch(remote, id, is_json).await?;
            (id, String::new())
        }
        TasksCommand::Download(download) => (download.run(remote).await?, String::new()),
        TasksCommand::Link {
            id,
            name,
            valid_for,
        } => {
            let id = id.id(remote).await?;
            let link = remote.result_link(id, name, valid_for.clone()).await?;
            let text = out.show_text(&link, |link, _| format!("{}\n", link.url))?;
            (id, text)
        }
        TasksCommand::Show { id, at } => {
            let id = id.id(remote).await?;
            let task = match at {
                Some(seq) => remote.task_at(id, *seq).await?,
                None => remote.task(id).await?,
            };
            (id, out.show_text(&task, show)?)
        }
    })
}

/// `42%`, or `17` where it is not known out of how much; and what it is at.
pub(super) fn progress(said: &StepProgress) -> String {
    let percent = said.percent.map(|percent| format!("{percent}%"));
    let far = percent.unwrap_or_else(|| said.done.to_string());
    match &said.message {
        Some(message) => format!("{far} {}", one_line(message)),
        None => far,
    }
}

pub(super) fn show(task: &TaskView, look: &Look) -> String {
    let row = |step: &StepView| {
        vec![
            Cell::of(&step.no),
            Cell::of(&step.name),
            Cell::of(&step.status),
            step.progress
                .as_ref()
                .map_or(Cell::NONE, |it| progress(it).into()),
            Cell::of(&step.attempts),
            Cell::of(&step.undo_attempts),
            Cell::text(step.error.as_deref()),
        ]
    };
    let heads = [
        "no",
        "step",
        "status",
        "progress",
        "tries",
        "undo tries",
        "last error",
    ];
    let table = look.plain(&Table::of("steps", &heads, task.steps.iter().map(row)));
    let mut text = format!(
        "{} {} version {}: {}\n{table}",
        task.task_id, task.task_type, task.version, task.status
    );
    if !task.labels.is_empty() {
        text.push_str(&format!("labels: {}\n", labels(&task.labels)));
    }
    text.extend(task.settled.map(|settled| match settled.task {
        Some(task) => format!("settled as: {}, by {task}\n", settled.settled),
        None => format!("settled as: {}\n", settled.settled),
    }));
    text.extend(task.parent.map(parent));
    text.extend(task.predecessor.iter().map(|it| match &it.from {
        Some(step) => format!("runs again: {}, from {step}\n", it.task_id),
        None => format!("runs again: {}\n", it.task_id),
    }));
    let successors = task.successors.iter();
    text.extend(successors.map(|task| format!("run again as: {task}\n")));
    for children in &task.children {
        let counts: Vec<_> = children
            .by_status
            .iter()
            .map(|(status, tasks)| format!("{tasks} {status}"))
            .collect();
        let (step, counts) = (&children.step, counts.join(", "));
        text.push_str(&format!("children of {step}: {counts}\n"));
    }
    if let Some(failure) = &task.failure {
        let of = |step: &Option<String>| {
            step.as_ref()
                .map_or_else(String::new, |step| format!(" of {step}"))
        };
        text.push_str(&format!(
            "failure{} ({}): {}\n",
            of(&failure.step),
            failure.class,
            failure.message
        ));
        if let Some(by) = &failure.blocked_by {
            text.push_str(&format!(
                "blocked by the undo{} ({}): {}\n",
                of(&by.step),
                by.class,
                by.message
            ));
        }
    }
    if let Some(response) = &task.response {
        text.push_str(&format!("response: {response}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn shown_here(task: &TaskView) -> String {
        show(task, &Look::here())
    }

    const PARENT: &str = "0199c0de-0000-7000-8000-000000000001";
    const CHILD: &str = "0199c0de-0000-7000-8000-000000000002";

    fn view(more: Value) -> TaskView {
        let mut view = json!({
            "task_id": CHILD, "task_type": "BookSeat", "version": 1, "status": "waiting",
            "cancel_requested": false, "residue": false, "revision": 3,
            "created_at": "2026-11-23T10:00:00Z", "updated_at": "2026-11-23T10:00:01Z",
            "recovery_attempts": 0, "progress": {"done": 0, "total": 1}, "steps": [],
        });
        let Value::Object(more) = more else {
            panic!("an object")
        };
        view.as_object_mut().expect("an object").extend(more);
        serde_json::from_value(view).expect("a view")
    }

    #[test]
    fn a_task_is_shown_with_its_parent_and_the_states_of_its_children() {
        let text = shown_here(&view(json!({
            "parent": {"task_id": PARENT, "step": 2, "place": 7},
            "children": [
                {"step": "seats", "by_status": {"running": 2, "completed": 3}},
                {"step": "meals", "by_status": {"dead_lettered": 1}},
            ],
        })));
        let expected = format!(
            "submitted by: {PARENT}, step 2, place 7\nchildren of seats: 2 running, 3 completed\n\
             children of meals: 1 dead_lettered\n"
        );
        assert!(text.ends_with(&expected), "{text}");
        let text = shown_here(&view(json!({})));
        assert!(
            !text.contains("submitted by") && !text.contains("children"),
            "{text}"
        );
    }

    #[test]
    fn a_failure_names_its_step() {
        let failure = json!({
            "step": "charge", "class": "permanent", "message": "the card was declined",
            "blocked_by": {"step": "reserve", "class": "timed_out", "message": "no answer"},
        });
        let text = shown_here(&view(json!({"failure": failure})));
        let expected = "failure of charge (permanent): the card was declined\n\
                        blocked by the undo of reserve (timed_out): no answer\n";
        assert!(text.ends_with(expected), "{text}");
        let failure = json!({"class": "deadline", "message": "it took too long"});
        let text = shown_here(&view(json!({"failure": failure})));
        assert!(
            text.ends_with("failure (deadline): it took too long\n"),
            "{text}"
        );
    }

    #[test]
    fn progress_is_how_far_a_step_is_and_what_it_is_at() {
        let said = |more: Value| {
            let mut said = json!({"done": 17, "total": 0, "at": "2026-11-23T10:00:00Z"});
            let Value::Object(more) = more else {
                panic!("an object")
            };
            said.as_object_mut().expect("an object").extend(more);
            progress(&serde_json::from_value(said).expect("a progress"))
        };
        assert_eq!(said(json!({})), "17");
        assert_eq!(said(json!({"percent": 42})), "42%");
        let at = json!({"percent": 42, "message": "page 7\u{1b}[2J"});
        assert_eq!(said(at), "42% page 7\\u{1b}[2J");
    }
}
