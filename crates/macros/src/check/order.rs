//! Checks what stands next to what: numbers, names, groups.

use crate::code::Code;
use crate::declaration::Declaration;
use crate::report::Report;
use syn::LitStr;
use syn::ext::IdentExt;

pub(super) fn check(declaration: &Declaration, report: &mut Report) {
    number_taken(declaration, report);
    name_taken(declaration, report);
    reserved_name(declaration, report);
    group_over_two_hosts(declaration, report);
    group_not_contiguous(declaration, report);
}

fn number_taken(declaration: &Declaration, report: &mut Report) {
    for pair in declaration
        .steps
        .windows(2)
        .filter(|pair| pair[0].number == pair[1].number && pair[0].number > 0)
    {
        let (first, number) = (
            &declaration.functions[pair[0].function].sig.ident,
            pair[0].number,
        );
        let message = format_args!(
            "number {number} is taken by step `{first}`; expected another number for each step; choose a free one"
        );
        report.add(Code::NumberTaken, &pair[1].number_at, message);
    }
}

/// The compiler reports two functions of one name too, but not that a step's rows are keyed by it.
fn name_taken(declaration: &Declaration, report: &mut Report) {
    for (at, function) in declaration.functions.iter().enumerate() {
        // `r#a` and `a` are one name: what is stored is without the mark.
        let name = &function.sig.ident;
        let earlier = declaration.functions[..at]
            .iter()
            .position(|other| other.sig.ident.unraw() == name.unraw());
        if earlier.is_some_and(|earlier| declaration.is_step(earlier) || declaration.is_step(at)) {
            let message = format_args!(
                "there are two functions `{name}`; expected another name for each, a step's rows are keyed by it; \
                 rename one"
            );
            report.add(Code::NameTaken, name, message);
        }
    }
}

fn reserved_name(declaration: &Declaration, report: &mut Report) {
    for step in 0..declaration.steps.len() {
        let at = declaration.step_name(step);
        let name = at.unraw();
        if name == "request" || name == "respond" {
            let message = format_args!(
                "a step cannot be named `{name}`: `request` is what the client sent and `respond` makes the response; \
                 expected another name; rename the step"
            );
            report.add(Code::ReservedName, at, message);
        }
    }
}

fn group_over_two_hosts(declaration: &Declaration, report: &mut Report) {
    for (at, step) in declaration.steps.iter().enumerate() {
        let (Some(group), Some(host)) = (&step.group, &step.host) else {
            continue;
        };
        let first = declaration.steps[..at]
            .iter()
            .find(|other| is_in(group, other.group.as_ref()));
        let Some(first_host) = first.and_then(|first| first.host.as_ref()) else {
            continue;
        };
        if host.variant != first_host.variant {
            let message = format_args!(
                "group `{}` runs on host `{}`; expected all of its steps on one host, because they run side by side; \
                 move this step, or take it out of the group",
                group.value(),
                first_host.literal.value()
            );
            report.add(Code::GroupOverTwoHosts, &host.literal, message);
        }
    }
}

fn group_not_contiguous(declaration: &Declaration, report: &mut Report) {
    for (at, step) in declaration.steps.iter().enumerate().skip(1) {
        let Some(group) = &step.group else { continue };
        let before = &declaration.steps[at - 1];
        let started = declaration.steps[..at]
            .iter()
            .any(|other| is_in(group, other.group.as_ref()));
        if started && !is_in(group, before.group.as_ref()) {
            let message = format_args!(
                "step `{}` stands between this one and the rest of group `{}`; expected the steps of a group next to \
                 each other; renumber them",
                declaration.step_name(at - 1),
                group.value()
            );
            report.add(Code::GroupNotContiguous, group, message);
        }
    }
}

fn is_in(group: &LitStr, other: Option<&LitStr>) -> bool {
    other.is_some_and(|other| other.value() == group.value())
}
