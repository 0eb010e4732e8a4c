//! Reads the impl block into a [`Declaration`] and takes our attributes and types out of it.
//! Reports what cannot be read; what can be read but makes no sense is for `check`.

use crate::args::{Args, Keys, integer, readable};
use crate::code::Code;
use crate::declaration::{Declaration, Flow, Function, Step, Task, UndoMark};
use crate::report::Report;
use crate::text::{kebab_case, last_segment};
use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::Parser;
use syn::{Attribute, Ident, ImplItem, ImplItemFn, ImplItemType, ItemImpl, Meta, Path, Type};

/// As `counterstep_contracts::ConcurrencyDecl` has it, which no macro can import.
const MOST_AT_ONCE: u32 = 1_000;

/// Reads attribute and item. `None`, with a diagnostic, for an item that is no plain inherent impl
/// block.
pub(crate) fn parse(
    attribute: TokenStream,
    item: &TokenStream,
    report: &mut Report,
) -> Option<Declaration> {
    let Ok(mut item) = syn::parse2::<ItemImpl>(item.clone()) else {
        // A broken body is the compiler's to report, better than we can: it sees the item beside
        // this.
        report.add(
            Code::NotAnInherentImpl,
            first(item),
            "`#[distributed_task]` stands on something that is no impl \
             block; expected `impl MyTask { .. }`",
        );
        return None;
    };
    let name = self_name(&item, report)?;
    let args = readable(syn::parse2::<Args>(attribute), report);
    let mut declaration = Declaration {
        task: task(args, &name, report),
        request: None,
        response: None,
        functions: Vec::new(),
        steps: Vec::new(),
        undo_marks: Vec::new(),
        item: ItemImpl {
            items: Vec::new(),
            ..item.clone()
        },
    };
    report_cfg(cfgs(&item.attrs), report);
    for member in std::mem::take(&mut item.items) {
        match member {
            ImplItem::Type(ty) => declaration.take_type(ty, report),
            ImplItem::Fn(mut function) => {
                declaration.take_function(&mut function, report);
                declaration.item.items.push(ImplItem::Fn(function));
            }
            other => declaration.item.items.push(other),
        }
    }
    declaration.steps.sort_by_key(|step| step.number);
    Some(declaration)
}

fn first(tokens: &TokenStream) -> TokenStream {
    tokens.clone().into_iter().take(1).collect()
}

/// The name of the type that the impl is for, where the impl is of the kind we can work with.
fn self_name(item: &ItemImpl, report: &mut Report) -> Option<Ident> {
    let expected = "expected `impl MyTask { .. }`";
    if let Some((_, path, _)) = &item.trait_ {
        let message =
            format_args!("the declaration is an impl of a trait; {expected}; remove the trait");
        report.add(Code::NotAnInherentImpl, path, message);
        return None;
    }
    if !item.generics.params.is_empty() {
        let message = format_args!(
            "a task type cannot be generic; {expected}; declare one task for each type"
        );
        report.add(Code::NotAnInherentImpl, &item.generics, message);
        return None;
    }
    let name = last_segment(&item.self_ty).map(|segment| segment.ident.clone());
    if name.is_none() {
        let message = format_args!("a task type has a name of its own; {expected}");
        report.add(Code::NotAnInherentImpl, &item.self_ty, message);
    }
    name
}

