//! `cargo run -- dev` starts API, worker and reconciler; accounts and mails are files in
//! `counterstep-data`.

use sign_up::{Office, tasks};
use std::process::ExitCode;

fn main() -> ExitCode {
    counterstep::cli::main(tasks(Office::in_folder("counterstep-data/office")))
}
