//! Sorts out the parameters of each function: the context, an undo's own output, and what is read
//! from where.

use crate::code::Code;
use crate::declaration::Declaration;
use crate::parse::{cfgs, report_cfg};
use crate::report::Report;
use crate::text::{as_written, first_argument, last_segment, ungrouped};
use syn::{FnArg, Ident, Pat, PatType, ReturnType, Signature, Type};

/// One parameter.
pub(crate) enum Param {
    /// `&StepContext`.
    Context,
    /// `Option<Out>` of an undo.
    OwnOutput(Type),
    /// `&State<T>` of what the program provides.
    State(Type),
    /// Anything that is read.
    Input(Input),
}

/// A parameter that reads the request or an output.
pub(crate) struct Input {
    pub(crate) name: Ident,
    /// `T` of `&T` or `Option<&T>`.
    pub(crate) ty: Type,
    pub(crate) optional: bool,
    pub(crate) source: Source,
}

/// Where an input comes from.
pub(crate) enum Source {
    /// This step, because the parameter is named like it.
    Step(usize),
    /// Whatever gives its type; the compiler finds out.
    ByType,
}

/// Who reads.
#[derive(Clone, Copy)]
pub(crate) enum Reader {
    Run(usize),
    Undo(usize),
    When(usize),
    Fallback(usize),
    Probe(usize),
    Respond,
}

/// The parameters of each function, by step.
pub(crate) struct Readings {
    pub(crate) runs: Vec<Vec<Param>>,
    pub(crate) undos: Vec<Option<Vec<Param>>>,
    pub(crate) whens: Vec<Option<Vec<Param>>>,
    pub(crate) fallbacks: Vec<Option<Vec<Param>>>,
    pub(crate) probes: Vec<Option<Vec<Param>>>,
    pub(crate) respond: Vec<Param>,
}

pub(super) fn check(declaration: &Declaration, report: &mut Report) -> Readings {
    let steps = 0..declaration.steps.len();
    let mut read = |reader, function: usize| {
        Reading {
            declaration,
            reader,
            report,
        }
        .params(function)
    };
    Readings {
        runs: steps
            .clone()
            .map(|step| read(Reader::Run(step), declaration.steps[step].function))
            .collect(),
        undos: steps
            .clone()
            .map(|step| {
                declaration
                    .undo_of(step)
                    .map(|undo| read(Reader::Undo(step), undo))
            })
            .collect(),
        whens: steps
            .clone()
            .map(|step| {
                declaration
                    .when_of(step)
                    .map(|when| read(Reader::When(step), when))
            })
            .collect(),
        fallbacks: steps
            .clone()
            .map(|step| {
                declaration
                    .fallback_of(step)
                    .map(|it| read(Reader::Fallback(step), it))
            })
            .collect(),
        probes: steps
            .map(|step| {
                declaration
                    .probe_of(step)
                    .map(|probe| read(Reader::Probe(step), probe))
            })
            .collect(),
        respond: declaration
            .respond()
            .map(|respond| read(Reader::Respond, respond))
            .unwrap_or_default(),
    }
}

impl Readings {
    /// Each reader with its parameters.
    pub(crate) fn by_reader(&self) -> Vec<(Reader, &[Param])> {
        fn of(
            list: &[Option<Vec<Param>>],
            reader: fn(usize) -> Reader,
        ) -> impl Iterator<Item = (Reader, &[Param])> {
            list.iter()
                .enumerate()
                .filter_map(move |(step, params)| Some((reader(step), params.as_deref()?)))
        }
        let runs = self
            .runs
            .iter()
            .enumerate()
            .map(|(step, params)| (Reader::Run(step), &params[..]));
        let others = of(&self.undos, Reader::Undo)
            .chain(of(&self.whens, Reader::When))
            .chain(of(&self.fallbacks, Reader::Fallback))
            .chain(of(&self.probes, Reader::Probe));
        runs.chain(others)
            .chain([(Reader::Respond, &self.respond[..])])
            .collect()
    }
}

impl Reader {
    /// Whether it may read a step.
    pub(crate) fn may_read(self, declaration: &Declaration, source: usize) -> bool {
        match self {
            Self::Run(step)
            | Self::Undo(step)
            | Self::When(step)
            | Self::Fallback(step)
            | Self::Probe(step) => declaration.is_earlier(source, step),
            Self::Respond => true,
        }
    }
}

