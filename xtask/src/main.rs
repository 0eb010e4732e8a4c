//! The repository's own commands. Owns how things are tested and checked, nothing of what is built:
//! no crate of the workspace is imported here, and the standard library is all it needs.

mod artifacts;
mod chaos;
mod ci;
mod command;
mod deny;
mod digest;
mod machine;
mod tally;
mod test;
mod tidy;
mod tree;
mod unchanged;

use std::process::ExitCode;
use test::Which;

const USAGE: &str = "\
cargo xtask test [FILTER]   run the tests; the last line starts with `N passed, N failed`. Without a filter, test programs
                            that passed and of whose inputs nothing has changed do not run again, and are counted
cargo xtask test --again    run all of them
cargo xtask tidy            check the rules of the house that no compiler checks
cargo xtask chaos [--seed N] [--minutes N] [--clients N] [--program PATH]
                            run tasks on real servers while faults strike, then check every promise on every task
cargo xtask ci              format, lints, licences and documentation
cargo xtask advisories      known vulnerabilities in dependencies (needs a network)";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["test"] => test::run(Which::Changed),
        ["test", "--again"] => test::run(Which::All),
        // What is picked by hand is meant to run.
        ["test", filter] | ["test", "--again", filter] | ["test", filter, "--again"]
            if !filter.starts_with('-') =>
        {
            test::run(Which::Named(filter))
        }
        ["chaos", arguments @ ..] => chaos::run(arguments),
        ["tidy"] => tidy::run(),
        ["ci"] => ci::run(),
        ["advisories"] => deny::advisories(),
        [] | ["help" | "-h" | "--help"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => Err(format!("no such command\n{USAGE}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("xtask: {text}");
            ExitCode::FAILURE
        }
    }
}
