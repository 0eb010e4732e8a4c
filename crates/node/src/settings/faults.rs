//! Planted faults, as the flag `--plant-fault` names them. It is for demonstrations and tests, and no
//! setting: neither help nor reference show it.

use clap::{Arg, ArgAction, ArgMatches};
use counterstep_kernel::faults::{Fault, FaultKind};

const ID: &str = "plant_fault";

/// The flag.
pub(super) fn arg() -> Arg {
    Arg::new(ID)
        .long("plant-fault")
        .help("Plant a fault, as `STEP=KIND` or `STEP=KIND@ATTEMPT`; for demonstrations and tests")
        .value_parser(parse_fault)
        .action(ArgAction::Append)
        .hide(true)
        .global(true)
}

/// The faults that a command is to plant.
pub(super) fn given(matches: &ArgMatches) -> Vec<Fault> {
    matches
        .get_many(ID)
        .into_iter()
        .flatten()
        .cloned()
        .collect()
}

/// `STEP=KIND`, `STEP=KIND@ATTEMPT`, and with `STEP:undo` or `STEP:probe` the same for its undo or its probe.
fn parse_fault(text: &str) -> Result<Fault, String> {
    let (step, kind) = text.split_once('=').ok_or("expected STEP=KIND")?;
    let (kind, attempt) = match kind.split_once('@') {
        Some((kind, attempt)) => (
            kind,
            Some(attempt.parse::<i32>().map_err(|error| error.to_string())?),
        ),
        None => (kind, None),
    };
    let kind = match kind {
        "fail-before" => FaultKind::FailBefore,
        "fail" => FaultKind::FailAfter,
        "fail-half-way" => FaultKind::FailHalfWay,
        "fail-for-now" => FaultKind::FailTransiently,
        "no-answer" => FaultKind::NoAnswer,
        "panic" => FaultKind::Panic,
        "hang" => FaultKind::Hang,
        "hang-before" => FaultKind::HangBefore,
        "block" => FaultKind::Block,
        _ => {
            let kinds = "fail-before, fail-half-way, fail, fail-for-now, no-answer, panic, hang-before, block, hang";
            return Err(format!("expected one of {kinds}"));
        }
    };
    let fault = match step.rsplit_once(':') {
        Some((step, "undo")) => Fault::at(step, kind).in_undo(),
        Some((step, "probe")) => Fault::at(step, kind).in_probe(),
        _ => Fault::at(step, kind),
    };
    Ok(match attempt {
        Some(attempt) => fault.on_attempt(attempt),
        None => fault,
    })
}
