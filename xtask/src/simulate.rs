//! `cargo xtask simulate`: runs the simulation of `crates/testkit` over many seeds.

use crate::command;
use std::process::Command;

const ARGUMENTS: [&str; 3] = ["--seeds", "--from", "--seconds"];

/// `--seeds N`, `--from N`, `--seconds N`. Without a number of seeds, those that fit into the time, of which there is a least number.
pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    let mut test = test();
    if arguments.is_empty() {
        test.env("SIMULATE_SEEDS", "1000");
    }
    for pair in arguments.chunks(2) {
        let [name, value] = pair else {
            return Err(format!("`{}` needs a number", pair[0]));
        };
        if !ARGUMENTS.contains(name) || value.parse::<u64>().is_err() {
            let known = ARGUMENTS.join(", ");
            return Err(format!(
                "`{name} {value}`: expected one of {known}, and a number"
            ));
        }
        let name = name.trim_start_matches('-').to_uppercase();
        test.env(format!("SIMULATE_{name}"), value);
    }
    command::run(&mut test)
}

/// The test that runs seeds, as the variables of its environment say; those of this commit where none says from which on.
pub(crate) fn test() -> Command {
    let mut test = command::cargo();
    test.args(["test", "--profile", "chaos", "--package"]);
    test.args(["counterstep-testkit", "--test", "simulation"]);
    test.args(["nothing_breaks", "--", "--nocapture"]);
    test
}