/// The sorting of one function's parameters.
struct Reading<'a> {
    declaration: &'a Declaration,
    reader: Reader,
    report: &'a mut Report,
}

impl Reading<'_> {
    fn params(&mut self, function: usize) -> Vec<Param> {
        let declaration = self.declaration;
        let sig = &declaration.functions[function].sig;
        let mut params: Vec<Param> = Vec::new();
        for argument in &sig.inputs {
            // A receiver has a diagnostic of its own.
            let FnArg::Typed(parameter) = argument else {
                continue;
            };
            report_cfg(cfgs(&parameter.attrs), self.report);
            let Some(param) = self.param(parameter) else {
                continue;
            };
            if matches!(param, Param::OwnOutput(_))
                && params.iter().any(|p| matches!(p, Param::OwnOutput(_)))
            {
                self.bad(
                    &parameter.ty,
                    "an undo takes its step's output once; expected `&T` or `Option<&T>`",
                );
            }
            params.push(param);
        }
        params
    }

    fn param(&mut self, parameter: &PatType) -> Option<Param> {
        let Pat::Ident(pattern) = &*parameter.pat else {
            self.bad(
                &parameter.pat,
                "a parameter without a plain name; expected `name: &T`, the name may be a step's",
            );
            return None;
        };
        let name = pattern.ident.clone();
        match ungrouped(&parameter.ty) {
            Type::Reference(reference) if reference.mutability.is_none() => {
                if last_segment(&reference.elem)
                    .is_some_and(|segment| segment.ident == "StepContext")
                {
                    return self.context(&parameter.ty);
                }
                if let Some(state) = state_of(&reference.elem) {
                    return self.state(&parameter.ty, state);
                }
                Some(Param::Input(self.input(name, &reference.elem, false)))
            }
            ty if takes_state_otherwise(ty) => {
                self.wrong_state(ty, "state is always there and shared by all tasks");
                None
            }
            ty => match option_of(ty).map(ungrouped) {
                Some(Type::Reference(reference)) if reference.mutability.is_none() => {
                    Some(Param::Input(self.input(name, &reference.elem, true)))
                }
                Some(own)
                    if matches!(self.reader, Reader::Undo(_))
                        && !matches!(own, Type::Reference(_)) =>
                {
                    Some(Param::OwnOutput(own.clone()))
                }
                _ => {
                    let expected = match self.reader {
                        Reader::Undo(_) => {
                            "expected `&StepContext`, `Option<Output>` of its step, `&T` or `Option<&T>`"
                        }
                        _ => {
                            "expected `&StepContext`, `&T`, or `Option<&T>` for what a `when` may skip"
                        }
                    };
                    self.bad(
                        ty,
                        &format!("`{name}` is not something that can be read; {expected}"),
                    );
                    None
                }
            },
        }
    }

    fn context(&mut self, ty: &Type) -> Option<Param> {
        let (what, takes_context) = match self.reader {
            Reader::Run(step) => ("a built-in step", self.declaration.is_custom(step)),
            Reader::Undo(_) => ("an undo", true),
            Reader::Fallback(_) => ("a fallback", true),
            Reader::Probe(_) => ("a probe", true),
            Reader::When(_) => ("a condition", false),
            Reader::Respond => ("`respond`", false),
        };
        if !takes_context {
            self.bad(ty, &format!("{what} has no context, because it has no effects; expected `&T` or `Option<&T>`"));
        }
        Some(Param::Context)
    }

    fn state(&mut self, ty: &Type, state: &Type) -> Option<Param> {
        if matches!(self.reader, Reader::Respond) {
            self.wrong_state(
                ty,
                "`respond` only puts outputs together, and may do so again",
            );
            return None;
        }
        Some(Param::State(state.clone()))
    }

    fn wrong_state(&mut self, ty: &Type, why: &str) {
        let message = format_args!(
            "this parameter cannot take state: {why}; expected `&State<T>` in a step, undo, condition, fallback or \
             probe; change the parameter"
        );
        self.report.add(Code::WrongState, ty, message);
    }

    fn bad(&mut self, culprit: impl quote::ToTokens, what: &str) {
        self.report.add(
            Code::BadParameter,
            culprit,
            format_args!("{what}; change the parameter"),
        );
    }

    fn input(&mut self, name: Ident, ty: &Type, optional: bool) -> Input {
        let source = match self.declaration.step_named(&name) {
            Some(step) => {
                self.not_earlier_by_name(&name, step);
                self.presence(&name, step, optional);
                Source::Step(step)
            }
            None => {
                self.by_type(&name, ty);
                Source::ByType
            }
        };
        Input {
            name,
            ty: ty.clone(),
            optional,
            source,
        }
    }

    fn not_earlier_by_name(&mut self, name: &Ident, step: usize) {
        if self.reader.may_read(self.declaration, step) {
            return;
        }
        let hint = match self.reader {
            Reader::Undo(own) if own == step => {
                "an undo takes its own step's output as `Option<Output>`"
            }
            _ => {
                "number that step before this one and outside its group, or give the parameter another name"
            }
        };
        let message = format_args!(
            "parameter `{name}` reads step `{name}`, which does not run earlier; expected a step with a lower number, \
             outside the own group; {hint}"
        );
        self.report.add(Code::NotEarlier, name, message);
    }

    fn presence(&mut self, name: &Ident, step: usize, optional: bool) {
        let may_be_missing = self.declaration.steps[step].when.is_some();
        if may_be_missing && !optional {
            let message = format_args!(
                "step `{name}` has a `when`, so its output may be missing; expected `Option<&T>`; say what happens \
                 without it"
            );
            self.report.add(Code::NeedsOption, name, message);
        }
        if !may_be_missing && optional {
            let message = format_args!(
                "step `{name}` has no `when`, so its output is there; expected `&T`; take that"
            );
            self.report.add(Code::NeedlessOption, name, message);
        }
    }

    /// All that tokens tell about reading by type. Whether an earlier source gives the type at all
    /// is left to a bound: it may be written in another way there.
    fn by_type(&mut self, name: &Ident, ty: &Type) {
        let declaration = self.declaration;
        let request = declaration
            .request
            .as_ref()
            .filter(|request| as_written(request) == as_written(ty));
        let steps = (0..declaration.steps.len())
            .filter(|step| {
                self.reader.may_read(declaration, *step)
                    && gives(declaration.step_function(*step), ty)
            })
            .map(|step| format!("step `{}`", declaration.step_name(step)));
        let sources: Vec<_> = request
            .map(|_| "the request".to_owned())
            .into_iter()
            .chain(steps)
            .collect();
        if sources.len() > 1 {
            let message = format_args!(
                "`{name}` goes by its type, and {} give a `{}`; expected one source of this type; name the parameter \
                 like the step that it reads",
                sources.join(" and "),
                as_written(ty)
            );
            self.report.add(Code::AmbiguousInput, ty, message);
        }
    }
}

