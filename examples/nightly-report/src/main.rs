//! `cargo run -- dev` starts API, worker and reconciler, and a report each night; sales are read from
//! `counterstep-data/sales`.

use nightly_report::{Sales, tasks};
use std::process::ExitCode;

fn main() -> ExitCode {
    counterstep::cli::main(tasks(Sales::in_folder("counterstep-data/sales")))
}
