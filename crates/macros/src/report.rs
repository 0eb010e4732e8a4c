//! Collects diagnostics, so that all of them are shown at once. Decides nothing.

use crate::code::Code;
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use std::fmt::Display;

/// What was found wrong so far.
#[derive(Debug, Default)]
pub(crate) struct Report {
    errors: Vec<syn::Error>,
}

impl Report {
    /// Adds a diagnostic on the tokens of its culprit.
    pub(crate) fn add(&mut self, code: Code, culprit: impl ToTokens, message: impl Display) {
        self.errors.push(syn::Error::new_spanned(
            culprit,
            format_args!("{code}: {message}"),
        ));
    }

    /// Adds a diagnostic at a place.
    pub(crate) fn add_at(&mut self, code: Code, place: Span, message: impl Display) {
        self.errors
            .push(syn::Error::new(place, format_args!("{code}: {message}")));
    }

    /// Whether nothing is wrong.
    pub(crate) const fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// The diagnostics as code.
    pub(crate) fn to_compile_errors(&self) -> TokenStream {
        self.errors
            .iter()
            .map(syn::Error::to_compile_error)
            .collect()
    }

    /// The diagnostics, and an item as it came.
    pub(crate) fn beside(&self, item: TokenStream) -> TokenStream {
        let errors = self.to_compile_errors();
        quote!(#errors #item)
    }
}
