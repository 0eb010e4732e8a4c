//! Checks the shape of each function: async or not, what it returns, what it must not be.
//! Parameters are in `inputs`.

use crate::code::Code;
use crate::declaration::Declaration;
use crate::parse::report_cfg;
use crate::report::Report;
use crate::text::last_segment;
use quote::ToTokens;
use std::collections::BTreeSet;
use syn::{FnArg, ReturnType, Signature, Type};

pub(super) fn check(declaration: &Declaration, report: &mut Report) {
    for function in declared(declaration) {
        let function = &declaration.functions[function];
        report_cfg(&function.cfg, report);
        self_receiver(&function.sig, report);
        generic_function(&function.sig, report);
    }
    for step in 0..declaration.steps.len() {
        custom_step_not_async(declaration, step, report);
        built_in_step_async(declaration, step, report);
        not_a_step_result(declaration, step, report);
        unknown_when(declaration, step, report);
        bad_fallback(declaration, step, report);
        useless_on_wait(declaration, step, report);
        needs_own_code(declaration, step, report);
        memory_of_no_process(declaration, step, report);
        unknown_probe(declaration, step, report);
        useless_probe(declaration, step, report);
        no_probe(declaration, step, report);
    }
    let undos = declared_once(declaration, Declaration::undo_of);
    for function in undos {
        undo_not_async(&declaration.functions[function].sig, report);
    }
    let conditions = declared_once(declaration, Declaration::when_of);
    for function in conditions {
        bad_condition(&declaration.functions[function].sig, report);
    }
    for function in declared_once(declaration, Declaration::probe_of) {
        probe_not_async(&declaration.functions[function].sig, report);
    }
    missing_respond(declaration, report);
    bad_respond(declaration, report);
}

/// Each function that `of` finds for some step and that is no step itself, once.
fn declared_once(
    declaration: &Declaration,
    of: impl Fn(&Declaration, usize) -> Option<usize>,
) -> BTreeSet<usize> {
    let all = (0..declaration.steps.len()).filter_map(|step| of(declaration, step));
    all.filter(|function| !declaration.is_step(*function))
        .collect()
}

/// Each function that is a part of the declaration; the others are the author's own business.
fn declared(declaration: &Declaration) -> BTreeSet<usize> {
    let mut declared = declared_once(declaration, Declaration::undo_of);
    declared.extend(declared_once(declaration, Declaration::when_of));
    declared.extend(declared_once(declaration, Declaration::fallback_of));
    declared.extend(declared_once(declaration, Declaration::probe_of));
    declared.extend(declaration.undo_marks.iter().map(|mark| mark.function));
    declared.extend(declaration.steps.iter().map(|step| step.function));
    declared.extend(declaration.respond());
    declared
}

fn self_receiver(sig: &Signature, report: &mut Report) {
    if let Some(receiver @ FnArg::Receiver(_)) = sig.inputs.first() {
        let message = format_args!(
            "`{}` takes `self`, but a task type has no value: a step may run in any process; expected `ctx` and inputs \
             only; put what it needs into the request or an earlier output",
            sig.ident
        );
        report.add(Code::SelfReceiver, receiver, message);
    }
}

fn generic_function(sig: &Signature, report: &mut Report) {
    let message = format_args!(
        "`{}` is generic, unsafe or extern; expected a plain function with concrete types, because the engine calls it \
         through a table; take that away",
        sig.ident
    );
    if !sig.generics.params.is_empty() {
        report.add(Code::GenericFunction, &sig.generics, message);
    } else if let Some(unsafety) = &sig.unsafety {
        report.add(Code::GenericFunction, unsafety, message);
    } else if let Some(abi) = &sig.abi {
        report.add(Code::GenericFunction, abi, message);
    }
}

fn returns(sig: &Signature) -> Option<&Type> {
    match &sig.output {
        ReturnType::Type(_, ty) => Some(ty),
        ReturnType::Default => None,
    }
}

/// Whether the last segment of what a function returns is one of these.
fn returns_one_of(sig: &Signature, names: &[&str]) -> bool {
    let segment = returns(sig).and_then(last_segment);
    segment.is_some_and(|segment| names.iter().any(|name| segment.ident == name))
}

