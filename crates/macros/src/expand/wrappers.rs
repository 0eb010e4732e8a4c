//! A function for each of the author's, with the signature that the engine calls: it reads the
//! inputs, calls, and turns what comes back into what is stored.

use super::reads::{inputs, reader_name};
use super::{Expansion, numbered, output_name, returned_span, source_name, written_span};
use crate::check::{Param, Reader, result_argument, written_output};
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Ident, ReturnType, Signature};

impl Expansion<'_> {
    pub(super) fn wrappers(&self) -> TokenStream {
        let steps = (0..self.declaration.steps.len()).map(|step| {
            let run = if self.declaration.is_custom(step) {
                self.custom(step)
            } else {
                self.built_in(step)
            };
            let (undo, when) = (self.undo(step), self.when(step));
            let (fallback, probe) = (self.fallback(step), self.probe(step));
            quote!(#run #undo #when #fallback #probe)
        });
        let (respond, labels, key) = (self.respond(), self.labels(), self.key());
        quote!(#(#steps)* #respond #labels #key)
    }

    fn custom(&self, step: usize) -> TokenStream {
        let (sig, params) = (
            self.declaration.step_function(step),
            &self.readings.runs[step],
        );
        self.async_code(
            Reader::Run(step),
            sig,
            params,
            &self.returned(step),
            self.returned_span(step),
        )
    }

    fn fallback(&self, step: usize) -> TokenStream {
        let (Some(function), Some(params)) = (
            self.declaration.fallback_of(step),
            &self.readings.fallbacks[step],
        ) else {
            return TokenStream::new();
        };
        let sig = &self.declaration.functions[function].sig;
        let returned = self.written_return(sig);
        let span = returned_span(sig);
        let (root, marker) = (self.root.at(span), self.marker(step));
        let output = self.result_output(sig);
        let check =
            quote_spanned!(span=> const _: () = #root::declare::falls_back::<#output, #marker>(););
        let code = self.async_code(Reader::Fallback(step), sig, params, &returned, span);
        quote!(#check #code)
    }

    /// The function that the engine calls for an async function of the author's that returns
    /// `StepResult<Output>`.
    fn async_code(
        &self,
        reader: Reader,
        sig: &Signature,
        params: &[Param],
        returned: &TokenStream,
        span: Span,
    ) -> TokenStream {
        let (what, step) = reader_name(reader);
        let (name, root) = (numbered(what, step), self.root.path());
        let (reads, call) = self.call(reader, sig, params);
        // One call points at the returned type and one at the output in it: whichever is wrong is
        // what one sees.
        let output = written_output(sig).map_or(span, Spanned::span);
        let value = Ident::new("output", output.resolved_at(Span::mixed_site()));
        let inputs = quote!(inputs);
        let body = if let Some(argument) = result_argument(sig) {
            let (at_returned, argument) = (self.root.at(span), self.outside(argument));
            let result =
                quote_spanned!(span=> #at_returned::declare::step_result::<#returned, #argument>);
            let (at_output, span) = (self.root.at(output), value.span());
            let stored = match reader {
                // By the constant, whose bound is the only one on the type: another one would
                // report once more what cannot be stored.
                Reader::Run(step) => {
                    let output = output_name(step);
                    quote_spanned!(span=> (#output.stored)(&#value, #inputs))
                }
                _ => quote_spanned!(span=> #at_output::declare::stored(&#value, #inputs)),
            };
            quote!(#reads let #value = #result(#call.await)?; #stored)
        } else {
            // Spanned like the other uses of the type, see `result_output`.
            let span = written_span(sig);
            let at_returned = self.root.written_at(span);
            quote_spanned! {span=>
                #reads
                let #value = <#returned as #at_returned::declare::StepReturn>::into_result(#call.await)?;
                #at_returned::declare::stored(&#value, #inputs)
            }
        };
        let future = boxed(&sig.ident, &body);
        quote! {
            fn #name<'a>(
                ctx: &'a #root::StepContext,
                inputs: &'a #root::Inputs,
            ) -> #root::declare::BoxFuture<'a, #root::StepResult<#root::declare::Value>> {
                let _ = (ctx, inputs);
                #future
            }
        }
    }

    fn built_in(&self, step: usize) -> TokenStream {
        let (name, root, returned) = (numbered("run", step), self.root.path(), self.returned(step));
        let sig = self.declaration.step_function(step);
        let (reads, call) = self.call(Reader::Run(step), sig, &self.readings.runs[step]);
        let (span, at_returned) = (
            self.returned_span(step),
            self.root.at(self.returned_span(step)),
        );
        // Spanned like the type's uses in the table: the compiler drops reports that are the same.
        let written = written_span(sig);
        let of_step = quote_spanned!(written=> <#returned as #at_returned::BuiltInStep>);
        let upload = quote_spanned!(written=> #of_step::into_work);
        let says = self.declaration.undo_of(step).is_some()
            || self.declaration.steps[step].no_undo.is_some();
        let is_undone = quote_spanned!(written=> #of_step::UNDONE_BY_THE_ENGINE);
        let check = quote_spanned!(span=> const _: () = #at_returned::declare::undone_by_the_engine(#is_undone););
        let check = (!says).then_some(check);
        quote! {
            #check
            fn #name(inputs: &#root::Inputs) -> #root::StepResult<#root::Work> {
                let _ = inputs;
                #reads
                ::core::result::Result::Ok(#upload(#call))
            }
        }
    }

    fn undo(&self, step: usize) -> TokenStream {
        let (Some(function), Some(params)) =
            (self.declaration.undo_of(step), &self.readings.undos[step])
        else {
            return TokenStream::new();
        };
        let (name, root, marker) = (numbered("undo", step), self.root.path(), self.marker(step));
        let sig = &self.declaration.functions[function].sig;
        let (reads, call) = self.call(Reader::Undo(step), sig, params);
        let step_name = self.declaration.step_name(step).unraw().to_string();
        let own = params.iter().find_map(|param| match param {
            Param::OwnOutput(ty) => Some(self.outside(ty)),
            Param::Context | Param::State(_) | Param::Input(_) => None,
        });
        let own_check = own
            .as_ref()
            .map(|ty| quote!(const _: () = #root::declare::undoes::<#ty, #marker>();));
        let own =
            own.map(|ty| quote!(let own = #root::declare::undone_output::<#ty>(#step_name, own)?;));
        let returned = self.written_return(sig);
        let body = if sig.asyncness.is_some() {
            quote!(#own #reads #root::declare::undo_result::<#returned>(#call.await))
        } else {
            quote!(#own #reads #root::declare::undo_call::<#returned>(#call, ctx).await)
        };
        let future = boxed(&sig.ident, &body);
        quote! {
            #own_check
            fn #name<'a>(
                ctx: &'a #root::StepContext,
                own: ::core::option::Option<#root::declare::Value>,
                inputs: &'a #root::Inputs,
            ) -> #root::declare::BoxFuture<'a, #root::UndoResult> {
                let _ = (ctx, &own, inputs);
                #future
            }
        }
    }

    fn when(&self, step: usize) -> TokenStream {
        let (Some(function), Some(params)) =
            (self.declaration.when_of(step), &self.readings.whens[step])
        else {
            return TokenStream::new();
        };
        let (name, root) = (numbered("when", step), self.root.path());
        let (reads, call) = self.call(
            Reader::When(step),
            &self.declaration.functions[function].sig,
            params,
        );
        quote! {
            fn #name(inputs: &#root::Inputs) -> #root::StepResult<::core::primitive::bool> {
                let _ = inputs;
                #reads
                ::core::result::Result::Ok(#call)
            }
        }
    }

    fn probe(&self, step: usize) -> TokenStream {
        let (Some(function), Some(params)) =
            (self.declaration.probe_of(step), &self.readings.probes[step])
        else {
            return TokenStream::new();
        };
        let (name, root, marker) = (numbered("probe", step), self.root.path(), self.marker(step));
        let sig = &self.declaration.functions[function].sig;
        let (reads, call) = self.call(Reader::Probe(step), sig, params);
        let returned = self.written_return(sig);
        let body = quote!(#reads #root::declare::probed::<#returned, #marker>(#call.await));
        let future = boxed(&sig.ident, &body);
        quote! {
            fn #name<'a>(
                ctx: &'a #root::StepContext,
                inputs: &'a #root::Inputs,
            ) -> #root::declare::BoxFuture<'a, #root::StepResult<#root::Probe<#root::declare::Value>>> {
                let _ = (ctx, inputs);
                #future
            }
        }
    }

    fn respond(&self) -> TokenStream {
        let Some(function) = self.declaration.respond() else {
            return TokenStream::new();
        };
        let sig = &self.declaration.functions[function].sig;
        let (root, response) = (self.root.path(), self.response());
        let (returned, name) = (self.written_return(sig), numbered("respond", 0));
        let (reads, call) = self.call(Reader::Respond, sig, &self.readings.respond);
        quote! {
            const _: () = #root::declare::responds::<#returned, #response>();
            fn #name(inputs: &#root::Inputs) -> #root::StepResult<#root::declare::Value> {
                let _ = inputs;
                #reads
                inputs.output(&#call)
            }
        }
    }

    /// Makes the labels of the request, which each expression sees as `req`.
    fn labels(&self) -> TokenStream {
        let labels = &self.declaration.task.labels;
        if labels.is_empty() {
            return TokenStream::new();
        }
        let (name, root, request) = (numbered("labels", 0), self.root.path(), self.request());
        let labels = labels.iter().map(|label| {
            let name = &label.name;
            let text = self.text_of_request(&self.outside(&label.value), label.value_at);
            quote!((#name, #text))
        });
        quote! {
            fn #name(
                inputs: &#root::Inputs,
            ) -> #root::StepResult<::std::vec::Vec<(&'static ::core::primitive::str, ::std::string::String)>> {
                let request = inputs.read::<#request>(#root::task::REQUEST)?;
                ::core::result::Result::Ok(::std::vec![#(#labels),*])
            }
        }
    }

    /// Makes the key of the request, which the expression sees as `req`.
    fn key(&self) -> TokenStream {
        let Some((written, key)) = &self.declaration.task.flow.key else {
            return TokenStream::new();
        };
        let (name, root, request) = (numbered("key", 0), self.root.path(), self.request());
        let text = self.text_of_request(&self.outside(key), written.span());
        quote! {
            fn #name(inputs: &#root::Inputs) -> #root::StepResult<::std::string::String> {
                let request = inputs.read::<#request>(#root::task::REQUEST)?;
                ::core::result::Result::Ok(#text)
            }
        }
    }

    /// The text of an expression over the request, which is named as the author sees it, at the author's
    /// text: so that is where an error points.
    fn text_of_request(&self, value: &TokenStream, at: Span) -> TokenStream {
        let (req, root, request) = (Ident::new("req", at), self.root.at(at), self.request());
        let span = at.resolved_at(Span::mixed_site());
        let text = quote_spanned!(span=> #root::declare::label(&(#value)));
        quote!({
            let #req: &#request = &request;
            let _ = #req;
            #text
        })
    }

    /// What a function returns, as a type to point at: the function's name where there is none.
    pub(super) fn written_return(&self, sig: &Signature) -> TokenStream {
        match &sig.output {
            ReturnType::Type(_, ty) => self.outside(ty),
            ReturnType::Default => {
                let span = sig.ident.span().resolved_at(Span::mixed_site());
                quote_spanned!(span=> ())
            }
        }
    }

    /// The statements that read what a function takes, and the call.
    fn call(
        &self,
        reader: Reader,
        sig: &Signature,
        params: &[Param],
    ) -> (TokenStream, TokenStream) {
        let (what, number) = reader_name(reader);
        let reads = inputs(params).map(|(at, input)| {
            let (value, source) = (input_name(at), source_name(what, number, at));
            let (ty, read) = (
                self.outside(&input.ty),
                if input.optional {
                    "read_optional"
                } else {
                    "read"
                },
            );
            let read = format_ident!("{read}", span = Span::mixed_site());
            quote!(let #value = inputs.#read::<#ty>(#source)?;)
        });
        let states = params.iter().enumerate().filter_map(|(at, param)| {
            let Param::State(ty) = param else { return None };
            let (value, ty) = (input_name(at), self.outside(ty));
            Some(quote!(let #value = inputs.state::<#ty>()?;))
        });
        let arguments = params.iter().enumerate().map(|(at, param)| match param {
            Param::Context => quote!(ctx),
            Param::OwnOutput(_) => quote!(own),
            Param::State(_) => {
                let value = input_name(at);
                quote!(&#value)
            }
            Param::Input(input) => {
                let value = input_name(at);
                if input.optional {
                    quote!(#value.as_ref())
                } else {
                    quote!(&#value)
                }
            }
        });
        let (task, function) = (&self.declaration.item.self_ty, &sig.ident);
        (
            quote!(#(#reads)* #(#states)*),
            quote!(<#task>::#function(#(#arguments),*)),
        )
    }
}

fn input_name(at: usize) -> Ident {
    format_ident!("input_{at}", span = Span::mixed_site())
}

/// Boxed at the name of the author's function: that is where the compiler says that its future is
/// not `Send`.
fn boxed(function: &Ident, body: &TokenStream) -> TokenStream {
    let span = function.span().resolved_at(Span::mixed_site());
    quote_spanned!(span=> ::std::boxed::Box::pin(async move { #body }))
}
