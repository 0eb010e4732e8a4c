//! The inside of our attributes: an optional number, then `key = value` and flags. Knows which
//! value a key may have once it is told the kind; does not know which keys there are.

use crate::code::Code;
use crate::declaration::{Choice, Label};
use crate::report::Report;
use crate::text::{bytes, millis};
use proc_macro2::Span;
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::token::Paren;
use syn::{Expr, ExprLit, ExprTuple, Ident, Lit, LitInt, LitStr, Path, Token, parenthesized};

/// What stands in the parentheses.
#[derive(Default)]
pub(crate) struct Args {
    /// The value without a key, which can only come first.
    pub(crate) position: Option<Expr>,
    entries: Vec<(Ident, Option<Expr>)>,
}

impl Parse for Args {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut args = Self::default();
        if input.peek(Lit) || input.peek(Token![-]) {
            args.position = Some(value(input)?);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        while !input.is_empty() {
            let key: Ident = input.parse()?;
            let value = if input.peek(Token![=]) {
                input.parse::<Token![=]>()?;
                Some(value(input)?)
            } else if input.peek(Paren) {
                Some(Expr::Tuple(list(input)?))
            } else {
                None
            };
            args.entries.push((key, value));
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(args)
    }
}

/// `(a = .., b = ..)`, with one element as well.
fn list(input: ParseStream<'_>) -> syn::Result<ExprTuple> {
    let content;
    let paren_token = parenthesized!(content in input);
    Ok(ExprTuple {
        attrs: Vec::new(),
        paren_token,
        elems: content.parse_terminated(Expr::parse, Token![,])?,
    })
}

/// A value. What a `macro_rules!` passes on, as `$n:literal`, stands in a group without delimiters.
fn value(input: ParseStream<'_>) -> syn::Result<Expr> {
    let mut value = input.parse()?;
    while let Expr::Group(group) = value {
        value = *group.expr;
    }
    Ok(value)
}

/// Takes the keys out of the arguments one by one, and reports what is wrong with them.
pub(crate) struct Keys<'a> {
    args: Args,
    report: &'a mut Report,
    known: Vec<&'static str>,
}

impl<'a> Keys<'a> {
    /// Reports the keys that stand there twice, and keeps the first of each.
    pub(crate) fn new(mut args: Args, report: &'a mut Report) -> Self {
        let mut seen: Vec<Ident> = Vec::new();
        args.entries.retain(|(key, _)| {
            let twice = seen.contains(key);
            if twice {
                let message = format_args!(
                    "`{key}` stands here twice; expected each key once; remove one of them"
                );
                report.add(Code::DuplicateKey, key, message);
            }
            seen.push(key.clone());
            !twice
        });
        Self {
            args,
            report,
            known: Vec::new(),
        }
    }

    fn take(&mut self, key: &'static str) -> Option<(Ident, Option<Expr>)> {
        self.known.push(key);
        let at = self
            .args
            .entries
            .iter()
            .position(|(given, _)| given == key)?;
        Some(self.args.entries.remove(at))
    }

