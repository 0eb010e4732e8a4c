//! What is exported, and every fault at every step.

use counterstep::contracts::TaskStatus;
use counterstep::prelude::*;
use counterstep_testkit::{Form, Harness, sweep};
use export::{Rows, tasks};
use std::path::PathBuf;

/// Of 2,500 rows.
fn registry() -> Registry {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("rows");
    std::fs::create_dir_all(&folder).expect("a folder");
    let rows: String = (0..2_500).map(|row| format!("{row},lamp\n")).collect();
    let file = folder.join("ada.csv");
    if !std::fs::read_to_string(&file).is_ok_and(|there| there == rows) {
        // In one move: the runs of a sweep read it side by side.
        let draft = tempfile::NamedTempFile::new_in(&folder).expect("a file");
        std::fs::write(draft.path(), rows).expect("rows");
        draft.persist(&file).expect("rows");
    }
    tasks(Rows::in_folder(folder))
}

fn ada() -> Form {
    Form::new().field("customer", "ada")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_leaves_an_export_or_nothing() {
    sweep::every_fault(registry, ada).await;
}

#[tokio::test]
async fn all_rows_are_exported() {
    let task = Harness::embedded(registry()).submit(ada()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task.assert_trail("write ok, store ok, completed").await;
    let response = task.record().await.task.response.expect("a response");
    assert_eq!(response["rows"], 2_500);
}

#[tokio::test]
async fn an_unknown_customer_is_refused_for_good() {
    let form = Form::new().field("customer", "eve");
    let task = Harness::embedded(registry()).submit(form).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    let failure = task.record().await.task.failure.expect("a reason");
    assert!(failure.message.contains("no customer `eve`"), "{failure:?}");
}
