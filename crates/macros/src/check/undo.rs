//! Checks that each step says, exactly once, how it is undone.

use super::functions::returns_built_in;
use crate::code::Code;
use crate::declaration::{Declaration, Step};
use crate::report::Report;
use proc_macro2::TokenStream;
use quote::ToTokens;

pub(super) fn check(declaration: &Declaration, report: &mut Report) {
    for (at, step) in declaration.steps.iter().enumerate() {
        missing_undo(declaration, at, report);
        undo_twice(declaration, at, report);
        empty_reason(step, report);
        unknown_undo(declaration, step, report);
        pure_built_in(declaration, at, report);
        useless_undo_retry(declaration, at, report);
    }
    unknown_step(declaration, report);
    undo_on_a_step(declaration, report);
}

/// Everything that says how a step is undone, in the order in which people read it.
fn sayings(declaration: &Declaration, at: usize) -> Vec<TokenStream> {
    let step = &declaration.steps[at];
    let marks = declaration
        .undo_marks
        .iter()
        .filter(|mark| mark.step == *declaration.step_name(at));
    let mut sayings: Vec<_> = step.undo.iter().map(ToTokens::to_token_stream).collect();
    sayings.extend(step.no_undo.iter().map(ToTokens::to_token_stream));
    // A built-in step that is `#[pure]` has a diagnostic of its own.
    let pure = step.pure.iter().filter(|_| declaration.is_custom(at));
    sayings.extend(pure.map(ToTokens::to_token_stream));
    sayings.extend(marks.map(|mark| mark.step.to_token_stream()));
    sayings
}

fn missing_undo(declaration: &Declaration, at: usize, report: &mut Report) {
    // What is said wrongly has a diagnostic already, and so has a built-in step that is async by
    // mistake.
    let is_custom = declaration.is_custom(at) && !returns_built_in(declaration.step_function(at));
    if is_custom && !declaration.steps[at].mentions_undo && sayings(declaration, at).is_empty() {
        let name = declaration.step_name(at);
        let message = format_args!(
            "step `{name}` does not say how it is undone; expected exactly one of `undo = function`, `#[undo({name})]` \
             on another function, `no_undo = \"reason\"` and `#[pure]`; add the one that is true"
        );
        report.add(Code::MissingUndo, name, message);
    }
}

fn undo_twice(declaration: &Declaration, at: usize, report: &mut Report) {
    for saying in sayings(declaration, at).into_iter().skip(1) {
        let message = format_args!(
            "step `{}` says more than once how it is undone; expected exactly one of `undo`, `#[undo(..)]`, `no_undo` \
             and `#[pure]`; keep one",
            declaration.step_name(at)
        );
        report.add(Code::UndoTwice, saying, message);
    }
}

fn empty_reason(step: &Step, report: &mut Report) {
    if let Some(reason) = step
        .no_undo
        .as_ref()
        .filter(|reason| reason.value().trim().is_empty())
    {
        let message = "`no_undo` gives no reason; expected why nothing needs to be undone, because people read it in \
                       the audit; write it";
        report.add(Code::EmptyReason, reason, message);
    }
}

fn unknown_undo(declaration: &Declaration, step: &Step, report: &mut Report) {
    let Some(name) = &step.undo else { return };
    match declaration.function_named(name) {
        Some(function) if !declaration.is_step(function) && name != "respond" => {}
        Some(_) => {
            let message = format_args!(
                "`{name}` is no undo; expected an `async fn` that is nothing else; write one"
            );
            report.add(Code::UnknownUndo, name, message);
        }
        None => {
            let message = format_args!(
                "there is no function `{name}` in this impl; expected the `async fn` that undoes the step; write it \
                 here, or correct the name"
            );
            report.add(Code::UnknownUndo, name, message);
        }
    }
}

fn unknown_step(declaration: &Declaration, report: &mut Report) {
    for mark in &declaration.undo_marks {
        if declaration.step_named(&mark.step).is_none() {
            let message = format_args!(
                "there is no step `{}`; expected the name of a function with `#[step]` in this impl; correct the name",
                mark.step
            );
            report.add(Code::UnknownStep, &mark.step, message);
        }
    }
}

fn undo_on_a_step(declaration: &Declaration, report: &mut Report) {
    for mark in &declaration.undo_marks {
        let name = &declaration.functions[mark.function].sig.ident;
        if declaration.is_step(mark.function) || name == "respond" {
            let message = format_args!(
                "`{name}` cannot also be the undo of `{}`; expected a function that is nothing else; write one",
                mark.step
            );
            report.add(Code::StrayAttribute, &mark.step, message);
        }
    }
}

fn pure_built_in(declaration: &Declaration, at: usize, report: &mut Report) {
    if let Some(pure) = declaration.steps[at]
        .pure
        .as_ref()
        .filter(|_| !declaration.is_custom(at))
    {
        let message = "a built-in step says itself whether it has anything to undo; expected no `#[pure]` on it; \
                       remove it";
        report.add(Code::PureBuiltIn, pure, message);
    }
}

fn useless_undo_retry(declaration: &Declaration, at: usize, report: &mut Report) {
    let step = &declaration.steps[at];
    let nothing_to_undo = step.no_undo.is_some() || step.pure.is_some();
    if let Some(policy) = step.undo_retry.as_ref().filter(|_| nothing_to_undo) {
        let message = format_args!(
            "step `{}` has no undo, so `undo_retry` would never be used; expected it beside an undo only; remove it",
            declaration.step_name(at)
        );
        report.add(Code::UselessUndoRetry, policy, message);
    }
}
