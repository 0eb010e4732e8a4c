//! `cargo run -- dev` starts API, worker and reconciler; the rows come from `counterstep-data/rows`.

use export::{Rows, tasks};
use std::process::ExitCode;

fn main() -> ExitCode {
    counterstep::cli::main(tasks(Rows::in_folder("counterstep-data/rows")))
}