/// Whether a function returns a built-in step, as far as its tokens show.
pub(super) fn returns_built_in(sig: &Signature) -> bool {
    returns_one_of(sig, &["UploadMany", "UploadOne"]) || returns_wait(sig) || returns_call(sig)
}

/// Whether a function returns a request to a service, as far as its tokens show.
pub(crate) fn returns_call(sig: &Signature) -> bool {
    returns_one_of(sig, &["HttpCall"])
}

/// Whether a function returns a built-in step that waits, as far as its tokens show.
pub(super) fn returns_wait(sig: &Signature) -> bool {
    returns_one_of(sig, &["Sleep", "AwaitSignal", "MaybeSignal"]) || returns_tasks(sig)
}

/// Whether a function returns a built-in step that submits tasks, as far as its tokens show.
fn returns_tasks(sig: &Signature) -> bool {
    returns_one_of(sig, &["AwaitTask", "ForEach", "EachOutcome", "Branches"])
}

/// Only where the return type shows what was meant; other types are left to the bound on built-in
/// steps.
fn custom_step_not_async(declaration: &Declaration, step: usize, report: &mut Report) {
    let sig = declaration.step_function(step);
    if sig.asyncness.is_none()
        && (returns(sig).is_none() || returns_one_of(sig, &["StepResult", "Result"]))
    {
        let message = format_args!(
            "step `{}` has code of its own but is not async; expected an `async fn` that returns \
             `StepResult<Output>`, or a built-in step that returns `UploadMany` or `UploadOne`; make it async",
            sig.ident
        );
        report.add(Code::CustomStepNotAsync, &sig.ident, message);
    }
}

fn built_in_step_async(declaration: &Declaration, step: usize, report: &mut Report) {
    let sig = declaration.step_function(step);
    if let Some(asyncness) = sig.asyncness.filter(|_| returns_built_in(sig)) {
        let message = format_args!(
            "step `{}` is a built-in step and async; expected a plain `fn`: it only says what the engine is to do; \
             remove `async`",
            sig.ident
        );
        report.add(Code::BuiltInStepAsync, asyncness, message);
    }
}

fn not_a_step_result(declaration: &Declaration, step: usize, report: &mut Report) {
    let sig = declaration.step_function(step);
    if sig.asyncness.is_some() && returns(sig).is_none() {
        let message = format_args!(
            "step `{}` returns nothing; expected `StepResult<Output>`, for no output `StepResult<()>`; add it",
            sig.ident
        );
        report.add(Code::NotAStepResult, &sig.ident, message);
    }
}

fn unknown_when(declaration: &Declaration, step: usize, report: &mut Report) {
    let Some(name) = &declaration.steps[step].when else {
        return;
    };
    let found = declaration.function_named(name);
    if !found.is_some_and(|function| !declaration.is_step(function) && name != "respond") {
        let message = format_args!(
            "there is no condition `{name}` in this impl; expected a plain `fn {name}(..) -> bool` that is nothing \
             else; write it here, or correct the name"
        );
        report.add(Code::UnknownWhen, name, message);
    }
}

fn bad_fallback(declaration: &Declaration, step: usize, report: &mut Report) {
    let Some(name) = &declaration.steps[step].fallback else {
        return;
    };
    let found = declaration
        .fallback_of(step)
        .filter(|function| !declaration.is_step(*function) && name != "respond");
    let problem = match found.map(|function| &declaration.functions[function].sig) {
        None => "there is no such function in this impl that is nothing else",
        Some(sig) if sig.asyncness.is_none() => "it is not async",
        Some(sig) if returns(sig).is_none() => "it returns nothing",
        Some(_) => return,
    };
    let message = format_args!(
        "`{name}` cannot be a fallback: {problem}; expected an `async fn {name}(..) -> StepResult<Output>` with the \
         output of its step; write it here, or correct the name"
    );
    report.add(Code::BadFallback, name, message);
}

