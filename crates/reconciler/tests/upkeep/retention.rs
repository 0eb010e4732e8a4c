//! Tasks that have ended: kept, archived or deleted as the policy says, whatever happens to the
//! reconciler meanwhile.

use crate::place::{Kind, Place, Row, one_pass, types};
use counterstep_contracts::{AuditSeq, Epoch, Keep, Retention, TaskId, TaskStatus, Tenant};
use counterstep_kernel::ports::{EndedTask, LogRow, LogWrite, PurgeOp, TaskQuery};
use counterstep_kernel::record::TaskRow;
use counterstep_reconciler::{ReconcilerSettings, Report, pass, plan, retention};
use counterstep_steps::keys::task_prefix;
use counterstep_tasks::CreateZipFromFiles;
use counterstep_testkit::seed::seeded;
use rand::Rng;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const NOW: Duration = Duration::ZERO;

/// For each state that a task may be in, one in it with an output.
async fn one_each(place: &Place<'_>) -> BTreeMap<TaskStatus, (TaskId, String)> {
    let mut tasks = BTreeMap::new();
    for status in TaskStatus::ALL {
        let task = place.task(*status, &[Row::of(1, Kind::Kept)]).await;
        tasks.insert(*status, (task, place.old(task, 1, "0")));
    }
    tasks
}

/// Adds a line to the log of a task.
async fn add_line(place: &Place<'_>, task: TaskId) {
    let line = serde_json::json!([{
        "at": "2026-11-29T08:30:12.000000Z", "step": "zip", "part": "run", "attempt": 1, "level": "info",
        "message": "half way",
    }]);
    let body = line.to_string();
    let row = LogRow {
        epoch: Epoch(1),
        no: 1,
        lines: 1,
        bytes: u32::try_from(body.len()).expect("a short line"),
        dropped: 0,
        body,
    };
    let tenant = Tenant::default();
    let write = LogWrite { task, tenant, row };
    let written = place.engine.ports.store.write_log(&write).await;
    written.expect("an answer");
}

async fn there(place: &Place<'_>) -> Vec<TaskId> {
    let query = TaskQuery {
        limit: 10_000,
        ..TaskQuery::default()
    };
    place
        .engine
        .ports
        .store
        .list(&query)
        .await
        .expect("a list")
        .lines
        .into_iter()
        .map(|line| line.task)
        .collect()
}

async fn tombstones(place: &Place<'_>) -> Vec<EndedTask> {
    place
        .engine
        .ports
        .store
        .purge(&PurgeOp::OldestTombstones { limit: 100 })
        .await
        .expect("the tombstones")
}

/// The lines of the archive, by task.
fn archived(place: &Place<'_>) -> BTreeMap<String, Vec<Value>> {
    let mut lines: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let types = place
        .objects()
        .join("archive/archive/tasks/CreateZipFromFiles");
    let Ok(days) = std::fs::read_dir(types) else {
        return lines;
    };
    for day in days {
        for file in std::fs::read_dir(day.expect("a day").path()).expect("its files") {
            let file = file.expect("a file").path();
            // What a killed process staged is no part of the archive.
            if file
                .extension()
                .is_none_or(|extension| extension != "jsonl")
            {
                continue;
            }
            for line in std::fs::read_to_string(file).expect("its text").lines() {
                let line: Value = serde_json::from_str(line).expect("a line of JSON");
                lines
                    .entry(line["task"]["id"].as_str().expect("an id").to_owned())
                    .or_default()
                    .push(line);
            }
        }
    }
    lines
}

