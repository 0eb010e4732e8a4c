//! Finds under which name the caller knows the crate that authors of tasks touch.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;

/// That crate's root as the caller may name it.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    name: String,
    inner: Option<&'static str>,
}

impl Root {
    /// Looks into the caller's manifest: what users depend on first, then that crate alone.
    pub(crate) fn find() -> Self {
        Self::found_by(|package| match crate_name(package) {
            Ok(FoundCrate::Name(name)) => Some(name),
            // Each of the two says `extern crate self as ..`, so that its own name works inside of
            // it as well.
            Ok(FoundCrate::Itself) => Some(package.replace('-', "_")),
            Err(_) => None,
        })
    }

    fn found_by(name_of: impl Fn(&str) -> Option<String>) -> Self {
        match (name_of("counterstep"), name_of("counterstep-steps")) {
            (None, Some(name)) => Self { name, inner: None },
            (Some(name), _) => Self {
                name,
                inner: Some("steps"),
            },
            // The compiler then says that it cannot find `counterstep`, which is the right hint.
            (None, None) => Self {
                name: "counterstep".to_owned(),
                inner: Some("steps"),
            },
        }
    }

    /// The path, at a span.
    pub(crate) fn at(&self, span: Span) -> TokenStream {
        // Resolved where the macro is, pointed at where the author is: lints leave generated code
        // alone then.
        self.written_at(span.resolved_at(Span::mixed_site()))
    }

    /// The path, as if the author had written it there.
    pub(crate) fn written_at(&self, span: Span) -> TokenStream {
        let name = Ident::new(&self.name, span);
        let inner = self.inner.map(|inner| {
            let inner = Ident::new(inner, span);
            quote_spanned!(span=> ::#inner)
        });
        quote_spanned!(span=> ::#name #inner)
    }

    /// The path, at no place in particular.
    pub(crate) fn path(&self) -> TokenStream {
        self.at(Span::mixed_site())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_in(known: &[(&str, &str)]) -> String {
        let name_of = |package: &str| {
            known
                .iter()
                .find(|(name, _)| *name == package)
                .map(|(_, name)| (*name).to_owned())
        };
        Root::found_by(name_of).path().to_string().replace(' ', "")
    }

    #[test]
    fn the_root_is_what_the_manifest_calls_it() {
        assert_eq!(
            path_in(&[("counterstep-steps", "counterstep_steps")]),
            "::counterstep_steps"
        );
        assert_eq!(
            path_in(&[("counterstep", "cs"), ("counterstep-steps", "s")]),
            "::cs::steps"
        );
        assert_eq!(path_in(&[]), "::counterstep::steps");
    }
}