fn task(args: Args, type_name: &Ident, report: &mut Report) -> Task {
    let mut keys = Keys::new(args, report);
    let name = keys.text("name");
    let version = keys.number("version", 1).unwrap_or(1);
    let queue = keys.text("queue");
    let timeout = keys.duration("timeout");
    let lease = keys.duration("lease");
    let max_recoveries = keys.number("max_recoveries", 0).unwrap_or(3);
    let on_lost = keys.choice("on_lost", &[("requeue", "Requeue"), ("fail", "Fail")]);
    let cancellable = keys.flag("cancellable");
    let heavy = keys.flag("heavy");
    let on_undo_failure = keys.choice(
        "on_undo_failure",
        &[("stop", "Stop"), ("continue", "Continue")],
    );
    let auto_disable = keys.path("auto_disable");
    let labels = keys.labels("label");
    let flow = Flow {
        key: keys.expression("key"),
        at_once: keys.number_up_to("at_once", MOST_AT_ONCE),
        beyond: keys.choice(
            "beyond",
            &[
                ("wait", "Wait"),
                ("replace", "Replace"),
                ("refuse", "Refuse"),
            ],
        ),
        debounce: keys.duration_at("debounce"),
        priority: keys.choice(
            "priority",
            &[("high", "High"), ("normal", "Normal"), ("low", "Low")],
        ),
    };
    keys.finish("distributed_task");

    // Both become a part of a subject `work.{queue}.{type}.v{n}` and of a route, where dots and
    // blanks would split.
    for text in [&name, &queue].into_iter().flatten() {
        let value = text.value();
        if !is_name(&value) {
            let message = format_args!(
                "`{}` is no name; expected a letter, then letters, digits, `_` and `-`",
                value.escape_debug()
            );
            report.add(Code::BadName, text, message);
        }
    }
    if let Some(asked) = on_lost
        .as_ref()
        .filter(|asked| asked.variant == "Requeue" && max_recoveries == 0)
    {
        let message = "`on_lost = \"requeue\"` has the task run again, and `max_recoveries = 0` allows no run after a lost \
                       host; expected at least 1 recovery; raise `max_recoveries`, or say `on_lost = \"fail\"`";
        report.add(Code::NeverRequeued, &asked.literal, message);
    }
    let of_type = type_name.unraw().to_string();
    if name.is_none() && !is_name(&of_type) {
        let message = format_args!(
            "a task is named like its type, and `{of_type}` is no name; expected a letter of ASCII, then letters, digits, \
             `_` and `-`; rename the type, or say `name = \"..\"`"
        );
        report.add(Code::BadName, type_name, message);
    }
    let name = name.map_or(of_type, |name| name.value());
    Task {
        queue: queue.map_or_else(|| kebab_case(&name), |queue| queue.value()),
        name,
        version,
        timeout,
        lease,
        max_recoveries,
        on_lost: on_lost.map_or("Requeue", |choice| choice.variant),
        cancellable,
        heavy,
        on_undo_failure: on_undo_failure.map_or("Stop", |choice| choice.variant),
        auto_disable,
        labels,
        flow,
    }
}

fn is_name(text: &str) -> bool {
    let is_sign = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(is_sign)
}

impl Declaration {
    fn take_type(&mut self, item: ImplItemType, report: &mut Report) {
        report_cfg(cfgs(&item.attrs), report);
        let place: &mut Option<Type> = match item.ident.to_string().as_str() {
            "Request" => &mut self.request,
            "Response" => &mut self.response,
            other => {
                let message = format_args!(
                    "`type {other}` is no part of a declaration; expected `type Request` and `type Response` only; \
                     move it out of the impl"
                );
                report.add(Code::UnknownType, &item.ident, message);
                return;
            }
        };
        if place.is_some() {
            let message = format_args!(
                "`type {}` stands here twice; expected it once; remove one",
                item.ident
            );
            report.add(Code::NameTaken, &item.ident, message);
        }
        *place = Some(item.ty);
    }

    fn take_function(&mut self, function: &mut ImplItemFn, report: &mut Report) {
        let index = self.functions.len();
        let (ours, others) =
            std::mem::take(&mut function.attrs)
                .into_iter()
                .partition(|attribute: &Attribute| {
                    ["step", "pure", "undo"]
                        .iter()
                        .any(|name| attribute.path().is_ident(name))
                });
        function.attrs = others;
        let marks: Vec<Attribute> = ours;
        let mut step = None;
        let mut pure: Option<Path> = None;
        for mark in &marks {
            let twice = "this stands on one function twice; expected it once; remove one";
            if mark.path().is_ident("pure") {
                if pure.replace(mark.path().clone()).is_some() {
                    report.add(Code::StrayAttribute, mark, twice);
                }
            } else if mark.path().is_ident("undo") {
                self.undo_marks.extend(undo_mark(mark, index, report));
            } else if step.is_some() {
                report.add(Code::StrayAttribute, mark, twice);
            } else {
                step = Some(read_step(mark, index, report));
            }
        }
        match (&mut step, pure) {
            (Some(step), pure) => step.pure = pure,
            (None, Some(pure)) => report.add(
                Code::StrayAttribute,
                pure,
                "`#[pure]` stands on a function that is no step; expected it beside `#[step]`; remove it, or declare \
                 the step",
            ),
            (None, None) => {}
        }
        self.steps.extend(step);
        let cfg = cfgs(&function.attrs).next().cloned();
        self.functions.push(Function {
            sig: function.sig.clone(),
            cfg,
        });
    }
}

