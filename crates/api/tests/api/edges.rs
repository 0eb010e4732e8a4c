//! Every edge of the judge, driven over HTTP on real hosts and read back from the audit: the page
//! of states promises them, and each is here to be seen.

#[path = "edges/damaged.rs"]
mod damaged;
#[path = "edges/families.rs"]
mod families;
#[path = "edges/healthy.rs"]
mod healthy;
#[path = "edges/lost.rs"]
mod lost;

use crate::site::{Site, eventually};
use counterstep_contracts::http::{Accepted, AuditTrail, TaskView};
use counterstep_contracts::{Host, StepStatus, TaskId, TaskStatus, WaitReason};
use counterstep_kernel::turn::turn;
use counterstep_steps::CancelToken;
use damaged::{lost_scratch, unreadable};
use families::families;
use healthy::{calm, cancels, failures, parked, waits};
use lost::{recounts, unclaimed, undone_when_lost};
use std::collections::BTreeSet;
use std::time::Duration;

/// The page that the judge's test writes.
const PAGE: &str = include_str!("../../../../docs/states.md");

const LEASE: Duration = Duration::from_secs(10);

/// From, event, to; a task's, or a step's.
type Edge = (String, String, String);

/// A site, and the tasks that were submitted to it.
struct Stage {
    site: Site,
    tasks: Vec<TaskId>,
}

impl Stage {
    async fn new() -> Self {
        let site = Site::with(|_, engine| {
            engine.lease = LEASE;
            engine.drain = Duration::from_millis(100);
            engine.cancel_grace = Duration::from_millis(100);
        })
        .await;
        Self {
            site,
            tasks: Vec::new(),
        }
    }

    async fn submit(&mut self, task_type: &str, script: &str) -> TaskId {
        let accepted: Accepted = self
            .site
            .post(&format!("/api/tasks/{task_type}"), script)
            .await
            .json(202);
        self.tasks.push(accepted.task_id);
        self.site.clock.runs(accepted.task_id);
        accepted.task_id
    }

    /// Passes what the task itself waits for: the delay of a retry, a timer. Not a signal.
    async fn until(&self, task: TaskId, status: TaskStatus) {
        eventually(&format!("{task} is {status}"), || async {
            let view: TaskView = self.site.get(&format!("/api/tasks/{task}")).await.json(200);
            if view.status == status {
                return Ok(());
            }
            if status != TaskStatus::Waiting {
                self.pass_due(task).await;
            }
            Err(format!("{view:?}"))
        })
        .await;
    }

    async fn pass_due(&self, task: TaskId) {
        let loaded = self.site.engine.ports.store.load(task).await;
        if let Ok(Some(record)) = loaded
            && record.task.lease_owner.is_none()
            && record.task.waiting != Some(WaitReason::Signal)
        {
            self.site.clock.advance_by(record.due_in());
        }
    }

    async fn until_step(&self, task: TaskId, step: &str, status: StepStatus) {
        eventually(&format!("step {step} is {status}"), || async {
            let view: TaskView = self.site.get(&format!("/api/tasks/{task}")).await.json(200);
            let found = view
                .steps
                .iter()
                .find(|view| view.name == step)
                .expect("the step")
                .status;
            if found == status {
                Ok(())
            } else {
                Err(format!("{view:?}"))
            }
        })
        .await;
    }

    async fn cancel(&self, task: TaskId) {
        let answer = self
            .site
            .send(self.site.request("DELETE", &format!("/api/tasks/{task}")))
            .await;
        assert_eq!(answer.status, 202, "{answer:?}");
    }

