//! `cargo run -- dev` starts API, worker and reconciler.

use std::process::ExitCode;

fn main() -> ExitCode {
    counterstep::cli::main(image_pipeline::tasks())
}
