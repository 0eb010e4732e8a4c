//! What the store counts, each count with the type of its answer.

use super::Store;
use crate::ports::{
    ChildCount, Count, Counted, FailureQuery, Flow, FlowQuery, Gauges, InFlight, LabelQuery,
    PlaceCount, StoreError, WaitingQuery,
};
use counterstep_contracts::{TaskId, Tenant};
use std::time::Duration;

macro_rules! counts {
    ($($name:ident($($of:ident: $type:ty),*) -> $answer:ty, $count:ident $({ $($what:tt)* })? $(($query:expr))?;)+) => {
        impl Store {
            $(
                #[doc = concat!("See [`Count::", stringify!($count), "`].")]
                ///
                /// # Errors
                /// [`StoreError`].
                pub async fn $name(&self, $($of: $type),*) -> Result<$answer, StoreError> {
                    match self.storage.count(Count::$count $({ $($what)* })? $(($query))?).await? {
                        Counted::$count(counted) => Ok(counted),
                        other => Err(StoreError::Corrupt(format!("not what was to be counted: {other:?}"))),
                    }
                }
            )+
        }
    };
}

counts! {
    in_flight() -> Vec<InFlight>, InFlight;
    gauges(labels: &[String]) -> Gauges, Gauges(labels.to_vec());
    flow(query: &FlowQuery) -> Flow, Flow(query.clone());
    child_counts(parent: TaskId) -> Vec<ChildCount>, Children(parent);
    place_counts(after: Option<&str>, limit: u32) -> Vec<PlaceCount>, Places { after: after.map(str::to_owned), limit };
    failures(query: &FailureQuery) -> u32, Failures(query.clone());
    failing_tenants(task_type: &str, within: Duration) -> Vec<Tenant>,
        FailingTenants { task_type: task_type.to_owned(), within };
    waiting(query: &WaitingQuery) -> u32, Waiting(query.clone());
    labels(query: &LabelQuery) -> Vec<String>, Labels(query.clone());
}
