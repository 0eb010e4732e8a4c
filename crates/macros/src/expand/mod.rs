//! Writes a checked declaration down: the impl block as it came, and beside it one `const` block
//! with data, wrappers and trait impls. Decides nothing.

mod reads;
mod table;
mod wrappers;

use crate::check::{Readings, result_argument};
use crate::declaration::{Declaration, Step};
use crate::report::Report;
use crate::root::Root;
use crate::text::without_self;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{ReturnType, Signature};

/// The expansion; with diagnostics, what keeps the compiler and the editor going beside them.
pub(crate) fn expand(
    declaration: &Declaration,
    readings: &Readings,
    report: &Report,
) -> TokenStream {
    let (item, expansion) = (
        &declaration.item,
        Expansion {
            declaration,
            readings,
            root: Root::find(),
        },
    );
    if report.is_empty() {
        let block = expansion.block();
        // A parameter that reads a list takes `&Vec<T>`: it is the type that its step gives.
        return quote!(#[allow(clippy::ptr_arg)] #item #block);
    }
    let (errors, stub) = (report.to_compile_errors(), expansion.stub());
    // Without its table nothing calls a step: "never used" would drown what is really wrong.
    quote!(#errors #[allow(unused)] #item #stub)
}

/// What all parts of the expansion look at.
struct Expansion<'a> {
    declaration: &'a Declaration,
    readings: &'a Readings,
    root: Root,
}

impl Expansion<'_> {
    fn block(&self) -> TokenStream {
        let (markers, reads) = (self.markers(), self.reads());
        let (wrappers, table) = (self.wrappers(), self.table());
        quote!(const _: () = { #markers #reads #wrappers #table };)
    }

    /// Enough of the trait that uses of the task type do not become errors of their own.
    fn stub(&self) -> TokenStream {
        let (root, task) = (self.root.path(), &self.declaration.item.self_ty);
        let (request, response) = (self.request(), self.response());
        let named = |step: &'_ Step| {
            [
                step.retry.clone(),
                step.undo_retry.clone(),
                step.probe_retry.clone(),
                step.breaker.clone(),
                step.limit.clone(),
            ]
        };
        let policies = self.declaration.steps.iter().flat_map(named).flatten();
        let policies = policies.chain(self.declaration.task.auto_disable.clone());
        let policies = policies.map(|path| self.outside(&path));
        quote! {
            const _: () = {
                #[automatically_derived]
                impl #root::DistributedTask for #task {
                    type Request = #request;
                    type Response = #response;
                    const NAME: &'static str = "";
                    fn task_type() -> #root::TaskType {
                        // So that what only the attributes name is not called unused.
                        #(let _ = #policies;)*
                        ::core::panic!("the declaration has errors")
                    }
                }
            };
        }
    }

    fn request(&self) -> TokenStream {
        self.declaration
            .request
            .as_ref()
            .map_or_else(|| quote!(()), |ty| self.outside(ty))
    }

    fn response(&self) -> TokenStream {
        self.declaration
            .response
            .as_ref()
            .map_or_else(|| quote!(()), |ty| self.outside(ty))
    }

    /// A type of the impl as it is written outside of it.
    fn outside(&self, ty: impl ToTokens) -> TokenStream {
        without_self(ty, &self.declaration.item.self_ty)
    }

    /// What a step's function returns.
    fn returned(&self, step: usize) -> TokenStream {
        match &self.declaration.step_function(step).output {
            ReturnType::Type(_, ty) => self.outside(ty),
            ReturnType::Default => quote!(()),
        }
    }

    /// The type of a step's output.
    fn output_type(&self, step: usize) -> TokenStream {
        let sig = self.declaration.step_function(step);
        if self.declaration.is_custom(step) {
            return self.result_output(sig);
        }
        let (span, returned) = (written_span(sig), self.returned(step));
        let root = self.root.at(span);
        quote_spanned!(span=> <#returned as #root::BuiltInStep>::Output)
    }

    /// The output in what an async function returns: as it is written there, or by way of the type,
    /// which may be an alias.
    // Each use of the way is reported once more where the type is no `StepResult`, unless it is
    // spanned like the call: the compiler drops reports that are the same.
    fn result_output(&self, sig: &Signature) -> TokenStream {
        if let Some(output) = result_argument(sig) {
            return self.outside(output);
        }
        let (span, returned) = (written_span(sig), self.written_return(sig));
        let root = self.root.at(span);
        quote_spanned!(span=> <#returned as #root::declare::StepReturn>::Output)
    }

    /// Where a step's function says what it returns.
    fn returned_span(&self, step: usize) -> Span {
        returned_span(self.declaration.step_function(step))
    }

    /// The marker of a step. In a module, so that it hides no type of the author's.
    fn marker(&self, step: usize) -> TokenStream {
        let name = generated(self.declaration.step_name(step));
        quote!(__counterstep_sources::#name)
    }

    /// No more visible than the author's types may be: an associated type must not be more private
    /// than its marker.
    fn markers(&self) -> TokenStream {
        let steps = (0..self.declaration.steps.len())
            .map(|step| generated(self.declaration.step_name(step)));
        quote! {
            #[allow(non_camel_case_types, dead_code)]
            mod __counterstep_sources {
                pub(super) struct request;
                #(pub(super) struct #steps;)*
            }
        }
    }
}

/// What a function returns, as a place of the author's own code.
fn written_span(sig: &Signature) -> Span {
    match &sig.output {
        ReturnType::Type(_, ty) => ty.span(),
        ReturnType::Default => sig.ident.span(),
    }
}

/// Where a function says what it returns.
fn returned_span(sig: &Signature) -> Span {
    let span = written_span(sig);
    span.resolved_at(Span::mixed_site())
}

/// A name of the author's, as that of something generated.
fn generated(name: &Ident) -> Ident {
    let mut name = name.clone();
    name.set_span(Span::mixed_site());
    name
}

/// The name of the constant that says how a custom step's output is stored.
fn output_name(step: usize) -> Ident {
    format_ident!("__COUNTERSTEP_OUTPUT_{step}", span = Span::mixed_site())
}

/// The name of something generated for a step.
fn numbered(what: &str, step: usize) -> Ident {
    format_ident!("__counterstep_{what}_{step}", span = Span::mixed_site())
}

/// The name of the constant that says where a parameter reads.
fn source_name(what: &str, step: usize, parameter: usize) -> Ident {
    format_ident!(
        "__COUNTERSTEP_{}_{step}_{parameter}",
        what.to_uppercase(),
        span = Span::mixed_site()
    )
}
