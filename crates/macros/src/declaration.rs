//! A declaration as read: what parse fills, check judges and expand writes down. Data only.

use proc_macro2::{Span, TokenStream};
use syn::{Attribute, Expr, Ident, ItemImpl, LitStr, Path, Signature, Type};

/// A whole declaration.
pub(crate) struct Declaration {
    /// The impl block without our attributes and types: given back to the compiler as it is.
    pub(crate) item: ItemImpl,
    /// What the attribute on the block says.
    pub(crate) task: Task,
    /// `type Request`.
    pub(crate) request: Option<Type>,
    /// `type Response`.
    pub(crate) response: Option<Type>,
    /// Every function of the block.
    pub(crate) functions: Vec<Function>,
    /// The steps, in ascending order of their numbers.
    pub(crate) steps: Vec<Step>,
    /// `#[undo(step)]` marks.
    pub(crate) undo_marks: Vec<UndoMark>,
}

/// A function of the impl block.
pub(crate) struct Function {
    pub(crate) sig: Signature,
    /// What makes it come and go, if anything.
    pub(crate) cfg: Option<Attribute>,
}

/// The keys of `#[distributed_task]`, with their defaults.
pub(crate) struct Task {
    pub(crate) name: String,
    pub(crate) version: u32,
    pub(crate) queue: String,
    pub(crate) timeout: Option<u64>,
    pub(crate) lease: Option<u64>,
    pub(crate) max_recoveries: u32,
    /// A variant of `OnLost`.
    pub(crate) on_lost: &'static str,
    pub(crate) cancellable: bool,
    /// Each step with code of the author is.
    pub(crate) heavy: bool,
    /// A variant of `OnUndoFailure`.
    pub(crate) on_undo_failure: &'static str,
    pub(crate) auto_disable: Option<Path>,
    pub(crate) labels: Vec<Label>,
    pub(crate) flow: Flow,
}

/// How the tasks share what there is.
pub(crate) struct Flow {
    /// What is made of the request, as `req`.
    pub(crate) key: Option<(LitStr, Expr)>,
    /// Tasks of a key at a time, and where that stands.
    pub(crate) at_once: Option<(u32, Span)>,
    /// A variant of `Beyond`.
    pub(crate) beyond: Option<Choice>,
    /// A variant of `Priority`.
    pub(crate) priority: Option<Choice>,
    /// Milliseconds without another submission of the key, and where that stands.
    pub(crate) debounce: Option<(u64, Span)>,
}

/// A label that is made of the request.
pub(crate) struct Label {
    pub(crate) name: String,
    pub(crate) name_at: TokenStream,
    /// With the request as `req`.
    pub(crate) value: Expr,
    pub(crate) value_at: Span,
}

/// A function with `#[step]`.
pub(crate) struct Step {
    /// Index into the functions.
    pub(crate) function: usize,
    /// Its number, and where that stands. 0 where it is missing or impossible.
    pub(crate) number: i32,
    pub(crate) number_at: TokenStream,
    pub(crate) host: Option<Choice>,
    pub(crate) retry: Option<Path>,
    pub(crate) breaker: Option<Path>,
    pub(crate) limit: Option<Path>,
    pub(crate) undo: Option<Ident>,
    pub(crate) undo_retry: Option<Path>,
    /// Whether the attribute says something of an undo, however wrong, or cannot be read at all.
    pub(crate) mentions_undo: bool,
    pub(crate) no_undo: Option<LitStr>,
    /// Milliseconds.
    pub(crate) timeout: Option<u64>,
    /// Milliseconds.
    pub(crate) heartbeat: Option<u64>,
    /// Bytes.
    pub(crate) scratch: Option<u64>,
    /// `isolate = "process"`.
    pub(crate) isolate: Option<Choice>,
    /// Bytes, and where they stand.
    pub(crate) memory: Option<(u64, LitStr)>,
    pub(crate) group: Option<LitStr>,
    pub(crate) heavy: bool,
    /// A variant of `WhenCutOff`.
    pub(crate) when_cut_off: Option<Choice>,
    pub(crate) when: Option<Ident>,
    pub(crate) fallback: Option<Ident>,
    pub(crate) probe: Option<Ident>,
    pub(crate) probe_retry: Option<Path>,
    /// A variant of `OnProbeFailure`.
    pub(crate) on_probe_failure: Option<Choice>,
    /// A variant of `OnExhausted`.
    pub(crate) on_exhausted: &'static str,
    /// `#[pure]`.
    pub(crate) pure: Option<Path>,
}

/// A text out of a fixed list.
pub(crate) struct Choice {
    /// The variant that it stands for.
    pub(crate) variant: &'static str,
    /// As written in the source.
    pub(crate) literal: LitStr,
}

/// `#[undo(step)]` on a function.
pub(crate) struct UndoMark {
    /// The step as written.
    pub(crate) step: Ident,
    /// Index into the functions.
    pub(crate) function: usize,
}

impl Declaration {
    /// The function of a step.
    pub(crate) fn step_function(&self, step: usize) -> &Signature {
        &self.functions[self.steps[step].function].sig
    }

    /// The name of a step.
    pub(crate) fn step_name(&self, step: usize) -> &Ident {
        &self.step_function(step).ident
    }

    /// Whether the author wrote the step's code; else the engine did.
    pub(crate) fn is_custom(&self, step: usize) -> bool {
        self.step_function(step).asyncness.is_some()
    }

    /// The step of this name.
    pub(crate) fn step_named(&self, name: &Ident) -> Option<usize> {
        (0..self.steps.len()).find(|step| self.step_name(*step) == name)
    }

    /// The function of this name.
    pub(crate) fn function_named(&self, name: &Ident) -> Option<usize> {
        self.functions
            .iter()
            .position(|function| function.sig.ident == *name)
    }

    /// Whether a function is a step.
    pub(crate) fn is_step(&self, function: usize) -> bool {
        self.steps.iter().any(|step| step.function == function)
    }

    /// The `respond` function.
    pub(crate) fn respond(&self) -> Option<usize> {
        self.functions
            .iter()
            .position(|function| function.sig.ident == "respond")
    }

    /// The function that undoes a step, where the author wrote one.
    pub(crate) fn undo_of(&self, step: usize) -> Option<usize> {
        let named = self.steps[step]
            .undo
            .as_ref()
            .and_then(|name| self.function_named(name));
        let marked = || {
            self.undo_marks
                .iter()
                .find(|mark| mark.step == *self.step_name(step))
        };
        named.or_else(|| marked().map(|mark| mark.function))
    }

    /// The condition of a step.
    pub(crate) fn when_of(&self, step: usize) -> Option<usize> {
        self.steps[step]
            .when
            .as_ref()
            .and_then(|name| self.function_named(name))
    }

    /// What runs in place of a step that gave up.
    pub(crate) fn fallback_of(&self, step: usize) -> Option<usize> {
        self.steps[step]
            .fallback
            .as_ref()
            .and_then(|name| self.function_named(name))
    }

    /// The probe of a step.
    pub(crate) fn probe_of(&self, step: usize) -> Option<usize> {
        self.steps[step]
            .probe
            .as_ref()
            .and_then(|name| self.function_named(name))
    }

    /// Whether a step may be read by another: a lower number, and not side by side with it.
    pub(crate) fn is_earlier(&self, step: usize, than: usize) -> bool {
        let group = |step: usize| self.steps[step].group.as_ref().map(LitStr::value);
        self.steps[step].number < self.steps[than].number
            && (group(step).is_none() || group(step) != group(than))
    }
}