    fn value<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        read: impl Fn(&Expr) -> Option<T>,
    ) -> Option<T> {
        let (ident, value) = self.take(key)?;
        let read = value.as_ref().and_then(read);
        if read.is_none() {
            let message = format_args!(
                "`{key}` has a value that it cannot have; expected `{key} = {expected}`"
            );
            match value {
                Some(value) => self.report.add(Code::BadValue, value, message),
                None => self.report.add(Code::BadValue, ident, message),
            }
        }
        read
    }

    /// `key = "text"`.
    pub(crate) fn text(&mut self, key: &'static str) -> Option<LitStr> {
        self.value(key, "\"text\"", string)
    }

    /// `key = "10m"`, in milliseconds.
    pub(crate) fn duration(&mut self, key: &'static str) -> Option<u64> {
        self.duration_at(key).map(|(millis, _)| millis)
    }

    /// The same, and where it stands.
    pub(crate) fn duration_at(&mut self, key: &'static str) -> Option<(u64, Span)> {
        let text = self.value(key, "\"30s\"", string)?;
        let duration = millis(&text.value());
        if duration.is_none() {
            let message = format_args!(
                "`{key}` is no duration; expected a whole number above 0 with a unit, like 500ms, 2s, 5m, 1h, 7d"
            );
            self.report.add(Code::BadDuration, &text, message);
        }
        duration.map(|millis| (millis, text.span()))
    }

    /// `key = "512MiB"`, in bytes.
    pub(crate) fn bytes(&mut self, key: &'static str) -> Option<(u64, LitStr)> {
        self.value(key, "\"512MiB\", in KiB, MiB, GiB or TiB", |value| {
            let text = string(value)?;
            Some((bytes(&text.value())?, text))
        })
    }

    /// `key = 3`.
    pub(crate) fn number(&mut self, key: &'static str, at_least: u32) -> Option<u32> {
        let read = |value: &Expr| {
            integer(value)?
                .base10_parse()
                .ok()
                .filter(|number| *number >= at_least)
        };
        self.value(
            key,
            &format!("a whole number from {at_least} to {}", u32::MAX),
            read,
        )
    }

    /// `key = 3`, and where the number stands.
    pub(crate) fn number_up_to(&mut self, key: &'static str, most: u32) -> Option<(u32, Span)> {
        self.value(key, &format!("a whole number from 1 to {most}"), |value| {
            let number = integer(value)?;
            let read = number.base10_parse().ok();
            let read = read.filter(|number| (1..=most).contains(number));
            read.map(|read| (read, number.span()))
        })
    }

    /// `key = "expression"`: as written, and as it is read.
    pub(crate) fn expression(&mut self, key: &'static str) -> Option<(LitStr, Expr)> {
        self.value(key, "\"expression\" with the request as `req`", |value| {
            let text = string(value)?;
            let expression = text.parse().ok()?;
            Some((text, expression))
        })
    }

    /// `key(name = "expression", ..)`: the names, and what is made of the request for each.
    pub(crate) fn labels(&mut self, key: &'static str) -> Vec<Label> {
        let labels = match self.take(key) {
            None => Vec::new(),
            Some((_, Some(Expr::Tuple(list)))) => list.elems.into_iter().collect(),
            Some((ident, _)) => {
                let message = format_args!(
                    "`{key}` names no label; expected `{key}(name = \"expression\")`, as `{key}(order = \"req.id\")`"
                );
                self.report.add(Code::BadValue, ident, message);
                Vec::new()
            }
        };
        let read = labels.into_iter().filter_map(|label| {
            let read = read_label(&label);
            if read.is_none() {
                let message = "this is no label; expected `name = \"expression\"` with the request as `req`, as \
                               `order = \"req.id\"`";
                self.report.add(Code::BadLabel, label, message);
            }
            read
        });
        read.collect()
    }

    /// `key = path::TO_A_CONSTANT`.
    pub(crate) fn path(&mut self, key: &'static str) -> Option<Path> {
        self.value(key, "PATH_OF_A_CONSTANT", |value| match value {
            Expr::Path(path) if path.qself.is_none() && path.attrs.is_empty() => {
                Some(path.path.clone())
            }
            _ => None,
        })
    }

    /// `key = function`, a function of the impl.
    pub(crate) fn function(&mut self, key: &'static str) -> Option<Ident> {
        self.value(key, "function_of_this_impl", |value| match value {
            Expr::Path(path) if path.qself.is_none() => path.path.get_ident().cloned(),
            _ => None,
        })
    }

    /// `key = "one of these"`.
    pub(crate) fn choice(
        &mut self,
        key: &'static str,
        of: &[(&str, &'static str)],
    ) -> Option<Choice> {
        let texts: Vec<_> = of.iter().map(|(text, _)| format!("\"{text}\"")).collect();
        self.value(key, &texts.join(" | "), |value| {
            let literal = string(value)?;
            let (_, variant) = of.iter().find(|(text, _)| *text == literal.value())?;
            Some(Choice { variant, literal })
        })
    }

    /// `key` alone.
    pub(crate) fn flag(&mut self, key: &'static str) -> bool {
        let taken = self.take(key);
        if let Some((_, Some(value))) = &taken {
            let message = format_args!(
                "`{key}` takes no value; expected `{key}` alone; leave it out for \"no\""
            );
            self.report.add(Code::BadValue, value, message);
        }
        taken.is_some()
    }

    /// Whether a key stands there, with whatever value.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.args.entries.iter().any(|(given, _)| given == key)
    }

    /// The value without a key.
    pub(crate) fn position(&mut self) -> Option<Expr> {
        self.args.position.take()
    }

    /// Reports arguments that no check has taken.
    pub(crate) fn finish(self, attribute: &str) {
        let known = self.known.join(", ");
        if let Some(value) = &self.args.position {
            let message =
                format_args!("a value without a key in `#[{attribute}]`; expected one of {known}");
            self.report.add(Code::BadValue, value, message);
        }
        for (key, _) in &self.args.entries {
            let message =
                format_args!("`#[{attribute}]` has no key `{key}`; expected one of {known}");
            self.report.add(Code::UnknownKey, key, message);
        }
    }
}

/// A whole number as it stands in the tokens.
pub(crate) fn integer(value: &Expr) -> Option<&LitInt> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Int(number),
            ..
        }) => Some(number),
        _ => None,
    }
}

fn read_label(label: &Expr) -> Option<Label> {
    let Expr::Assign(pair) = label else {
        return None;
    };
    let name = match &*pair.left {
        Expr::Path(path) => path.path.get_ident()?.unraw().to_string(),
        name => string(name)?.value(),
    };
    let text = string(&pair.right)?;
    Some(Label {
        name,
        name_at: pair.left.to_token_stream(),
        value: text.parse().ok()?,
        value_at: text.span(),
    })
}

fn string(value: &Expr) -> Option<LitStr> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Some(text.clone()),
        _ => None,
    }
}

/// The arguments, or a report that they cannot be read, and none.
pub(crate) fn readable(parsed: syn::Result<Args>, report: &mut Report) -> Args {
    parsed.unwrap_or_else(|error| {
        let message = format_args!(
            "cannot read this attribute ({error}); expected `key = value`, comma-separated"
        );
        report.add_at(Code::BadValue, error.span(), message);
        Args::default()
    })
}
