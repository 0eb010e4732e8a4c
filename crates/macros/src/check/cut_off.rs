//! Checks which steps may go on while their worker cannot reach the database: another host may run them
//! meanwhile.

use super::inputs::{Param, Readings};
use crate::code::Code;
use crate::declaration::Declaration;
use crate::report::Report;

pub(super) fn check(declaration: &Declaration, readings: &Readings, report: &mut Report) {
    for step in 0..declaration.steps.len() {
        cannot_finish(declaration, step, report);
        unguarded_overlap(declaration, step, readings, report);
    }
}

fn finishes(declaration: &Declaration, step: usize) -> bool {
    let declared = declaration.steps[step].when_cut_off.as_ref();
    declared.is_some_and(|choice| choice.variant == "Finish")
}

fn cannot_finish(declaration: &Declaration, step: usize, report: &mut Report) {
    if !finishes(declaration, step) {
        return;
    }
    let (declared, name) = (&declaration.steps[step], declaration.step_name(step));
    let Some(asked) = &declared.when_cut_off else {
        return;
    };
    let on_api = declared
        .host
        .as_ref()
        .is_some_and(|host| host.variant == "Api");
    let why = if on_api {
        "API processes keep no results while the database is away"
    } else if declared.limit.is_some() {
        "its permit of a limit is another attempt's once the lease is over"
    } else if declaration.task.on_lost == "Fail" {
        "`on_lost = \"fail\"` has the task undone once the lease is over, perhaps while the step still runs"
    } else {
        return;
    };
    let message = format_args!(
        "step `{name}` is to go on while its worker cannot reach the database, and cannot: {why}; expected a step on \
         worker hosts, without a limit, of a type that is run again; remove `when_cut_off`, or what stands against it"
    );
    report.add(Code::CannotFinish, &asked.literal, message);
}

/// The engine guards what built-in steps do: objects have keys of their own attempt, and calls carry the
/// effect key. What the author's code does it can only guard by the key that the context has.
fn unguarded_overlap(
    declaration: &Declaration,
    step: usize,
    readings: &Readings,
    report: &mut Report,
) {
    let declared = &declaration.steps[step];
    let Some(asked) = declared
        .when_cut_off
        .as_ref()
        .filter(|_| finishes(declaration, step))
    else {
        return;
    };
    if declared.pure.is_some() || !declaration.is_custom(step) {
        return;
    }
    let has_key = |params: &[Param]| params.iter().any(|param| matches!(param, Param::Context));
    if has_key(&readings.runs[step]) {
        return;
    }
    let name = declaration.step_name(step);
    let message = format_args!(
        "step `{name}` goes on while its worker cannot reach the database, beside another host that may run it too, and \
         without `ctx` it has no effect key by which its effects could be told to be the same; expected `#[pure]`, or \
         `ctx: &StepContext` whose `effect_key()` goes along with each effect; add one of them, or remove `when_cut_off`"
    );
    report.add(Code::UnguardedOverlap, &asked.literal, message);
}
