//! The embedded set: everything that `embedded::open` hands out.

use crate::suite::queue::ACK_WAIT;
use counterstep_adapters::embedded::{EmbeddedOptions, EmbeddedPaths, open};
use counterstep_adapters::local_queue::QueueOptions;
use counterstep_kernel::ports::Ports;
use counterstep_testkit::TestClock;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// Ports, and the folder that they live in.
pub(crate) struct Fixture {
    pub(crate) ports: Ports,
    pub(crate) folder: TempDir,
}

pub(crate) fn options() -> EmbeddedOptions {
    let queue = QueueOptions {
        ack_wait: ACK_WAIT,
        poll: Duration::from_millis(20),
    };
    EmbeddedOptions {
        queue,
        ..EmbeddedOptions::default()
    }
}

pub(crate) async fn open_in(folder: &Path, options: EmbeddedOptions) -> Ports {
    let paths = EmbeddedPaths {
        database: folder.join("data/counterstep.db"),
        objects: folder.join("objects"),
        scratch: folder.join("scratch"),
    };
    open(paths, options).await.expect("embedded adapters")
}

pub(crate) async fn fixture() -> Fixture {
    opened(options()).await
}

/// The same under a clock that the test advances.
pub(crate) async fn fixture_under(clock: &TestClock) -> Fixture {
    let options = EmbeddedOptions {
        queue: options().queue,
        ..clock.embedded()
    };
    opened(options).await
}

async fn opened(options: EmbeddedOptions) -> Fixture {
    let folder = tempfile::tempdir().expect("a folder");
    Fixture {
        ports: open_in(folder.path(), options).await,
        folder,
    }
}

crate::every_case!(crate::embedded::fixture);
