//! What a store can still read of a task that was damaged beside it. Only the owner of its tables
//! can do such damage.

use super::changes::*;
use counterstep_contracts::{StepStatus, WaitReason};
use counterstep_kernel::ports::{Ports, StoreError};
use counterstep_kernel::record::{Failure, StepRow, UndoGoal};
use counterstep_steps::Sql;

pub(crate) async fn a_task_of_which_not_all_can_be_read_is_salvaged(ports: &Ports) {
    let store = &*ports.store;
    let whole = claimed(store, MINUTE).await;
    let salvaged = store
        .salvage(whole.task.id)
        .await
        .unwrap()
        .expect("it is there");
    assert_eq!(
        (&salvaged.record.task, &salvaged.record.steps),
        (&whole.task, &whole.steps)
    );
    assert_eq!(salvaged.unreadable, []);
    assert_eq!(store.salvage(new_task()).await.unwrap(), None);

    let mut change = after(&whole);
    let step = StepRow {
        status: StepStatus::Running,
        ..whole.steps[0].clone()
    };
    change.steps = vec![step];
    let failure = Failure {
        class: "permanent".to_owned(),
        message: "no more".to_owned(),
        step: None,
    };
    write_of(&mut change).row.waiting = Some(WaitReason::Signal);
    write_of(&mut change).row.goal = Some(UndoGoal::Cancelled);
    write_of(&mut change).row.failure = Some(failure);
    commit(store, leased(&whole), &change).await.unwrap();
    let running = load(store, whole.task.id).await;
    let mut change = after(&running);
    let id = || whole.task.id.to_string();
    change.sql = vec![
        Sql::new("UPDATE tasks SET waiting = 'for godot', goal = 'none', failure = '[' WHERE CAST(id AS TEXT) = $1")
            .bind(id())
            .rows(1),
        Sql::new("UPDATE journal SET data = '{' WHERE CAST(task AS TEXT) = $1 AND rev = 1").bind(id()).rows(1),
        Sql::new("UPDATE journal SET entries = 'nul' WHERE CAST(task AS TEXT) = $1 AND rev = 4").bind(id()).rows(1),
    ];
    commit(store, leased(&running), &change).await.unwrap();
    let refused = store.load(whole.task.id).await;
    assert!(
        matches!(refused, Err(StoreError::Corrupt(_))),
        "{refused:?}"
    );
    let salvaged = store
        .salvage(whole.task.id)
        .await
        .unwrap()
        .expect("it is there");
    assert_eq!(salvaged.record.task.request, serde_json::Value::Null);
    assert_eq!(salvaged.record.steps[0].status, StepStatus::InDoubt);
    assert_eq!(
        (salvaged.record.task.status, salvaged.record.task.epoch),
        (whole.task.status, whole.task.epoch)
    );
    for (column, held) in [
        ("journal: row 1 ", "{"),
        ("waiting", "for godot"),
        ("goal", "none"),
        ("failure", "["),
        ("journal: row 4 ", "nul"),
    ] {
        let found = salvaged
            .unreadable
            .iter()
            .find(|text| text.what.starts_with(column));
        assert_eq!(
            found.map(|found| found.held.as_str()),
            Some(held),
            "{column}: {salvaged:?}"
        );
    }
    // The journal has them too.
    let (found, expected) = (&salvaged.record.task, &running.task);
    assert_eq!(
        (found.waiting, found.goal, &found.failure),
        (expected.waiting, expected.goal, &expected.failure)
    );
    // What can be read is written on, and what is no state stays as it is.
    let mut next = after(&salvaged.record);
    write_of(&mut next).row.recovery_attempts = 7;
    commit(store, leased(&salvaged.record), &next)
        .await
        .unwrap();
    let again = store
        .salvage(whole.task.id)
        .await
        .unwrap()
        .expect("it is there");
    assert_eq!(again.record.task.recovery_attempts, 7);
    for column in ["journal: row 1 ", "journal: row 4 "] {
        let stays = again
            .unreadable
            .iter()
            .any(|text| text.what.starts_with(column));
        assert!(stays, "{column} was written over: {again:?}");
    }
}

pub(crate) async fn a_task_with_a_row_of_a_newer_form_is_not_read_in_part(ports: &Ports) {
    let store = &*ports.store;
    let whole = claimed(store, MINUTE).await;
    let mut change = after(&whole);
    let id = whole.task.id.to_string();
    change.sql = vec![
        Sql::new("UPDATE journal SET form = form + 1 WHERE CAST(task AS TEXT) = $1 AND rev = 2")
            .bind(id)
            .rows(1),
    ];
    commit(store, leased(&whole), &change).await.unwrap();
    let (read, salvaged) = (
        store.load(whole.task.id).await,
        store.salvage(whole.task.id).await,
    );
    assert!(matches!(read, Err(StoreError::Unsupported(_))), "{read:?}");
    assert!(
        matches!(salvaged, Err(StoreError::Unsupported(_))),
        "{salvaged:?}"
    );
}
