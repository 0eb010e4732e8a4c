//! The repository's own commands. Owns how things are tested and checked, nothing of what is built:
//! no crate of the workspace is imported here.

mod chaos;
mod ci;
mod command;
mod deny;
mod dependencies;
mod dist;
mod examples;
mod executables;
mod guards;
mod index;
mod llms;
mod machine;
mod memory_folder;
mod mutants;
mod oldest_sqlite;
mod outside;
mod power;
mod publish;
mod simulate;
mod size;
mod tally;
mod test;
mod tidy;
mod tree;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask test [FILTER]   run the tests, all or those with FILTER in their names; the last line starts with
                            `N passed, N failed`
cargo xtask tidy            check the rules of the house that no compiler checks
cargo xtask chaos [--seed N] [--minutes N] [--clients N] [--program PATH] [--soak [--samples FOLDER]]
                            run tasks on real servers while faults strike, then check every promise on every task, and the
                            history of its reads; --soak: an hour of steady load and few faults, and what must not grow with it
cargo xtask failover [--case NAME] [--clients N] [--program PATH]
                            run tasks on a PostgreSQL whose standby takes its place, then check every promise on every task
cargo xtask cluster [--seed N] [--minutes N] [--clients N] [--program PATH]
                            the same with faults of three NATS servers that are one cluster
cargo xtask power [--seed N] [--cuts N] [--tasks N]
                            cut the power of a recorded run at many moments, and check that what was acknowledged is there
cargo xtask simulate [--seeds N] [--from N] [--seconds N]
                            run whole installations in memory, one a seed, and check every promise after each change; the
                            seeds are those of the commit, unless one says from which on
cargo xtask guards [FILTER] take away one named guard at a time, and run the simulation, which has to notice;
                            --table writes their table into docs/invariants.md
cargo xtask mutants [FILTER]
                            build all changed decisions of tests/mutants at once, and run the test that has to notice each
cargo xtask examples        build and test the programs in examples/, with the versions of the workspace
cargo xtask oldest-sqlite   test the store on the oldest SQLite that a user's other crates may choose
cargo xtask dependencies    resolve a new crate beside each of the usual database crates, and compile one of them
cargo xtask publish --dry-run [--prove]
                            pack every crate that is published, in the order of their dependencies; --prove builds a program
                            from the archives alone and runs its tasks
cargo xtask dist [--twice]  build the archive of a release in target/dist, with completions, man pages, licences and a bill of
                            materials; --twice builds it once more in another folder, and compares the hashes
cargo xtask ci              format, lints, licences, examples, the two above, and documentation
cargo xtask size            count lines of code and of tests by crate, public items, and words of documentation
cargo xtask llms            write llms.txt, the list of the pages for programs that read them, and all pages as llms-full.txt in target
cargo xtask index           write docs/index-of-names.md: settings, states, codes, routes, commands, and where each is explained
cargo xtask advisories      known vulnerabilities in dependencies (needs a network)";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["test"] => test::run(None),
        ["test", filter] if !filter.starts_with('-') => test::run(Some(filter)),
        ["chaos", arguments @ ..] => chaos::run(arguments),
        ["failover", arguments @ ..] => chaos::failover(arguments),
        ["cluster", arguments @ ..] => chaos::of_cluster(arguments),
        ["power", arguments @ ..] => power::run(arguments),
        ["simulate", arguments @ ..] => simulate::run(arguments),
        ["tidy"] => tidy::run(),
        ["guards", "--table"] => guards::write_table(),
        ["guards"] => guards::run(None),
        ["guards", filter] if !filter.starts_with('-') => guards::run(Some(filter)),
        ["mutants"] => mutants::run(None),
        ["mutants", filter] if !filter.starts_with('-') => mutants::run(Some(filter)),
        ["examples"] => examples::run(),
        ["oldest-sqlite"] => oldest_sqlite::run(),
        ["dependencies"] => dependencies::run(),
        ["publish", "--dry-run"] => publish::run(false),
        ["publish", "--dry-run", "--prove"] => publish::run(true),
        ["dist"] => dist::run(false),
        ["dist", "--twice"] => dist::run(true),
        ["ci"] => ci::run(),
        ["size"] => size::run(),
        ["llms"] => llms::run(),
        ["index"] => index::run(),
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