#[tokio::test]
async fn each_end_has_its_policy_and_what_has_not_ended_stays() {
    let rules = Retention {
        completed: Some(Keep::ThenDelete(NOW)),
        failed: Some(Keep::ThenArchive(NOW)),
        cancelled: Some(Keep::delete_after("30d")),
        resolved: None,
    };
    let place = Place::new(types().retention::<CreateZipFromFiles>(rules), |_| {}).await;
    let tasks = one_each(&place).await;
    let of = |status| tasks[&status].clone();
    let (completed, failed) = (of(TaskStatus::Completed), of(TaskStatus::Failed));
    add_line(&place, failed.0).await;
    let planned = plan(&place.engine, &place.settings)
        .await
        .expect("a plan")
        .to_string();
    for line in [
        format!(
            "delete task {}: a CreateZipFromFiles that completed long enough ago",
            completed.0
        ),
        format!(
            "archive and delete task {}: a CreateZipFromFiles that failed long enough ago",
            failed.0
        ),
    ] {
        assert!(planned.contains(&line), "{planned}");
    }
    assert_eq!(
        there(&place).await.len(),
        TaskStatus::ALL.len(),
        "a plan does nothing"
    );

    let report = one_pass(&place).await;
    assert_eq!(
        (
            report.tasks_deleted,
            report.tasks_archived,
            report.objects_deleted
        ),
        (2, 1, 2)
    );
    let left = there(&place).await;
    for (status, (task, object)) in &tasks {
        let goes = matches!(status, TaskStatus::Completed | TaskStatus::Failed);
        assert_eq!(left.contains(task), !goes, "{status}");
        assert_eq!(
            place.missing(std::slice::from_ref(object)).is_empty(),
            !goes,
            "{status}"
        );
    }
    assert_eq!(tombstones(&place).await, []);
    let archived = archived(&place);
    let lines = &archived[&failed.0.to_string()];
    assert_eq!((archived.len(), lines.len()), (1, 1));
    let [line] = &lines[..] else {
        panic!("{lines:?}")
    };
    assert_eq!(
        (line["format"].as_i64(), line["task"]["status"].as_str()),
        (Some(1), Some("failed"))
    );
    assert_eq!(line["task"]["request"], serde_json::json!({"files": 2}));
    assert_eq!(line["attempts"][0]["outcome"], "succeeded");
    assert_eq!(line["log"][0]["message"], "half way");
    assert!(
        line["task"]["finished_at"]
            .as_str()
            .is_some_and(|at| at.ends_with('Z')),
        "{line}"
    );
    // There is nothing more to do, and a task that is gone is gone.
    assert_eq!(one_pass(&place).await, Report::default());
    assert_eq!(
        place
            .engine
            .ports
            .store
            .load(completed.0)
            .await
            .expect("an answer"),
        None
    );
}

#[tokio::test]
async fn the_settings_come_before_the_code_and_the_code_before_all_others() {
    let declared = Retention {
        completed: Some(Keep::Forever),
        failed: Some(Keep::Forever),
        ..Retention::default()
    };
    let others = Retention {
        failed: Some(Keep::ThenDelete(NOW)),
        cancelled: Some(Keep::ThenDelete(NOW)),
        ..Retention::default()
    };
    let set = |settings: &mut ReconcilerSettings| {
        let here = Retention {
            completed: Some(Keep::ThenDelete(NOW)),
            ..Retention::default()
        };
        settings
            .retention
            .types
            .insert("CreateZipFromFiles".to_owned(), here);
        settings.retention.types.insert("*".to_owned(), others);
    };
    let place = Place::new(types().retention::<CreateZipFromFiles>(declared), set).await;
    let tasks = one_each(&place).await;
    assert_eq!(one_pass(&place).await.tasks_deleted, 2);
    let left = there(&place).await;
    for (status, goes) in [
        (TaskStatus::Completed, true),
        (TaskStatus::Failed, false),
        (TaskStatus::Cancelled, true),
        (TaskStatus::Resolved, false),
    ] {
        assert_eq!(left.contains(&tasks[&status].0), !goes, "{status}");
    }
}

fn archive_all(settings: &mut ReconcilerSettings) {
    let all = Retention {
        completed: Some(Keep::ThenArchive(NOW)),
        ..Retention::default()
    };
    settings
        .retention
        .types
        .insert("CreateZipFromFiles".to_owned(), all);
}

#[tokio::test]
async fn nothing_is_deleted_that_the_archive_does_not_take() {
    let place = Place::new(types(), archive_all).await;
    let task = place
        .task(TaskStatus::Completed, &[Row::of(1, Kind::Kept)])
        .await;
    let object = place.old(task, 1, "0");
    // Where the archive's folder would be lies a file.
    std::fs::write(place.objects().join("archive"), "x").expect("a file");
    let report = pass(&place.engine, &place.settings).await.expect("a pass");
    assert!(
        matches!(&report.failed[..], [why] if why.contains("the archive of CreateZipFromFiles")),
        "{report:?}"
    );
    assert_eq!(
        (
            report.tasks_deleted,
            there(&place).await,
            place.missing(std::slice::from_ref(&object))
        ),
        (0, vec![task], vec![])
    );
    std::fs::remove_file(place.objects().join("archive")).expect("it goes");
    assert_eq!(one_pass(&place).await.tasks_archived, 1);
    assert_eq!(
        (archived(&place).len(), place.missing(&[object]).len()),
        (1, 1)
    );
}

