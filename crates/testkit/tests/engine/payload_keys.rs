//! Payload keys whose file cannot be read for a moment: what a step has done meanwhile is written all the same.

use crate::cut_off::connect;
use crate::errand::{Errand, only};
use counterstep_adapters::payload_keys::{EncryptedPayloads, FileKeys, PayloadKeys, TenantKeys};
use counterstep_contracts::{Host, TaskStatus, Tenant};
use counterstep_kernel::ports::{PayloadError, Store};
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_macros::distributed_task;
use counterstep_steps::{CancelToken, StepResult};
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::{Form, Harness};
use diesel::connection::SimpleConnection;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Of the bytes `{"request":1}`.
const DIGEST: &str = "eaf3ea962361eaf8ed5b7dfc1c826295cfcad2c897d8e1f7ad8bffa1e6b806de";

#[derive(Debug, Serialize, Deserialize)]
struct Letter {
    /// The file of the keys.
    keys: String,
}

struct Seal;

#[distributed_task(name = "Seal", timeout = "1m")]
impl Seal {
    type Request = Letter;
    type Response = String;

    #[step(1, host = "worker", no_undo = "does nothing")]
    async fn seal(req: &Letter) -> StepResult<String> {
        // As while it is being copied.
        std::fs::write(&req.keys, "").expect("it is written");
        // By the time of the machine, which keys are remembered by.
        let since = Instant::now();
        eventually("the time from which they are read again", || async {
            (since.elapsed() > Duration::from_millis(300)).then_some(())
        })
        .await;
        Ok("sealed".to_owned())
    }

    fn respond(seal: &String) -> String {
        seal.clone()
    }
}

/// Keys that are looked at again as soon as a file may be.
#[derive(Debug)]
struct LookedAtAgain(FileKeys);

impl PayloadKeys for LookedAtAgain {
    fn of(&self, tenant: &Tenant) -> Result<Arc<TenantKeys>, PayloadError> {
        self.0.again(tenant)
    }
}

fn encrypted(store: &Store, folder: &Path) -> Store {
    let keys = FileKeys::open(folder).expect("a folder");
    let codec = EncryptedPayloads::new(LookedAtAgain(keys));
    store.clone().with_codec(Some(Arc::new(codec)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_ends_while_the_keys_cannot_be_read_has_run_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let keys = FileKeys::open(folder.path()).expect("a folder");
    keys.add(&Tenant::default()).expect("a key");
    let file = folder.path().join("default.keys");
    let whole = std::fs::read(&file).expect("its file");
    let mut site = Harness::embedded(only::<Seal>()).start().await;
    let inner = site.engine.ports.store.clone();
    site.engine.ports.store = encrypted(&inner, folder.path());
    let path = file.to_str().expect("UTF-8");
    let task = site.submit(Form::new().field("keys", path)).await;
    let end = turn(&site.engine, Host::Worker, task, &CancelToken::new()).await;
    std::fs::write(&file, whole).expect("it is restored");
    assert_eq!(end, TurnEnd::Rests(TaskStatus::Completed));
    // As a process reads it that knows the restored file alone.
    site.engine.ports.store = encrypted(&inner, folder.path());
    assert_eq!(site.history(task).await.attempts.len(), 1);
    let response = site.record(task).await.task.response;
    assert_eq!(response, Some("sealed".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_parks_a_task_whose_data_were_replaced_and_names_the_row() {
    let folder = tempfile::tempdir().expect("a folder");
    let keys = FileKeys::open(folder.path()).expect("a folder");
    let key = keys.add(&Tenant::default()).expect("a key");
    let mut site = Harness::embedded(only::<Errand>()).start().await;
    let inner = site.engine.ports.store.clone();
    site.engine.ports.store = encrypted(&inner, folder.path());
    let data = "UPDATE journal SET data =";
    for (what, set, named) in [
        (
            "a plaintext",
            format!("{data} '{{\"request\":{{\"name\":\"theirs\"}}}}'"),
            "digest",
        ),
        (
            "a plaintext with its digest",
            format!(
                "{data} '{{\"request\":1}}', entries = json_set(entries, '$.data', '{DIGEST}')"
            ),
            key.as_str(),
        ),
        ("nothing", format!("{data} NULL"), "gone"),
    ] {
        let task = site.submit(Form::new()).await;
        let sql = format!("{set} WHERE task = '{task}' AND rev = 1");
        connect(site.folder()).batch_execute(&sql).expect(what);
        let end = turn(&site.engine, Host::Worker, task, &CancelToken::new()).await;
        assert_eq!(end, TurnEnd::Rests(TaskStatus::DeadLettered), "{what}");
        let salvaged = site.engine.ports.store.salvage(task).await;
        let parked = salvaged.expect("an answer").expect("it is there").record;
        let why = parked.task.failure.expect("a failure").message;
        assert!(
            why.contains("row 1 ") && why.contains(named),
            "{what}: {why}"
        );
        assert!(!why.contains("theirs"), "{what}: {why}");
        assert_eq!(
            site.history(task).await.attempts.len(),
            0,
            "{what}: no step has run"
        );
    }
}
