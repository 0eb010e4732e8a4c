//! Checks how tasks share what there is: which keys need which.

use crate::code::Code;
use crate::declaration::Declaration;
use crate::report::Report;

pub(super) fn check(declaration: &Declaration, report: &mut Report) {
    let flow = &declaration.task.flow;
    if flow.at_once.is_none() {
        let useless = "expected `at_once = NUMBER` beside it; add that, or remove this";
        if let Some((key, _)) = &flow.key {
            let message = format_args!("`key` tells apart tasks that nothing counts; {useless}");
            report.add(Code::UselessFlowKey, key, message);
        }
        if let Some(beyond) = &flow.beyond {
            let message =
                format_args!("`beyond` says what follows on a number that is not there; {useless}");
            report.add(Code::UselessFlowKey, &beyond.literal, message);
        }
        if let Some((_, at)) = flow.debounce {
            let message =
                format_args!("`debounce` delays the start of tasks that nothing counts; {useless}");
            report.add_at(Code::UselessFlowKey, at, message);
        }
        return;
    }
    debounce(declaration, report);
    let Some(replace) = flow.beyond.as_ref().filter(|it| it.variant == "Replace") else {
        return;
    };
    if flow.key.is_none() {
        let message = "`beyond = \"replace\"` without a key would cancel tasks of other tenants; expected \
                       `key = \"expression\"` beside it, as `key = \"req.customer\"`; add it";
        report.add(Code::UselessFlowKey, &replace.literal, message);
    }
    if !declaration.task.cancellable {
        let message = "`beyond = \"replace\"` cancels the older tasks, and tasks of this type cannot be cancelled; expected \
                       `cancellable` beside it; add it, or say `\"wait\"` or `\"refuse\"`";
        report.add(Code::ReplacesUncancellable, &replace.literal, message);
    }
}

fn debounce(declaration: &Declaration, report: &mut Report) {
    let flow = &declaration.task.flow;
    let Some((_, at)) = flow.debounce else {
        return;
    };
    if flow.key.is_none() {
        let message = "`debounce` without a key would replace tasks of other tenants; expected \
                       `key = \"expression\"` beside it, as `key = \"req.customer\"`; add it";
        report.add_at(Code::UselessFlowKey, at, message);
    }
    if flow
        .beyond
        .as_ref()
        .is_some_and(|it| it.variant == "Refuse")
    {
        let message = "`debounce` never replaces a task where a second one is refused; expected `beyond = \"wait\"` or \
                       `beyond = \"replace\"` beside it; say one of them, or remove `debounce`";
        report.add_at(Code::UselessFlowKey, at, message);
    }
    if !declaration.task.cancellable {
        let message = "`debounce` cancels the older tasks that have not started, and tasks of this type cannot be cancelled; \
                       expected `cancellable` beside it; add it, or remove `debounce`";
        report.add_at(Code::ReplacesUncancellable, at, message);
    }
}
