//! What custom steps return, as far as tokens show what is wrong with it. The rest is left to the
//! bound on what they return, which has to see through aliases.

use super::functions::returns_built_in;
use super::inputs::{Param, Reader, Readings};
use crate::code::Code;
use crate::declaration::Declaration;
use crate::report::Report;
use crate::text::{as_written, first_argument, last_segment};
use syn::{ReturnType, Signature, Type};

pub(super) fn check(declaration: &Declaration, readings: &Readings, report: &mut Report) {
    for step in 0..declaration.steps.len() {
        plain_output(declaration, readings, step, report);
    }
}

/// A step that returns what other functions take as its output. Left to the bound, the mistake would
/// be reported once more at each of them.
fn plain_output(declaration: &Declaration, readings: &Readings, step: usize, report: &mut Report) {
    let sig = declaration.step_function(step);
    let ReturnType::Type(_, ty) = &sig.output else {
        return;
    };
    if sig.asyncness.is_none() || returns_built_in(sig) || result_argument(sig).is_some() {
        return;
    }
    let returned = as_written(ty);
    let takes_it = |(reader, params): (Reader, &[Param])| {
        params.iter().any(|param| match param {
            Param::OwnOutput(own) => {
                matches!(reader, Reader::Undo(of) if of == step) && as_written(own) == returned
            }
            Param::Input(input) => {
                reader.may_read(declaration, step) && as_written(&input.ty) == returned
            }
            Param::Context | Param::State(_) => false,
        })
    };
    if readings.by_reader().into_iter().any(takes_it) {
        let message = format_args!(
            "step `{}` returns `{returned}`, which other functions take as its output; expected \
             `StepResult<{returned}>`; say with `.transient(..)` or `.permanent(..)` what an error means",
            sig.ident
        );
        report.add(Code::NotAStepResult, ty, message);
    }
}

/// `Output` of a function that returns `StepResult<Output>` by that name, or by the one behind it.
/// Of any other the first argument may be something else.
pub(crate) fn result_argument(sig: &Signature) -> Option<&Type> {
    let ReturnType::Type(_, ty) = &sig.output else {
        return None;
    };
    last_segment(ty)
        .filter(|segment| segment.ident == "StepResult" || segment.ident == "Result")
        .and_then(first_argument)
}
