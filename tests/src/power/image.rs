//! What is on the disk after a power cut, opened with the real adapters and run to rest. Must not know how it was made.

use super::beside;
use crate::place::Place;
use crate::rows::{self, Known, Rows};
use crate::services;
use crate::wait::{LATER, until};
use counterstep_contracts::{TaskId, TaskStatus};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The machine starts again once its power is back, and nothing else is wrong with it: no host is lost once more.
const FLAGS: &[&str] = &[
    "--lease",
    "30s",
    "--step-timeout",
    "60s",
    "--drain",
    "2s",
    "--every",
    "1s",
    "--log",
    "warn",
];

/// What was acknowledged when the power was cut.
#[derive(Debug)]
pub(super) struct Acknowledged {
    pub(super) tasks: BTreeSet<TaskId>,
    /// As a client has seen them: at rest.
    pub(super) at_rest: BTreeMap<TaskId, TaskStatus>,
    /// Results of the spool.
    pub(super) spooled: BTreeSet<u64>,
    /// Objects beside those of the tasks.
    pub(super) stored: BTreeSet<u64>,
    /// Files with secrets, by their names: what was signed with one is valid afterwards.
    pub(super) secrets: BTreeMap<String, Vec<u8>>,
}

/// Looks at the files as they are, lets the tasks go on to their rest, and looks again.
pub(super) async fn check(place: &Place, of: &Acknowledged) -> Result<(), String> {
    sound(rows::damage(place))?;
    if rows::has_tables(place) {
        rows::restart_machine(place);
    }
    let before = Rows::of(place).await;
    for task in &of.tasks {
        if before.status(*task).await.is_none() {
            return Err(format!("task {task} was acknowledged, and is gone"));
        }
    }
    for (task, seen) in &of.at_rest {
        let now = before.status(*task).await;
        if now != Some(*seen) {
            return Err(format!("task {task} was seen {seen}, and is {now:?}"));
        }
    }
    sound(before.fsck().await)?;
    sound(before.wrong_objects().await)?;
    drop(before);
    beside::holds(&place.data(), &of.spooled).await?;
    beside::stores(&place.data(), &of.stored).await?;
    for (name, bytes) in &of.secrets {
        if std::fs::read(place.data().join(name)).ok().as_ref() != Some(bytes) {
            return Err(format!("`{name}` is gone"));
        }
    }
    to_rest(place).await;
    let after = Rows::of(place).await;
    let known = after.tasks().await;
    for task in &known {
        task.assert_sound();
    }
    let acknowledged = |known: &&Known| of.tasks.contains(&known.record.task.id);
    let acknowledged: Vec<_> = known.iter().filter(acknowledged).collect();
    assert_eq!(
        acknowledged.len(),
        of.tasks.len(),
        "tasks are gone at the end"
    );
    for task in acknowledged {
        task.assert_completed_once();
    }
    sound(after.fsck().await)?;
    sound(after.wrong_objects().await)?;
    sound(rows::damage(place))
}

fn sound(found: Vec<String>) -> Result<(), String> {
    match found.is_empty() {
        true => Ok(()),
        false => Err(found.join("; ")),
    }
}

/// `counterstep dev` on the files, until no task has anything left to do.
async fn to_rest(place: &Place) {
    let dev = services::dev(place, FLAGS);
    let rows = &Rows::of(place).await;
    for task in rows.tasks().await {
        let id = task.record.task.id;
        until(&format!("task {id} at rest"), LATER, || async move {
            let status = rows.status(id).await;
            status.is_some_and(TaskStatus::is_at_rest).then_some(())
        })
        .await;
    }
    let status = dev.process.stop();
    assert!(status.success(), "it did not stop in order: {status}");
}

/// The files with secrets of a data directory.
pub(super) fn secrets(data: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = std::fs::read_dir(data).expect("the data directory");
    let files = files.flatten().map(|file| file.path());
    let secrets = files.filter_map(|path| {
        let name = path.file_name()?.to_str()?.to_owned();
        let bytes = std::fs::read(&path).ok()?;
        name.ends_with("-secret").then_some((name, bytes))
    });
    secrets.collect()
}