    async fn decide(&self, task: TaskId, what: &str, body: &str) {
        let answer = self
            .site
            .post(&format!("/api/tasks/{task}/{what}"), body)
            .await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    async fn signal(&self, task: TaskId, name: &str, body: &str) {
        let answer = self
            .site
            .post(&format!("/api/tasks/{task}/signals/{name}"), body)
            .await;
        assert!((200..300).contains(&answer.status), "{answer:?}");
    }

    /// A host takes the task and is gone as soon as the step is in that state. Its lease then runs
    /// out.
    async fn lose_host_at(&self, task: TaskId, step: &str, status: StepStatus) {
        let engine = self.site.engine.clone();
        let doomed = tokio::spawn(async move {
            loop {
                turn(&engine, Host::Worker, task, &CancelToken::new()).await;
                tokio::task::yield_now().await;
            }
        });
        // An undo that a lost host left behind has this state already: it is to be under way under
        // a lease.
        eventually(
            &format!("step {step} is {status} and under way"),
            || async {
                let record = self
                    .site
                    .engine
                    .ports
                    .store
                    .salvage(task)
                    .await
                    .expect("an answer")
                    .expect("the task")
                    .record;
                let row = record
                    .steps
                    .iter()
                    .find(|row| row.name == step)
                    .expect("the step");
                let under_way = row.status == status && row.attempt_open && record.lease_is_live();
                if under_way { Ok(()) } else { Err(row.status) }
            },
        )
        .await;
        doomed.abort();
        let _ = doomed.await;
        self.site.clock.advance_by(LEASE);
    }

    /// A change to the database from outside.
    async fn spoil(&mut self, victim: TaskId) {
        self.damage(&format!(r#"{{"victim":"{victim}"}}"#)).await;
    }

    /// Has a task of its own write to another task's rows.
    async fn damage(&mut self, script: &str) {
        let spoils = self.submit("spoils", script).await;
        eventually("it is spoiled", || async {
            turn(&self.site.engine, Host::Worker, spoils, &CancelToken::new()).await;
            let view: TaskView = self
                .site
                .get(&format!("/api/tasks/{spoils}"))
                .await
                .json(200);
            if view.status == TaskStatus::Completed {
                Ok(())
            } else {
                Err(format!("{view:?}"))
            }
        })
        .await;
    }

    /// One turn on a worker.
    async fn turn(&self, task: TaskId) {
        turn(&self.site.engine, Host::Worker, task, &CancelToken::new()).await;
    }

    /// What the audits say: edges of tasks, and of steps.
    async fn edges(self) -> (BTreeSet<Edge>, BTreeSet<Edge>) {
        let (mut tasks, mut steps) = (BTreeSet::new(), BTreeSet::new());
        for task in &self.tasks {
            let trail: AuditTrail = self
                .site
                .get(&format!("/api/tasks/{task}/audit"))
                .await
                .json(200);
            for entry in trail.entries {
                if let (Some(from), Some(to)) = (entry.step_from, entry.step_to) {
                    steps.insert((from.to_string(), entry.event, to.to_string()));
                } else {
                    let from = entry
                        .from
                        .map_or_else(|| "nothing".to_owned(), |from| from.to_string());
                    tasks.insert((from, entry.event, entry.to.to_string()));
                }
            }
        }
        (tasks, steps)
    }
}

async fn lost_hosts(stage: &mut Stage) {
    // Taken back, lost again, and undone.
    let plain = stage.submit("plain", r#"{"make":["hang","hang"]}"#).await;
    stage.lose_host_at(plain, "make", StepStatus::Running).await;
    stage.site.recover().await;
    stage.until(plain, TaskStatus::Dispatched).await;
    stage.lose_host_at(plain, "make", StepStatus::Running).await;
    stage.site.recover().await;
    stage.until(plain, TaskStatus::Compensating).await;

    let leaves = stage.submit("leaves-it", r#"{"make":["hang"]}"#).await;
    stage
        .lose_host_at(leaves, "make", StepStatus::Running)
        .await;
    stage.site.recover().await;
    stage.until(leaves, TaskStatus::Failed).await;

    // Another host takes it before the reconciler does.
    let again = stage.submit("plain", r#"{"make":["hang"]}"#).await;
    stage.lose_host_at(again, "make", StepStatus::Running).await;
    stage.turn(again).await;
    stage.until(again, TaskStatus::Completed).await;

    // In its undo: taken back, lost again, and parked.
    let undo = stage
        .submit("plain", r#"{"make":["broken"],"unmake":["hang","hang"]}"#)
        .await;
    stage
        .lose_host_at(undo, "make", StepStatus::Compensating)
        .await;
    stage.site.recover().await;
    stage
        .lose_host_at(undo, "make", StepStatus::Compensating)
        .await;
    stage.site.recover().await;
    stage.until(undo, TaskStatus::CompensationFailed).await;
    stage.decide(undo, "retry", r#"{"note":"again"}"#).await;

    // Shut down in its undo.
    let worker = stage.site.run_host(Host::Worker);
    let shut = stage
        .submit("plain", r#"{"make":["broken"],"unmake":["hang"]}"#)
        .await;
    stage
        .until_step(shut, "make", StepStatus::Compensating)
        .await;
    worker.stop().await;
    let _worker = stage.site.run_host(Host::Worker);
    for task in [plain, undo, shut] {
        stage.until(task, TaskStatus::Failed).await;
    }
}

async fn probes(stage: &mut Stage) {
    let done = stage
        .submit("careful", r#"{"make":["hang"],"probe":"done"}"#)
        .await;
    stage.lose_host_at(done, "make", StepStatus::Running).await;
    let nothing = stage
        .submit("careful", r#"{"make":["hang"],"probe":"nothing"}"#)
        .await;
    stage
        .lose_host_at(nothing, "make", StepStatus::Running)
        .await;
    stage.site.recover().await;
    stage.cancel(nothing).await;
    let _worker = stage.site.run_host(Host::Worker);
    stage.until(done, TaskStatus::Completed).await;
    stage.until(nothing, TaskStatus::Cancelled).await;
}

/// A probe fails and is tried again, and gives up; so it does in the undo that an operator asks for.
async fn probes_that_fail(stage: &mut Stage) {
    let down = stage
        .submit("careful", r#"{"make":["hang"],"probe":"down"}"#)
        .await;
    stage.lose_host_at(down, "make", StepStatus::Running).await;
    stage.site.recover().await;
    let _worker = stage.site.run_host(Host::Worker);
    stage.until(down, TaskStatus::DeadLettered).await;
    let undo = r#"{"note":"undo it","direction":"undo"}"#;
    stage.decide(down, "retry", undo).await;
    stage.until(down, TaskStatus::CompensationFailed).await;
    stage.decide(down, "retry", r#"{"note":"again"}"#).await;
    stage.until(down, TaskStatus::CompensationFailed).await;
}

/// The rows of the tables of edges: those of tasks have four columns, those of steps five.
fn promised() -> (BTreeSet<Edge>, BTreeSet<Edge>) {
    let (mut tasks, mut steps) = (BTreeSet::new(), BTreeSet::new());
    for line in PAGE.lines() {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let word = |text: &str| {
            text.split(" (")
                .next()
                .unwrap_or_default()
                .trim_matches('`')
                .to_owned()
        };
        let is_state = |text: &str| text == "nothing" || text.starts_with('`');
        if cells.len() < 4 || !is_state(cells[0]) || !cells[2].starts_with('`') {
            continue;
        }
        let edge = (word(cells[0]), word(cells[1]), word(cells[2]));
        if cells.len() == 4 {
            tasks.insert(edge)
        } else {
            steps.insert(edge)
        };
    }
    (tasks, steps)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_edge_is_taken_over_http_and_stands_in_the_audit() {
    macro_rules! play {
        ($($scene:ident),+ $(,)?) => {
            tokio::join!($(async {
                let mut stage = Stage::new().await;
                $scene(&mut stage).await;
                stage.edges().await
            }),+)
        };
    }
    let (a, b, c, d, e, f, g, h, i) = play!(
        calm,
        cancels,
        waits,
        failures,
        parked,
        lost_hosts,
        probes,
        unreadable,
        lost_scratch
    );
    let (j, k, l, m, n) = play!(
        undone_when_lost,
        recounts,
        unclaimed,
        families,
        probes_that_fail
    );
    let seen = [a, b, c, d, e, f, g, h, i, j, k, l, m, n];
    let tasks: BTreeSet<Edge> = seen.iter().flat_map(|(tasks, _)| tasks.clone()).collect();
    let steps: BTreeSet<Edge> = seen.into_iter().flat_map(|(_, steps)| steps).collect();
    let (of_tasks, of_steps) = promised();
    assert!(
        of_tasks.len() > 35 && of_steps.len() > 30,
        "the page has {} and {}",
        of_tasks.len(),
        of_steps.len()
    );
    let not_taken = |promised: &BTreeSet<Edge>, taken: &BTreeSet<Edge>| {
        promised.difference(taken).cloned().collect::<Vec<_>>()
    };
    assert_eq!(
        not_taken(&of_tasks, &tasks),
        [],
        "edges of tasks that no test took"
    );
    assert_eq!(
        not_taken(&tasks, &of_tasks),
        [],
        "edges of tasks that the page does not know"
    );
    assert_eq!(
        not_taken(&steps, &of_steps),
        [],
        "edges of steps that the page does not know"
    );
    // Room that the judge leaves and the engine does not use: an operator's retry marks the step as
    // `undo_redriven`, and a step whose scratch was lost is started again in the commit that says
    // so.
    let never = [
        ("compensation_failed", "undo_started", "compensating"),
        ("pending", "undo_started", "compensating"),
        ("pending", "undo_waived", "pending"),
    ];
    // Said by a worker that was cut off from PostgreSQL, of whatever its step has come to: the engine's tests
    // (`cut_off`) and those of outages take it.
    let of_steps: BTreeSet<Edge> = of_steps
        .into_iter()
        .filter(|(_, event, _)| event != "result_dropped")
        .collect();
    let never = never.map(|(from, event, to)| (from.to_owned(), event.to_owned(), to.to_owned()));
    assert_eq!(
        not_taken(&of_steps, &steps),
        never,
        "edges of steps that no test took"
    );
}
