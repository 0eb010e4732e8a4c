//! The shipped task types under the testkit.

#[cfg(feature = "place-order")]
#[path = "tasks/calls.rs"]
mod calls;
#[cfg(feature = "place-order")]
#[path = "tasks/place_order.rs"]
mod place_order;
#[cfg(feature = "transcode-video")]
#[path = "tasks/transcode_video.rs"]
mod transcode_video;

use counterstep_kernel::engine::faults::{Fault, FaultKind};
use counterstep_steps::contracts::{Direction, TaskStatus};
use counterstep_tasks::tasks;
use counterstep_testkit::{Harness, invariants, sweep, two_files};

#[tokio::test(flavor = "multi_thread")]
async fn two_files_of_one_name_become_one_archive_in_four_changes_of_the_task() {
    let task = Harness::embedded(tasks()).submit(two_files()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task.assert_trail("upload_source_files ok, create_zip_archive ok, upload_zip ok, completed")
        .await;
    task.assert_no_orphans().await;
    let history = task.history().await;
    let changes: std::collections::BTreeSet<_> = history
        .audit
        .iter()
        .map(|row| row.change_id)
        .chain(history.attempts.iter().map(|row| row.change_id))
        .collect();
    // submit · claim + start 2 · complete 2 + start 3 · complete 3 + complete task
    // Its files had a commit of their own before there was a task.
    assert_eq!(changes.len(), 4, "{}", task.trail().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_have_the_keys_that_the_design_gives_them() {
    let task = Harness::embedded(tasks()).submit(two_files()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    let mut keys: Vec<_> = task
        .objects()
        .await
        .into_iter()
        .map(|object| object.key)
        .collect();
    keys.sort();
    let expected = [
        "upload_source_files/e0.1/0",
        "upload_source_files/e0.1/1",
        "upload_zip/e1.1/0",
    ];
    assert_eq!(
        keys,
        expected.map(|key| format!("t/default/{}/{key}", task.id))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_upload_undoes_everything_and_leaves_no_object() {
    let task = Harness::embedded(tasks())
        .fail_at("upload_zip")
        .submit(two_files())
        .await;
    task.run_to_rest().await;
    task.assert_trail(
        "upload_source_files ok, create_zip_archive ok, upload_zip failed, upload_zip undone, \
         create_zip_archive waived, upload_source_files undone, failed",
    )
    .await;
    task.assert_no_objects().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_worker_is_replaced_and_its_late_object_is_swept() {
    let task = Harness::embedded(tasks())
        .crash_at("upload_zip")
        .submit(two_files())
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task.assert_trail("upload_source_files ok, create_zip_archive ok, upload_zip in doubt, upload_zip ok, completed")
        .await;
    task.assert_no_orphans().await;
    assert_eq!(
        invariants::successes(&task.history().await, Direction::Forward),
        3
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_lost_while_undoing_is_replaced_and_the_undo_runs_again() {
    let task = Harness::embedded(tasks())
        .fail_at("upload_zip")
        .crash_in_undo_of("upload_source_files")
        .submit(two_files());
    let task = task.await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    task.assert_trail(
        "upload_source_files ok, create_zip_archive ok, upload_zip failed, upload_zip undone, \
         create_zip_archive waived, upload_source_files undo in doubt, upload_source_files undone, failed",
    )
    .await;
    task.assert_no_objects().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scratch_that_is_gone_is_made_again_before_it_is_read() {
    // The upload fails for now, often enough to sleep; meanwhile the worker's disk is wiped.
    let fault = |n| Fault::at("upload_zip", FaultKind::FailTransiently).on_attempt(n);
    let harness = (1..=4).fold(Harness::embedded(tasks()), |harness, n| {
        harness.fault(fault(n))
    });
    let task = harness.submit(two_files()).await;
    task.run_to_wait().await;
    let scratch = &task.engine.ports.scratch;
    scratch.remove(task.id).await.expect("the scratch goes");
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    assert!(
        task.trail()
            .await
            .contains("create_zip_archive scratch lost, create_zip_archive ok"),
        "{}",
        task.trail().await
    );
    task.assert_invariants().await;
    task.assert_no_orphans().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_at_every_step_of_create_zip_from_files_leaves_a_clean_slate() {
    sweep::every_fault(tasks, two_files).await;
}

/// From its attribute to its last brace: keys, steps, response, and what the steps do.
#[test]
fn the_declaration_of_create_zip_from_files_has_under_60_lines_in_all() {
    let text = include_str!("../src/create_zip_from_files.rs");
    let lines = text
        .lines()
        .skip_while(|line| !line.starts_with("#[distributed_task"));
    let count = lines.take_while(|line| *line != "}").count() + 1;
    assert!((20..60).contains(&count), "{count} lines");
}

/// What a developer writes for the running example: no comments, no blank lines, as rustfmt lays it out.
#[test]
fn the_zip_task_is_written_in_75_lines() {
    let source = include_str!("../src/create_zip_from_files.rs");
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
    let lines = code.lines().filter(is_code).count();
    assert!(lines <= 75, "{lines}");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/create_zip_from_files");
    assert!(!std::path::Path::new(folder).exists(), "no files beside it");
}
