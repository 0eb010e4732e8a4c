//! What is answered without a change, while a standby does not have what was read: a failover would take it back.

use crate::cancel::until;
use crate::errand::only;
use crate::signals::Purchase;
use async_trait::async_trait;
use counterstep_contracts::access::Role;
use counterstep_contracts::{Host, TaskId, Tenant};
use counterstep_kernel::Engine;
use counterstep_kernel::access::api_keys::{self, KeyError, KeySpec};
use counterstep_kernel::change::transition::{Guard, Transition};
use counterstep_kernel::client;
use counterstep_kernel::ports::{
    CommitError, Committed, DocumentQuery, Documents, LoadFor, LoadedTask, Storage, StoreError,
};
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_steps::CancelToken;
use counterstep_testkit::through::{Around, Through};
use counterstep_testkit::{Form, Harness, TestTask};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A standby that can be away: then nothing that waits for it is answered.
#[derive(Debug, Default)]
struct Standby {
    is_away: AtomicBool,
}

impl Standby {
    fn waited_for(&self) -> Result<(), StoreError> {
        match self.is_away.load(Ordering::Relaxed) {
            true => Err(StoreError::Unknown("the standby is away".to_owned())),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl Around for Standby {
    async fn commit(
        &self,
        store: &dyn Storage,
        guard: Guard,
        changes: &[Arc<Transition>],
    ) -> Result<Committed, CommitError> {
        let written = store.commit(guard, changes).await;
        self.waited_for()?;
        written
    }

    async fn load(
        &self,
        store: &dyn Storage,
        tasks: &[TaskId],
        purpose: LoadFor,
    ) -> Result<Vec<LoadedTask>, StoreError> {
        if purpose == LoadFor::Confirm {
            self.waited_for()?;
        }
        store.load(tasks, purpose).await
    }

    async fn documents(
        &self,
        store: &dyn Storage,
        query: &DocumentQuery,
    ) -> Result<Documents, StoreError> {
        if matches!(query, DocumentQuery::Confirmed { .. }) {
            self.waited_for()?;
        }
        store.documents(query).await
    }
}

/// A purchase that waits for its approval, and a process whose database has this standby.
async fn purchase() -> (TestTask, Engine, Arc<Through<Standby>>) {
    let form = Form::new().field("amount", 500).field("within", "1h");
    let task = Harness::embedded(only::<Purchase>()).submit(form).await;
    let never = CancelToken::new();
    let first = turn(&task.engine, Host::Worker, task.id, &never);
    assert_eq!(first.await, TurnEnd::GivenBack);
    let mut engine = task.engine.clone();
    let (store, standby) = engine
        .ports
        .store
        .through(|storage| Through::new(storage, Standby::default()));
    engine.ports.store = store;
    (task, engine, standby)
}

fn is_away(standby: &Through<Standby>, is_away: bool) {
    standby.around.is_away.store(is_away, Ordering::Relaxed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_stands_on_the_primary_alone_is_not_answered() {
    let (task, engine, standby) = purchase().await;
    is_away(&standby, true);
    let first = client::cancel(&engine, task.id, "client").await;
    assert!(first.is_err(), "{first:?}");
    until(&task, |record| record.task.goal.is_some()).await;
    let again = client::cancel(&engine, task.id, "client").await;
    assert!(again.is_err(), "{again:?}");
    is_away(&standby, false);
    let answered = client::cancel(&engine, task.id, "client").await;
    assert!(answered.expect("accepted").again);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_that_stands_on_the_primary_alone_is_not_answered() {
    let (task, engine, standby) = purchase().await;
    let signal = || {
        let body = json!({"by": "anna"});
        client::signal(&engine, task.id, "approval", body, "client:anna")
    };
    is_away(&standby, true);
    assert!(signal().await.is_err());
    let received = |record: &counterstep_kernel::record::TaskRecord| {
        record.steps.iter().any(|step| step.signal.is_some())
    };
    until(&task, received).await;
    let again = signal().await;
    assert!(again.is_err(), "{again:?}");
    is_away(&standby, false);
    signal().await.expect("received");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_revoked_on_the_primary_alone_is_not_said_to_be() {
    let (_task, engine, standby) = purchase().await;
    let spec = KeySpec {
        tenant: Tenant::default(),
        subject: "shop".to_owned(),
        role: Role::Submit,
        expires_in: None,
    };
    let ports = &engine.ports;
    let made = api_keys::make(&ports.store, ports.random.as_ref(), spec, "test").await;
    let (_, row) = made.expect("a key");
    api_keys::revoke(&ports.store, &row.id, "test")
        .await
        .expect("revoked");
    is_away(&standby, true);
    let again = api_keys::revoke(&ports.store, &row.id, "test").await;
    assert!(matches!(again, Err(KeyError::Store(_))), "{again:?}");
    is_away(&standby, false);
    let told = api_keys::revoke(&ports.store, &row.id, "test").await;
    assert_eq!(
        told.expect("told").revoked.map(|(_, by)| by),
        Some("test".to_owned())
    );
}
