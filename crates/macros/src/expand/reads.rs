//! What each source gives, who may read it, and for each parameter the constant that names its
//! source. The bounds behind these constants are the checks that need types.

use super::{Expansion, source_name, written_span};
use crate::check::{Input, Param, Reader, Source};
use crate::text::as_written;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;

/// The name under which a reader's generated things go, and its number.
pub(super) fn reader_name(reader: Reader) -> (&'static str, usize) {
    match reader {
        Reader::Run(step) => ("run", step),
        Reader::Undo(step) => ("undo", step),
        Reader::When(step) => ("when", step),
        Reader::Fallback(step) => ("fallback", step),
        Reader::Probe(step) => ("probe", step),
        Reader::Respond => ("respond", 0),
    }
}

impl Expansion<'_> {
    pub(super) fn reads(&self) -> TokenStream {
        let sources = self.sources();
        let readers = self.readings.by_reader();
        let given = readers
            .iter()
            .map(|(reader, params)| self.given(*reader, params));
        let constants = readers.iter().flat_map(|(reader, params)| {
            let inputs = inputs(params).map(|(at, input)| self.source_constant(*reader, at, input));
            inputs.collect::<Vec<_>>()
        });
        quote!(#sources #(#given)* #(#constants)*)
    }

    /// Which type each marker stands for.
    fn sources(&self) -> TokenStream {
        let (root, request, response) = (self.root.path(), self.request(), self.response());
        let steps = (0..self.declaration.steps.len()).map(|step| {
            let (marker, output) = (self.marker(step), self.output_type(step));
            quote! {
                impl #root::declare::Source for #marker {
                    type Output = #output;
                }
            }
        });
        quote! {
            impl #root::declare::Source for __counterstep_sources::request {
                type Output = #request;
            }
            #(#steps)*
            const _: () = #root::declare::travels::<#request>();
            const _: () = #root::declare::travels::<#response>();
        }
    }

    /// What a reader may read by type. `From` tells apart two sources of one type, so that an alias
    /// is no conflict until a step reads it by type.
    fn given(&self, reader: Reader, params: &[Param]) -> TokenStream {
        if !inputs(params).any(|(_, input)| matches!(input.source, Source::ByType)) {
            return TokenStream::new();
        }
        let (root, reader_type, request) =
            (self.root.path(), self.reader_type(reader), self.request());
        let readable = (0..self.declaration.steps.len())
            .filter(|step| reader.may_read(self.declaration, *step));
        let steps = readable.map(|step| {
            let (marker, way) = (self.marker(step), self.way(reader, step));
            let name = self.declaration.step_name(step).unraw().to_string();
            let presence = if self.declaration.steps[step].when.is_some() {
                quote!(Sometimes)
            } else {
                quote!(Always)
            };
            // Where the function says what it returns, as the author's own code: the compiler drops
            // reports of a wrong type that are the same.
            let span = written_span(self.declaration.step_function(step));
            let root = self.root.written_at(span);
            quote_spanned! {span=>
                #[diagnostic::do_not_recommend]
                impl #root::declare::Given<#reader_type, #marker> for <#marker as #root::declare::Source>::Output {
                    const SOURCE: &'static str = #name;
                    type Presence = #root::declare::#presence;
                    type Way = #way;
                }
            }
        });
        quote! {
            #[diagnostic::do_not_recommend]
            impl #root::declare::Given<#reader_type, __counterstep_sources::request> for #request {
                const SOURCE: &'static str = #root::task::REQUEST;
                type Presence = #root::declare::Always;
                type Way = #root::declare::SameHost;
            }
            #(#steps)*
        }
    }

    fn reader_type(&self, reader: Reader) -> TokenStream {
        let root = self.root.path();
        let of = |kind: TokenStream, step| {
            let marker = self.marker(step);
            quote!(#root::declare::#kind<#marker>)
        };
        match reader {
            Reader::Run(step) => of(quote!(RunOf), step),
            Reader::Undo(step) => of(quote!(UndoOf), step),
            Reader::When(step) => of(quote!(WhenOf), step),
            Reader::Fallback(step) => of(quote!(FallbackOf), step),
            Reader::Probe(step) => of(quote!(ProbeOf), step),
            Reader::Respond => quote!(#root::declare::RespondOf<__counterstep_sources::request>),
        }
    }

    /// Whether a step's output crosses hosts on its way to a reader.
    fn way(&self, reader: Reader, source: usize) -> TokenStream {
        let root = self.root.path();
        let host = |step: usize| {
            self.declaration.steps[step]
                .host
                .as_ref()
                .map(|host| host.variant)
        };
        let same = match reader {
            Reader::Run(step) | Reader::When(step) | Reader::Fallback(step) => {
                host(step) == host(source)
            }
            // They run on whichever host holds the lease.
            Reader::Undo(_) | Reader::Probe(_) => false,
            Reader::Respond => host(self.declaration.steps.len() - 1) == host(source),
        };
        if same {
            quote!(#root::declare::SameHost)
        } else {
            quote!(#root::declare::OtherHost)
        }
    }

    /// The type stands in it as the author wrote it, tokens and spans, because that is what the
    /// compiler points at.
    fn source_constant(&self, reader: Reader, at: usize, input: &Input) -> TokenStream {
        let (what, number) = reader_name(reader);
        let (constant, ty) = (source_name(what, number, at), self.outside(&input.ty));
        let span = input.ty.span().resolved_at(Span::mixed_site());
        let root = self.root.at(span);
        let value = match input.source {
            Source::Step(step) => {
                let (marker, way) = (self.marker(step), self.way(reader, step));
                let name = self.declaration.step_name(step).unraw().to_string();
                quote_spanned!(span=> #root::declare::by_name::<#ty, #marker, #way>(#name))
            }
            Source::ByType => {
                let reader = self.reader_type(reader);
                let by_type = if input.optional {
                    "by_type_optional"
                } else {
                    "by_type"
                };
                let by_type = Ident::new(by_type, span);
                quote_spanned!(span=> #root::declare::#by_type::<#ty, #reader, _>())
            }
        };
        quote!(const #constant: &::core::primitive::str = #value;)
    }

    /// `&[InputDecl { .. }, ..]`.
    pub(super) fn input_table(&self, reader: Reader, params: &[Param]) -> TokenStream {
        let root = self.root.path();
        let (what, step) = reader_name(reader);
        let rows = inputs(params).map(|(at, input)| {
            let (source, name) = (source_name(what, step, at), input.name.unraw().to_string());
            let ty = as_written(&input.ty);
            quote!(#root::declare::InputDecl { name: #name, source: #source, ty: #ty })
        });
        quote!(&[#(#rows),*])
    }
}

/// The parameters that read something, with their places.
pub(super) fn inputs(params: &[Param]) -> impl Iterator<Item = (usize, &Input)> {
    params
        .iter()
        .enumerate()
        .filter_map(|(at, param)| match param {
            Param::Input(input) => Some((at, input)),
            Param::Context | Param::OwnOutput(_) | Param::State(_) => None,
        })
}
