//! Failovers of PostgreSQL under load: `cargo xtask failover` starts it. Ends with 1 where a case has found an anomaly or
//! submissions were accepted later than 5 s after a promotion, and with 2 where the control has lost nothing.

use clap::Parser;
use counterstep_tests::chaos::failover::{Case, run};
use counterstep_tests::program;
use std::path::PathBuf;
use std::process::ExitCode;

/// Run tasks on a PostgreSQL whose standby takes its place, then check every promise on every task.
#[derive(Debug, Parser)]
#[command(name = "failover")]
struct Arguments {
    /// Cases to run, by their names: killed, both-live, cut, back, asynchronous. Without it, all.
    #[arg(long = "case", value_parser = case)]
    cases: Vec<Case>,
    /// Clients, each with one task in flight.
    #[arg(long, default_value_t = 200)]
    clients: u64,
    /// Program under test, instead of the one built from this tree.
    #[arg(long)]
    program: Option<PathBuf>,
}

fn case(name: &str) -> Result<Case, String> {
    let found = Case::ALL.into_iter().find(|case| case.name() == name);
    found.ok_or_else(|| format!("expected one of {}", Case::ALL.map(Case::name).join(", ")))
}

// One runtime whose main thread starts all processes: a process ends with the thread that has
// started it.
#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = Arguments::parse();
    if let Some(path) = arguments.program {
        program::choose(path);
    }
    if arguments.cases.is_empty() {
        arguments.cases = Case::ALL.to_vec();
    }
    let (mut anomalies, mut void) = (0, 0);
    for case in arguments.cases {
        println!("failover: {}, {} clients", case.name(), arguments.clients);
        let outcome = run(case, arguments.clients).await;
        println!("{outcome}");
        anomalies += outcome.report.anomalies.len() + usize::from(outcome.is_late());
        void += outcome.report.void.len();
    }
    match (anomalies, void) {
        (0, 0) => ExitCode::SUCCESS,
        (0, _) => ExitCode::from(2),
        _ => ExitCode::from(1),
    }
}