/// `T` of `State<T>`. A type of the author's that is called `State` has no argument.
fn state_of(ty: &Type) -> Option<&Type> {
    last_segment(ty)
        .filter(|segment| segment.ident == "State")
        .and_then(first_argument)
}

/// Whether a type that is no `&T` is about state: `State<T>`, `&mut State<T>` or an `Option` of it.
fn takes_state_otherwise(ty: &Type) -> bool {
    let ty = option_of(ty).unwrap_or(ty);
    let ty = match ungrouped(ty) {
        Type::Reference(reference) => &reference.elem,
        ty => ty,
    };
    state_of(ty).is_some()
}

fn option_of(ty: &Type) -> Option<&Type> {
    last_segment(ty)
        .filter(|segment| segment.ident == "Option")
        .and_then(first_argument)
}

/// What a step gives, as far as its tokens show.
pub(crate) fn written_output(sig: &Signature) -> Option<&Type> {
    let ReturnType::Type(_, ty) = &sig.output else {
        return None;
    };
    last_segment(ty).and_then(first_argument)
}

fn gives(sig: &Signature, ty: &Type) -> bool {
    if sig.asyncness.is_some() {
        return written_output(sig).is_some_and(|output| as_written(output) == as_written(ty));
    }
    let ReturnType::Type(_, built_in) = &sig.output else {
        return false;
    };
    let Some(segment) = last_segment(built_in) else {
        return false;
    };
    let named = |output: &str| last_segment(ty).is_some_and(|segment| segment.ident == output);
    let body = || first_argument(segment).map(as_written);
    match segment.ident.to_string().as_str() {
        "UploadMany" => named("StoredFiles"),
        "UploadOne" => named("StoredFile"),
        "Sleep" => named("Slept"),
        "AwaitSignal" | "HttpCall" => body().is_some_and(|body| body == as_written(ty)),
        "MaybeSignal" => {
            body().is_some_and(|body| option_of(ty).is_some_and(|inner| body == as_written(inner)))
        }
        _ => false,
    }
}
