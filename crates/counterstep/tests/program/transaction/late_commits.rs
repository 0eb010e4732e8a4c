//! A task that is submitted in a transaction of the caller's own, and committed when others have begun since.

use super::Shop;
use counterstep::contracts::{TaskId, TaskStatus};
use counterstep::prelude::*;
use counterstep_testkit::many_tasks::eventually;
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Customer {
    name: String,
    /// It goes on until it is stopped.
    goes_on: bool,
}

struct Reindex;

#[distributed_task(
    queue = "shop",
    key = "req.name",
    at_once = 1,
    beyond = "replace",
    cancellable
)]
impl Reindex {
    type Request = Customer;
    type Response = ();

    #[step(1, host = "worker", no_undo = "an index is made again")]
    async fn index(req: &Customer) -> StepResult<u32> {
        if req.goes_on {
            std::future::pending::<()>().await;
        }
        Ok(1)
    }

    fn respond() {}
}

fn customer(goes_on: bool) -> Customer {
    Customer {
        name: "kim".to_owned(),
        goes_on,
    }
}

async fn is(shop: &Shop, task: TaskId, status: TaskStatus) {
    eventually(status.as_str(), || async {
        let record = shop.engine.ports.store.load(task).await.expect("an answer");
        (record?.task.status == status).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_committed_last_replaces_what_began_before_it_could_be_seen() {
    let shop = Shop::of(|| Registry::new().with::<Reindex>()).await;
    shop.serve(Duration::from_millis(50), Duration::from_secs(5));
    let mut connection = shop.connect().await;
    let mut transaction = connection.transaction().await.expect("a transaction");
    let last = shop
        .client
        .submit_in::<Reindex>(&mut transaction, &customer(false))
        .await
        .expect("a statement that is executed");
    let first = shop.client.submit::<Reindex>(&customer(true)).await;
    let first = first.expect("accepted").task_id();
    is(&shop, first, TaskStatus::Running).await;
    transaction.commit().await.expect("a commit");
    last.committed().await.expect("it is there");
    shop.completed(last.task_id()).await;
    is(&shop, first, TaskStatus::Cancelled).await;
    let record = shop
        .engine
        .ports
        .store
        .load(first)
        .await
        .expect("an answer");
    let failure = record.expect("the task").task.failure.expect("a reason");
    assert_eq!(failure.class, "replaced");
}