/// A wait runs no code, so there is nothing to try again and nothing that could take too long.
fn useless_on_wait(declaration: &Declaration, step: usize, report: &mut Report) {
    let (declared, sig) = (&declaration.steps[step], declaration.step_function(step));
    if sig.asyncness.is_some() || !returns_wait(sig) {
        return;
    }
    if returns_tasks(sig) {
        return useless_on_tasks(declaration, step, report);
    }
    let is_timer = returns_one_of(sig, &["Sleep"]);
    // Those of attempts are those of the fallback, where a wait can give up. No fallback asks a
    // breaker.
    let no_attempts = declared.fallback.is_none() || is_timer;
    let keys = [
        ("retry", declared.retry.is_some() && no_attempts),
        ("timeout", declared.timeout.is_some() && no_attempts),
        ("fallback", declared.fallback.is_some() && is_timer),
        ("breaker", declared.breaker.is_some()),
        ("limit", declared.limit.is_some()),
        ("when_cut_off", declared.when_cut_off.is_some()),
    ];
    for (key, _) in keys.into_iter().filter(|(_, is_useless)| *is_useless) {
        let message = format_args!(
            "step `{}` waits and runs no code, so `{key}` would never be used; expected it on steps that run; remove \
             it, and say how long it waits in the function",
            sig.ident
        );
        report.add(Code::UselessOnWait, &sig.ident, message);
    }
}

/// The tasks of a step are the step: they have retries and undos of their own, and what became of
/// them must be settled before the task goes on or ends.
fn useless_on_tasks(declaration: &Declaration, step: usize, report: &mut Report) {
    let (declared, sig) = (&declaration.steps[step], declaration.step_function(step));
    let keys = [
        ("retry", declared.retry.is_some()),
        ("timeout", declared.timeout.is_some()),
        ("breaker", declared.breaker.is_some()),
        ("limit", declared.limit.is_some()),
        ("when_cut_off", declared.when_cut_off.is_some()),
        ("fallback", declared.fallback.is_some()),
        ("undo", declaration.undo_of(step).is_some()),
        ("undo_retry", declared.undo_retry.is_some()),
        ("on_exhausted", declared.on_exhausted != "Compensate"),
    ];
    for (key, _) in keys.into_iter().filter(|(_, is_there)| *is_there) {
        let message = format_args!(
            "step `{}` submits tasks and waits for them, so it cannot have `{key}`; expected the key on the steps of \
             those tasks, which are retried and undone by themselves; remove it, and say how long they may take in \
             the function",
            sig.ident
        );
        report.add(Code::UselessOnTasks, &sig.ident, message);
    }
}

/// The engine carries a built-in step out itself.
fn needs_own_code(declaration: &Declaration, step: usize, report: &mut Report) {
    if declaration.is_custom(step) {
        return;
    }
    let (declared, sig) = (&declaration.steps[step], declaration.step_function(step));
    let keys = [
        ("heartbeat", declared.heartbeat.is_some()),
        ("scratch", declared.scratch.is_some()),
        ("isolate", declared.isolate.is_some()),
    ];
    for (key, _) in keys.into_iter().filter(|(_, is_there)| *is_there) {
        let message = format_args!(
            "step `{}` is built-in and has no code of its own, so it cannot have `{key}`; expected the key on an `async \
             fn`; remove it",
            sig.ident
        );
        report.add(Code::NeedsFunction, &sig.ident, message);
    }
}

/// Memory is counted by process.
fn memory_of_no_process(declaration: &Declaration, step: usize, report: &mut Report) {
    let declared = &declaration.steps[step];
    if let (Some((_, text)), None) = (&declared.memory, &declared.isolate) {
        let message = format_args!(
            "step `{}` has a bound on its memory, and shares its process with others; expected `isolate = \"process\"` \
             beside `memory`; add it, or remove the bound",
            declaration.step_name(step)
        );
        report.add(Code::MemoryOfNoProcess, text, message);
    }
}