fn undo_mark(mark: &Attribute, function: usize, report: &mut Report) -> Option<UndoMark> {
    let step = mark.parse_args::<Ident>();
    if step.is_err() {
        let message =
            "`#[undo]` does not say which step it undoes; expected `#[undo(name_of_the_step)]`";
        report.add(Code::BadValue, mark, message);
    }
    step.ok().map(|step| UndoMark { step, function })
}

fn read_step(mark: &Attribute, function: usize, report: &mut Report) -> Step {
    let parsed = match &mark.meta {
        Meta::List(list) => Args::parse_tokens(list.tokens.clone()),
        Meta::Path(_) => Ok(Args::default()),
        Meta::NameValue(pair) => Err(syn::Error::new_spanned(pair, "no parentheses")),
    };
    let is_readable = parsed.is_ok();
    let mut keys = Keys::new(readable(parsed, report), report);
    let (position, has_host) = (keys.position(), keys.has("host"));
    let mentions_undo = !is_readable || keys.has("undo") || keys.has("no_undo");
    let step = Step {
        function,
        mentions_undo,
        number: 0,
        number_at: position.to_token_stream(),
        host: keys.choice("host", &[("api", "Api"), ("worker", "Worker")]),
        retry: keys.path("retry"),
        breaker: keys.path("breaker"),
        limit: keys.path("limit"),
        undo: keys.function("undo"),
        undo_retry: keys.path("undo_retry"),
        no_undo: keys.text("no_undo"),
        timeout: keys.duration("timeout"),
        heartbeat: keys.duration("heartbeat"),
        scratch: keys.bytes("scratch").map(|(bytes, _)| bytes),
        isolate: keys.choice("isolate", &[("process", "Process")]),
        memory: keys.bytes("memory"),
        group: keys.text("group"),
        heavy: keys.flag("heavy"),
        when_cut_off: keys.choice("when_cut_off", &[("stop", "Stop"), ("finish", "Finish")]),
        when: keys.function("when"),
        fallback: keys.function("fallback"),
        probe: keys.function("probe"),
        probe_retry: keys.path("probe_retry"),
        on_probe_failure: keys.choice(
            "on_probe_failure",
            &[("park", "Park"), ("run_again", "RunAgain")],
        ),
        on_exhausted: keys
            .choice(
                "on_exhausted",
                &[
                    ("compensate", "Compensate"),
                    ("fail", "Fail"),
                    ("dead_letter", "DeadLetter"),
                ],
            )
            .map_or("Compensate", |choice| choice.variant),
        pure: None,
    };
    keys.finish("step");
    if is_readable && !has_host {
        let message = "this step does not say where it runs; expected `host = \"api\"` or `host = \"worker\"`; add it";
        report.add(Code::MissingHost, mark.path(), message);
    }
    let number = position
        .as_ref()
        .and_then(integer)
        .and_then(|number| number.base10_parse::<i32>().ok());
    let number = number.filter(|number| *number > 0);
    if number.is_none() && is_readable {
        let message = "this step has no number that it can have; expected `#[step(1, ..)]`, from 1 on; give it one";
        match &position {
            Some(position) => report.add(Code::BadNumber, position, message),
            None => report.add(Code::BadNumber, mark.path(), message),
        }
    }
    Step {
        number: number.unwrap_or(0),
        ..step
    }
}

impl Args {
    fn parse_tokens(tokens: TokenStream) -> syn::Result<Self> {
        (<Self as syn::parse::Parse>::parse).parse2(tokens)
    }
}

/// The attributes that make an item come and go.
pub(crate) fn cfgs(attributes: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("cfg"))
}

/// Our attribute sees a declaration before `#[cfg]` is worked out, so both variants of a step would
/// be steps.
pub(crate) fn report_cfg<'a>(
    attributes: impl IntoIterator<Item = &'a Attribute>,
    report: &mut Report,
) {
    for attribute in attributes {
        let message = "a part of the declaration depends on `#[cfg]`, so it would differ between two hosts; expected \
                       one declaration for all builds; put `#[cfg]` inside the function, or above the \
                       `#[distributed_task]` of whole task types";
        report.add(Code::Cfg, attribute, message);
    }
}
