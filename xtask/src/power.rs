//! `cargo xtask power`: builds the programs, and starts the run that cuts the power.

use crate::{chaos, command};
use std::process::Command;

/// Further arguments go to the run: `--seed`, `--cuts`, `--tasks`.
pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    let program = chaos::build(&["counterstep", "beside", "power"])?.join("power");
    command::run(Command::new(program).args(arguments))
}