fn unknown_probe(declaration: &Declaration, step: usize, report: &mut Report) {
    let Some(name) = &declaration.steps[step].probe else {
        return;
    };
    let found = declaration.function_named(name);
    if !found.is_some_and(|function| !declaration.is_step(function) && name != "respond") {
        let message = format_args!(
            "there is no probe `{name}` in this impl; expected an `async fn {name}(ctx: &StepContext, ..) -> \
             StepResult<Probe<Output>>` that is nothing else; write it here, or correct the name"
        );
        report.add(Code::UnknownProbe, name, message);
    }
}

fn useless_probe(declaration: &Declaration, step: usize, report: &mut Report) {
    let declared = &declaration.steps[step];
    let Some(name) = &declared.probe else { return };
    // A service may have done its work without anybody having seen the answer.
    let is_built_in =
        !declaration.is_custom(step) && !returns_call(declaration.step_function(step));
    if declared.pure.is_some() || is_built_in {
        let message = format_args!(
            "step `{}` is pure or built-in, so it is never in doubt what it has done; expected `probe` beside a step \
             with effects of its own; remove it",
            declaration.step_name(step)
        );
        report.add(Code::UselessProbe, name, message);
    }
}

fn no_probe(declaration: &Declaration, step: usize, report: &mut Report) {
    let declared = &declaration.steps[step];
    if declared.probe.is_some() {
        return;
    }
    let mut useless = |key: &str, tokens: &dyn ToTokens| {
        let message = format_args!(
            "step `{}` has no probe, so `{key}` would never be used; expected it beside `probe` only; remove it, or \
             declare the probe",
            declaration.step_name(step)
        );
        report.add(Code::NoProbe, tokens.to_token_stream(), message);
    };
    if let Some(policy) = &declared.probe_retry {
        useless("probe_retry", policy);
    }
    if let Some(choice) = &declared.on_probe_failure {
        useless("on_probe_failure", &choice.literal);
    }
}

fn probe_not_async(sig: &Signature, report: &mut Report) {
    if sig.asyncness.is_none() {
        let message = format_args!(
            "probe `{}` is not async; expected `async fn {}(ctx: &StepContext, ..) -> StepResult<Probe<Output>>`; make \
             it async",
            sig.ident, sig.ident
        );
        report.add(Code::BadProbe, &sig.ident, message);
    }
}

fn undo_not_async(sig: &Signature, report: &mut Report) {
    // What else a plain function returns, an alias of a call perhaps, is left to a bound.
    if sig.asyncness.is_none()
        && (returns(sig).is_none() || returns_one_of(sig, &["UndoResult", "Result"]))
    {
        let message = format_args!(
            "undo `{}` is not async; expected `async fn {}(ctx: &StepContext, out: Option<Output>, ..) -> UndoResult`; \
             make it async",
            sig.ident, sig.ident
        );
        report.add(Code::UndoNotAsync, &sig.ident, message);
    }
}

fn bad_condition(sig: &Signature, report: &mut Report) {
    let returns_bool = returns(sig).is_some_and(|ty| crate::text::as_written(ty) == "bool");
    if sig.asyncness.is_some() || !returns_bool {
        let message = format_args!(
            "condition `{}` is not a plain function that returns `bool`; expected `fn {}(..) -> bool`: it is judged \
             from the inputs alone; do in a step what it does beyond that",
            sig.ident, sig.ident
        );
        report.add(Code::BadCondition, &sig.ident, message);
    }
}

fn missing_respond(declaration: &Declaration, report: &mut Report) {
    if declaration.respond().is_none() {
        let message = "the declaration has no `respond`; expected `fn respond(..) -> Response`, which makes the \
                       response of the request and the outputs; add it";
        report.add(Code::MissingRespond, &declaration.item.self_ty, message);
    }
}

fn bad_respond(declaration: &Declaration, report: &mut Report) {
    let Some(respond) = declaration
        .respond()
        .filter(|respond| !declaration.is_step(*respond))
    else {
        return;
    };
    let sig = &declaration.functions[respond].sig;
    if sig.asyncness.is_some() {
        let message = "`respond` is async; expected a plain `fn respond(..) -> Response`: it only puts outputs together, \
                       and may do so again after a crash; do the rest in a step";
        report.add(Code::BadRespond, &sig.ident, message);
    }
}