#[tokio::test]
async fn what_cannot_be_archived_holds_up_nothing_else() {
    let place = Place::new(types(), archive_all).await;
    let limit = 8;
    // More of them than a pass takes, and the first to end: the audit that they tell of is not
    // there.
    let mut broken = Vec::new();
    for _ in 0..10 {
        broken.push(
            place
                .task_with(TaskStatus::Completed, &[], |row| {
                    row.audit_seq = AuditSeq(1)
                })
                .await,
        );
    }
    // The clock of the database may have milliseconds only.
    place.clock.advance("5ms");
    for _ in 0..3 {
        place.task(TaskStatus::Completed, &[]).await;
    }
    let settings = ReconcilerSettings {
        limit,
        ..place.settings.clone()
    };
    let report = pass(&place.engine, &settings).await.expect("a pass");
    assert_eq!(
        (
            report.tasks_archived,
            report.tasks_deleted,
            archived(&place).len()
        ),
        (3, 3, 3)
    );
    for task in &broken {
        let told = report
            .failed
            .iter()
            .any(|why| why.contains(&format!("the archive of task {task}")));
        assert!(told, "{task}: {:?}", report.failed);
    }
    let mut left = there(&place).await;
    left.sort_unstable();
    broken.sort_unstable();
    assert_eq!(left, broken);
}

#[tokio::test]
async fn a_pass_reads_few_tasks_that_cannot_be_archived_and_the_next_one_goes_on_behind_them() {
    let place = Place::new(types(), archive_all).await;
    for _ in 0..50 {
        let broken = |row: &mut TaskRow| row.audit_seq = AuditSeq(1);
        place.task_with(TaskStatus::Completed, &[], broken).await;
    }
    // The clock of the database may have milliseconds only.
    place.clock.advance("5ms");
    place.task(TaskStatus::Completed, &[]).await;
    let settings = ReconcilerSettings {
        limit: 2,
        ..place.settings.clone()
    };
    let mut told = BTreeSet::new();
    for _ in 0..13 {
        assert_eq!(archived(&place).len(), 0);
        let report = pass(&place.engine, &settings).await.expect("a pass");
        assert!(report.failed.len() <= 4, "{:?}", report.failed);
        told.extend(report.failed);
    }
    assert_eq!((told.len(), archived(&place).len()), (50, 1));
    // From the first one again.
    let mut again = Vec::new();
    for _ in 0..2 {
        again.extend(pass(&place.engine, &settings).await.expect("a pass").failed);
    }
    assert!(!again.is_empty(), "they are tried again");
}

#[tokio::test]
async fn an_archive_that_fails_leaves_the_others_their_share() {
    let rules = Retention {
        completed: Some(Keep::ThenArchive(NOW)),
        failed: Some(Keep::ThenDelete(NOW)),
        ..Retention::default()
    };
    let place = Place::new(types().retention::<CreateZipFromFiles>(rules), |_| {}).await;
    for _ in 0..5 {
        place.task(TaskStatus::Completed, &[]).await;
    }
    let failed = place.task(TaskStatus::Failed, &[]).await;
    // Where the archive's folder would be lies a file.
    std::fs::write(place.objects().join("archive"), "x").expect("a file");
    let planned = retention::plan(&place.engine, &place.settings.retention, 4)
        .await
        .expect("a plan");
    let lengths: Vec<_> = planned
        .groups
        .iter()
        .map(|group| (group.status, group.tasks.len()))
        .collect();
    assert_eq!(
        lengths,
        [(TaskStatus::Completed, 3), (TaskStatus::Failed, 1)],
        "what one leaves another takes"
    );
    let settings = ReconcilerSettings {
        limit: 4,
        ..place.settings.clone()
    };
    let report = pass(&place.engine, &settings).await.expect("a pass");
    assert!(
        matches!(&report.failed[..], [why] if why.contains("the archive of CreateZipFromFiles")),
        "{report:?}"
    );
    assert_eq!(
        (report.tasks_deleted, there(&place).await.contains(&failed)),
        (1, false)
    );
}

