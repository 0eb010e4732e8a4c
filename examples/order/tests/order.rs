//! An order is paid and shipped once or not at all, whatever breaks.

use counterstep::contracts::TaskStatus;
use counterstep::steps::ports::Method;
use counterstep_testkit::sweep::{Surroundings, every_fault_amid};
use counterstep_testkit::{Form, Harness, ServiceAnswer, ServiceError, ServiceRequest, TestTask};
use order::{Ledger, SERVICES, tasks};
use serde_json::json;
use std::sync::{Arc, Mutex};

fn order() -> Form {
    Form::new()
        .field("account", "anna")
        .field("item", "lamp")
        .field("cents", 2_500)
}

/// The three services, as closures over one ledger.
#[derive(Clone, Default)]
struct Services(Arc<Mutex<Ledger>>);

impl Services {
    fn answer(&self, request: &ServiceRequest) -> Result<ServiceAnswer, ServiceError> {
        let header = request
            .headers
            .iter()
            .find(|(name, _)| *name == "idempotency-key");
        let key = header.map(|(_, key)| key.as_str()).unwrap_or_default();
        let method = format!("{:?}", request.method).to_uppercase();
        let mut ledger = self.0.lock().expect("a ledger");
        let (status, body) = ledger.answer(&request.service, &method, &request.path, key);
        Ok(ServiceAnswer::json(status, &body))
    }

    fn open_of(&self, task: &TestTask) -> usize {
        let ledger = self.0.lock().expect("a ledger");
        ledger.open_of(&task.id.to_string()).len()
    }
}

impl Surroundings for Services {
    fn around(&self, harness: Harness) -> Harness {
        SERVICES.iter().fold(harness, |harness, name| {
            let services = self.clone();
            harness.service(name, move |request| services.answer(request))
        })
    }

    fn assert_after(&self, task: &TestTask, status: TaskStatus) {
        let expected = if status == TaskStatus::Completed {
            3
        } else {
            0
        };
        assert_eq!(self.open_of(task), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_leaves_a_whole_order_or_nothing() {
    every_fault_amid(Arc::new(Services::default()), tasks, order).await;
}

#[tokio::test]
async fn a_bank_that_declines_gives_the_goods_back() {
    let services = Services::default();
    let bank = services.clone();
    let task = services
        .around(Harness::embedded(tasks()))
        .service("bank", move |request| match request.method {
            Method::Post => Ok(ServiceAnswer::json(402, &json!("not enough money"))),
            _ => bank.answer(request),
        })
        .submit(order())
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    assert_eq!(services.open_of(&task), 0);
    task.assert_invariants().await;
}
