//! Columns of a task's row that cannot be read: the task is parked by its next turn, and found again in lists.

use crate::errand::{Errand, only};
use counterstep_contracts::operator::WhyCode;
use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_kernel::operator::why_unreadable;
use counterstep_kernel::ports::{StoreError, TaskLine, TaskQuery};
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_steps::CancelToken;
use counterstep_testkit::{Form, Harness, Site};

async fn listed(site: &Site) -> Vec<TaskLine> {
    let query = TaskQuery {
        limit: 10,
        ..TaskQuery::default()
    };
    let found = site.engine.ports.store.list(&query).await;
    found.expect("a list").lines
}

async fn read(site: &Site, task: TaskId) -> Result<(), StoreError> {
    site.engine.ports.store.load(task).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_host_or_labels_cannot_be_read_is_parked_explained_and_listed() {
    for (column, value) in [
        ("host", "x"),
        ("labels", "x"),
        ("labels", "[1]"),
        ("recovery_attempts", "-1"),
    ] {
        let site = Harness::embedded(only::<Errand>()).start().await;
        let task = site.submit(Form::new().label("client", "7")).await;
        let whole = site.record(task).await.task;
        assert!(!whole.status.is_at_rest());
        let damage = format!("UPDATE tasks SET {column} = '{value}' WHERE id = '{task}'");
        let _ = site.rows(&damage);
        let refused = read(&site, task).await.expect_err("it is damaged");
        let why = why_unreadable(&site.engine, task, refused).await;
        let why = why.expect("a reason");
        assert_eq!(why.because[0].code, WhyCode::Unreadable, "{column}");
        assert!(why.because[0].detail.contains(column), "{why:?}");

        let stop = CancelToken::new();
        let end = turn(&site.engine, whole.host, task, &stop).await;
        assert_eq!(end, TurnEnd::Rests(TaskStatus::DeadLettered), "{column}");
        read(&site, task)
            .await
            .expect("its columns are written anew");
        let row = site.record(task).await.task;
        assert_eq!((row.host, &row.labels), (whole.host, &whole.labels));
        assert_eq!(row.recovery_attempts, 0);
        let failure = row.failure.expect("a failure");
        assert_eq!(failure.class, "unreadable");
        assert!(failure.message.contains(column), "{failure:?}");
        let lines = listed(&site).await;
        let [line] = &lines[..] else {
            panic!("{column}: {lines:?}")
        };
        assert_eq!((line.task, line.status), (task, TaskStatus::DeadLettered));
        assert_eq!(line.labels.get("client"), Some("7"));
    }
}