#[tokio::test]
async fn a_purge_that_was_broken_off_is_finished() {
    let place = Place::new(types(), archive_all).await;
    let (store, objects) = (&place.engine.ports.store, &place.engine.ports.objects);
    for objects_too in [false, true] {
        let task = place
            .task(TaskStatus::Completed, &[Row::of(1, Kind::Kept)])
            .await;
        let object = [place.old(task, 1, "0"), place.half(task, 1, "1")];
        let planned = retention::plan(&place.engine, &place.settings.retention, 10)
            .await
            .expect("a plan");
        let ended_task = planned.groups[0].tasks.clone();
        assert_eq!(
            store
                .purge(&PurgeOp::Purge(ended_task.clone()))
                .await
                .expect("a purge"),
            ended_task
        );
        if objects_too {
            objects
                .delete_prefix(&task_prefix(&ended_task[0].tenant, task))
                .await
                .expect("they go");
        }
        assert_eq!(tombstones(&place).await.len(), 1);
        let planned = plan(&place.engine, &place.settings)
            .await
            .expect("a plan")
            .to_string();
        assert!(
            planned.contains(&format!("objects of task {task}: its rows are gone")),
            "{planned}"
        );
        let report = one_pass(&place).await;
        assert_eq!(
            (report.objects_deleted, report.tasks_deleted),
            (if objects_too { 0 } else { 2 }, 0)
        );
        assert_eq!(
            (tombstones(&place).await, place.missing(&object).len()),
            (Vec::new(), 2)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wherever_a_reconciler_dies_no_task_is_lost_to_the_archive() {
    let place = Place::new(types(), archive_all).await;
    let (mut tasks, mut objects) = (Vec::new(), Vec::new());
    for _ in 0..120 {
        let task = place
            .task(TaskStatus::Completed, &[Row::of(1, Kind::Kept)])
            .await;
        objects.push(place.old(task, 1, "0"));
        tasks.push(task.to_string());
    }
    // Each may live longer than the ones before it, so that in the end one lives long enough on any
    // machine.
    let (mut chance, mut longest) = (seeded(), 40);
    while !there(&place).await.is_empty() || !tombstones(&place).await.is_empty() {
        let (engine, settings) = (place.another(), place.settings.clone());
        let mut dying = tokio::spawn(async move { pass(&engine, &settings).await });
        let life = Duration::from_millis(chance.random_range(0..longest));
        if tokio::time::timeout(life, &mut dying).await.is_ok() {
            continue;
        }
        dying.abort();
        let _ = dying.await;
        longest += 40;
        assert!(
            longest < 10_000,
            "reconcilers that live for seconds leave tasks: {:?}",
            there(&place).await
        );
    }
    assert_eq!(place.missing(&objects).len(), objects.len());
    let archived = archived(&place);
    let lost: Vec<_> = tasks
        .iter()
        .filter(|task| !archived.contains_key(*task))
        .collect();
    assert_eq!(lost, Vec::<&String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_five_reconcilers_each_task_is_deleted_once() {
    let place = Place::new(types(), archive_all).await;
    for _ in 0..100 {
        let task = place
            .task(TaskStatus::Completed, &[Row::of(1, Kind::Kept)])
            .await;
        place.old(task, 1, "0");
    }
    let passes = (0..5).map(|_| {
        let (engine, settings) = (place.another(), place.settings.clone());
        tokio::spawn(async move {
            pass(&engine, &settings)
                .await
                .expect("a pass")
                .tasks_deleted
        })
    });
    let passes = futures::future::join_all(passes.collect::<Vec<_>>()).await;
    assert_eq!(
        passes
            .into_iter()
            .map(|pass| pass.expect("it ends"))
            .sum::<u64>(),
        100
    );
    assert_eq!(
        (there(&place).await, tombstones(&place).await),
        (Vec::new(), Vec::new())
    );
    assert_eq!(archived(&place).len(), 100);
}
