//! Judges a declaration by its tokens: one small function a diagnostic, and the parameters of each
//! function sorted out. Writes nothing down; what needs types is left to bounds.

mod cut_off;
mod flow;
mod functions;
mod inputs;
mod labels;
mod order;
mod outputs;
mod undo;

pub(crate) use inputs::{Input, Param, Reader, Readings, Source, written_output};
pub(crate) use outputs::result_argument;

use crate::code::Code;
use crate::declaration::Declaration;
use crate::report::Report;
use quote::ToTokens;

/// Reports everything that tokens show to be wrong, and says what each function reads.
pub(crate) fn check(declaration: &Declaration, report: &mut Report) -> Readings {
    missing_types(declaration, report);
    no_steps(declaration, report);
    labels::check(declaration, report);
    flow::check(declaration, report);
    order::check(declaration, report);
    undo::check(declaration, report);
    functions::check(declaration, report);
    let readings = inputs::check(declaration, report);
    cut_off::check(declaration, &readings, report);
    outputs::check(declaration, &readings, report);
    readings
}

fn missing_types(declaration: &Declaration, report: &mut Report) {
    for (name, ty) in [
        ("Request", &declaration.request),
        ("Response", &declaration.response),
    ] {
        if ty.is_none() {
            let message = format_args!(
                "the declaration has no `type {name}`; expected `type {name} = ..;`; add it"
            );
            report.add(Code::MissingType, &declaration.item.self_ty, message);
        }
    }
}

fn no_steps(declaration: &Declaration, report: &mut Report) {
    if declaration.steps.is_empty() {
        let message =
            "the task has no step; expected a function with `#[step(1, host = \"..\")]`; add one";
        report.add(
            Code::NoSteps,
            declaration.item.self_ty.to_token_stream(),
            message,
        );
    }
}
