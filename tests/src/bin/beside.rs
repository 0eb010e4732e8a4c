//! `counterstep`, and beside it, in the data directory that `BESIDE` names, a spool, which a database file has none of, and
//! objects that are stored at the same time. For the tests of power cuts.

use counterstep_tests::power::{DATA, keep_and_remove};
use std::process::ExitCode;

fn main() -> ExitCode {
    let data = std::env::var_os(DATA).expect("a data directory");
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        runtime.block_on(keep_and_remove(data.as_ref()));
    });
    counterstep::cli::main(counterstep_tasks::tasks())
}
