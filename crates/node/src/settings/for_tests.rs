//! What demonstrations and tests change of a process, by two flags: `--plant-fault` plants faults, `--test-time` shortens
//! times that are fixed. They are no settings: neither help nor reference show them.

use super::kinds::duration;
use clap::{Arg, ArgAction, ArgMatches};
use counterstep_kernel::EngineSettings;
use counterstep_kernel::engine::faults::{Fault, FaultKind};
use std::time::Duration;

const FAULT: &str = "plant_fault";
const TIME: &str = "test_time";

/// What the flags give.
#[derive(Debug, Clone, Default)]
pub(crate) struct ForTests {
    faults: Vec<Fault>,
    times: Vec<(FixedTime, Duration)>,
}

/// A time that no setting changes, and that a test would have to wait for.
#[derive(Debug, Clone, Copy)]
enum FixedTime {
    CancelGrace,
    LostAfter,
    HungAfter,
}

impl ForTests {
    /// Of the flags of a command.
    pub(super) fn given(matches: &ArgMatches) -> Self {
        Self {
            faults: of(matches, FAULT),
            times: of(matches, TIME),
        }
    }

    /// The engine's settings with them.
    pub(super) fn change(&self, engine: EngineSettings) -> EngineSettings {
        let mut changed = EngineSettings {
            faults: self.faults.clone(),
            ..engine
        };
        for (name, time) in &self.times {
            match name {
                FixedTime::CancelGrace => changed.cancel_grace = *time,
                FixedTime::LostAfter => changed.lost_after = *time,
                FixedTime::HungAfter => changed.hung_after = *time,
            }
        }
        changed
    }
}

fn of<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, id: &str) -> Vec<T> {
    let given = matches.get_many(id).into_iter().flatten();
    given.cloned().collect()
}

/// The flags.
pub(super) fn args() -> [Arg; 2] {
    let fault = Arg::new(FAULT)
        .long("plant-fault")
        .help("Plant a fault, as `STEP=KIND` or `STEP=KIND@ATTEMPT`; for demonstrations and tests")
        .value_parser(parse_fault);
    let time = Arg::new(TIME)
        .long("test-time")
        .help("Change a time that is fixed, as `cancel_grace=500ms`; for demonstrations and tests")
        .value_parser(parse_time);
    [fault, time].map(|arg| arg.action(ArgAction::Append).hide(true).global(true))
}

fn parse_time(text: &str) -> Result<(FixedTime, Duration), String> {
    let (name, time) = text.split_once('=').ok_or("expected NAME=TIME")?;
    let fixed = match name {
        "cancel_grace" => FixedTime::CancelGrace,
        "lost_after" => FixedTime::LostAfter,
        "hung_after" => FixedTime::HungAfter,
        _ => return Err("expected one of cancel_grace, lost_after, hung_after".to_owned()),
    };
    let time = duration(name, time).map_err(|error| error.message)?;
    Ok((fixed, time))
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
