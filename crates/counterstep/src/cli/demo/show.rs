//! What a person sees of a demonstration: a bar with the steps, and the checks at its end.

use crate::cli::output::print;
use crate::cli::remote::Remote;
use crate::cli::tasks::progress;
use counterstep_contracts::http::{StepView, TaskView};
use counterstep_contracts::operation::task_views::GetAudit;
use counterstep_contracts::{Direction, Outcome, StepStatus, TaskDecl};
use counterstep_kernel::Engine;
use counterstep_node::Exit;
use counterstep_reconciler::orphans;
use counterstep_steps::keys;
use futures::TryStreamExt;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Live progress: a bar on a terminal, a line a change elsewhere.
pub(super) struct Steps {
    bar: ProgressBar,
    last: Mutex<String>,
}

impl Steps {
    pub(super) fn new(decl: &TaskDecl) -> Self {
        let bar = ProgressBar::new(decl.steps.len() as u64 * WHOLE);
        // The template is a constant; should it ever be wrong, a plain bar is shown. The message
        // gives way: a line that is wider than the terminal could not be drawn over.
        if let Ok(style) =
            ProgressStyle::with_template("{spinner} {bar:24} {percent:>3}% {elapsed} {wide_msg}")
        {
            bar.set_style(style);
        }
        bar.set_draw_target(ProgressDrawTarget::stderr());
        if !bar.is_hidden() {
            // A step may take long and say nothing: that the program lives shows all the same.
            bar.enable_steady_tick(Duration::from_millis(100));
        }
        Self {
            bar,
            last: Mutex::default(),
        }
    }

    pub(super) fn show(&self, view: &TaskView) -> Result<(), Exit> {
        self.bar.set_position(position(view));
        self.bar.set_message(under_way(view));
        // Without a bar there is a line for each change of the rows, and none for what is only
        // said.
        let steps: Vec<_> = view
            .steps
            .iter()
            .map(|step| format!("{} {}", step.name, step.status))
            .collect();
        let text = format!("{}: {}", view.status, steps.join(", "));
        let mut last = self.last.lock();
        if *last != text {
            if self.bar.is_hidden() {
                let (done, total) = (view.progress.done, view.progress.total);
                print(&format!("{done}/{total} {text}\n"))?;
            }
            *last = text;
        }
        Ok(())
    }

    pub(super) fn note(&self, text: &str) -> Result<(), Exit> {
        if self.bar.is_hidden() {
            return print(&format!("    {text}\n"));
        }
        self.bar.println(format!("    {text}"));
        Ok(())
    }

    pub(super) fn finish(&self, view: &TaskView) -> Result<(), Exit> {
        // It stays where it came to: most tasks are over before anyone has looked.
        self.bar.abandon();
        let mut text = format!("\nTask {} is {}\n", view.task_id, view.status);
        if let Some(failure) = &view.failure {
            let step = failure.step.as_deref().unwrap_or("the task");
            text += &format!("because {step} said: {}\n", failure.message);
        }
        print(&(text + "\n"))
    }
}

/// The task's state, and what is under way: short, as a terminal has little room beside the bar.
fn under_way(view: &TaskView) -> String {
    let is_under_way = |step: &&StepView| {
        matches!(
            step.status,
            StepStatus::Running | StepStatus::Waiting | StepStatus::Compensating
        )
    };
    let said = |step: &StepView| {
        step.progress
            .as_ref()
            .map(|said| format!(" {}", progress(said)))
            .unwrap_or_default()
    };
    let steps = view
        .steps
        .iter()
        .filter(is_under_way)
        .map(|step| format!("{}{}", step.name, said(step)));
    let steps: Vec<_> = [view.status.to_string()].into_iter().chain(steps).collect();
    steps.join(" ")
}

/// What a step counts on the bar, so that it moves within a step too.
const WHOLE: u64 = 100;

/// Steps that are done, and the parts that running ones say they have done.
fn position(view: &TaskView) -> u64 {
    let running = view
        .steps
        .iter()
        .filter(|step| step.status == StepStatus::Running);
    let parts = running
        .filter_map(|step| step.progress.as_ref()?.percent)
        .map(u64::from)
        .sum::<u64>();
    u64::from(view.progress.done) * WHOLE + parts
}

/// After a crash there are more attempts than steps, and still one committed output a step.
pub(super) async fn committed_once(remote: &Remote, view: &TaskView) -> Result<(), Exit> {
    let trail = remote.call::<GetAudit>(view.task_id, ()).await?;
    for step in &view.steps {
        let tries: Vec<_> = trail
            .attempts
            .iter()
            .filter(|attempt| attempt.step == step.name && attempt.direction == Direction::Forward)
            .collect();
        let committed = tries
            .iter()
            .filter(|attempt| attempt.outcome == Some(Outcome::Succeeded))
            .count();
        let s = if tries.len() == 1 { "" } else { "s" };
        print(&format!(
            "{}: {} attempt{s}, {committed} committed output\n",
            step.name,
            tries.len()
        ))?;
        if committed != 1 {
            return Err(Exit::failed(format_args!(
                "expected one committed output of {}",
                step.name
            )));
        }
    }
    Ok(())
}

/// Waits until every overdue attempt has been swept, and checks that the object store holds what
/// the outputs name, and nothing else. `patience` is how long the last attempt that came to nothing
/// may still be protected.
pub(super) async fn no_orphans(
    engine: &Engine,
    view: &TaskView,
    patience: Duration,
) -> Result<(), Exit> {
    let record = engine
        .ports
        .store
        .load(view.task_id)
        .await
        .map_err(Exit::unavailable)?;
    let record = record.ok_or_else(|| Exit::failed("the task's row is gone"))?;
    let outputs: BTreeSet<String> = record
        .steps
        .iter()
        .filter(|row| row.status == StepStatus::Completed)
        .filter_map(|row| row.output.as_ref())
        .flat_map(keys_in)
        .collect();
    let prefix = keys::task_prefix(&record.task.tenant, view.task_id);
    let began = Instant::now();
    loop {
        let objects: Vec<_> = engine
            .ports
            .objects
            .list(&prefix)
            .try_collect()
            .await
            .map_err(Exit::unavailable)?;
        let orphans: Vec<_> = objects
            .iter()
            .filter(|object| !outputs.contains(&object.key))
            .collect();
        let overdue = orphans::plan(engine, 1)
            .await
            .map_err(Exit::unavailable)?
            .condemn;
        if orphans.is_empty() && overdue.is_empty() && began.elapsed() >= patience {
            return print(&match objects.len() {
                0 => "No object is left\n".to_owned(),
                count => format!(
                    "{count} objects are left, each the output of a completed step; no orphan\n"
                ),
            });
        }
        if began.elapsed() > patience + Duration::from_secs(10) {
            let keys: Vec<_> = orphans.iter().map(|object| object.key.as_str()).collect();
            return Err(Exit::failed(format_args!(
                "these objects belong to nothing: {}",
                keys.join(", ")
            )));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn keys_in(output: &serde_json::Value) -> Vec<String> {
    match output {
        serde_json::Value::Object(map) => {
            match map.get("key").and_then(serde_json::Value::as_str) {
                Some(key) => vec![key.to_owned()],
                None => map.values().flat_map(keys_in).collect(),
            }
        }
        serde_json::Value::Array(list) => list.iter().flat_map(keys_in).collect(),
        _ => Vec::new(),
    }
}
