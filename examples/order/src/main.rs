//! `cargo run -- dev --config services.toml` starts API, worker and reconciler; `cargo run --bin
//! services` the three services that an order calls.

use std::process::ExitCode;

fn main() -> ExitCode {
    counterstep::cli::main(order::tasks())
}
