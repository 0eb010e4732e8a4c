//! The SQLite store in memory, with its transactions where they are asked for: as a simulation has it.

use crate::embedded::{self, Fixture};
use counterstep_adapters::blocking_calls::BlockingCalls;
use counterstep_adapters::sqlite::{SqliteOptions, SqliteStore};
use std::sync::atomic::{AtomicU64, Ordering};

static NAMES: AtomicU64 = AtomicU64::new(0);

pub(crate) async fn fixture() -> Fixture {
    let mut fixture = embedded::fixture().await;
    let name = format!("cases {}", NAMES.fetch_add(1, Ordering::Relaxed));
    let options = SqliteOptions {
        blocking: BlockingCalls::Inline,
        ..SqliteOptions::default()
    };
    let store = SqliteStore::in_memory(&name, options).await;
    fixture.ports.store = store.expect("a database in memory").into();
    fixture
}

crate::store_cases!(crate::in_memory::fixture);
