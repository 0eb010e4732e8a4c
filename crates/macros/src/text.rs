//! Texts made of tokens and the other way round: types as written, names in kebab-case, durations.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use quote::{ToTokens, TokenStreamExt, quote};
use syn::{GenericArgument, PathArguments, PathSegment, Type};

/// A type as people write it. Our own printer, because the definition hash of a task type depends
/// on the text and that of the compiler may change.
pub(crate) fn as_written(tokens: impl ToTokens) -> String {
    let mut text = String::new();
    print(tokens.to_token_stream(), &mut text);
    text
}

fn print(tokens: TokenStream, text: &mut String) {
    let mut joint = false;
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::None => ("", ""),
                };
                text.push_str(open);
                print(group.stream(), text);
                text.push_str(close);
            }
            TokenTree::Punct(punct) => {
                let spaced = matches!(punct.as_char(), '+' | '=' | '-') && !joint;
                if spaced {
                    text.push(' ');
                }
                text.push(punct.as_char());
                let arrow = punct.as_char() == '>' && joint && text.ends_with("->");
                if matches!(punct.as_char(), ',' | ';' | '+' | '=') || arrow {
                    text.push(' ');
                }
                joint = punct.spacing() == Spacing::Joint;
                continue;
            }
            word @ (TokenTree::Ident(_) | TokenTree::Literal(_)) => {
                // `dyn Shape`, `&mut T`, `'a T`: two words need a space, a lifetime's quote and its
                // name do not.
                if text.ends_with(|last: char| last.is_alphanumeric() || last == '_') {
                    text.push(' ');
                }
                text.push_str(&word.to_string());
            }
        }
        joint = false;
    }
}

/// The tokens with `Self` spelled out, for use outside of the impl.
pub(crate) fn without_self(tokens: impl ToTokens, self_ty: &Type) -> TokenStream {
    let mut tokens = tokens.to_token_stream().into_iter().peekable();
    let mut out = TokenStream::new();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(ident) if ident == "Self" => {
                // `Task<u8>::A` is no path: as an expression it is two comparisons.
                if begins_path(tokens.peek()) && !is_plain_path(self_ty) {
                    out.extend(quote!(<#self_ty>));
                } else {
                    self_ty.to_tokens(&mut out);
                }
            }
            TokenTree::Group(group) => {
                let inner = without_self(group.stream(), self_ty);
                let mut inner = proc_macro2::Group::new(group.delimiter(), inner);
                inner.set_span(group.span());
                out.append(inner);
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => out.append(token),
        }
    }
    out
}

/// Whether the first sign of `::` follows.
fn begins_path(next: Option<&TokenTree>) -> bool {
    matches!(next, Some(TokenTree::Punct(sign)) if sign.as_char() == ':' && sign.spacing() == Spacing::Joint)
}

/// Whether a type is names with `::` between them.
fn is_plain_path(ty: &Type) -> bool {
    let Type::Path(path) = ungrouped(ty) else {
        return false;
    };
    path.qself.is_none() && path.path.segments.iter().all(|it| it.arguments.is_none())
}

/// The type itself, where a `macro_rules!` passes it on as `$t:ty`: in a group without delimiters.
pub(crate) fn ungrouped(mut ty: &Type) -> &Type {
    while let Type::Group(group) = ty {
        ty = &group.elem;
    }
    ty
}

/// The last segment of a type that is a path.
pub(crate) fn last_segment(ty: &Type) -> Option<&PathSegment> {
    match ty {
        Type::Path(path) => path.path.segments.last(),
        Type::Group(group) => last_segment(&group.elem),
        Type::Paren(paren) => last_segment(&paren.elem),
        _ => None,
    }
}

/// `A` of `Name<A, ..>`.
pub(crate) fn first_argument(segment: &PathSegment) -> Option<&Type> {
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else {
        return None;
    };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

/// `CreateZipFromFiles` → `create-zip-from-files`; the rule of
/// `counterstep_contracts::declaration::kebab_case`, which a macro cannot depend on without
/// building the contracts twice.
pub(crate) fn kebab_case(name: &str) -> String {
    let mut kebab = String::with_capacity(name.len() + 4);
    let chars: Vec<char> = name.chars().collect();
    for (at, &c) in chars.iter().enumerate() {
        let starts_word = c.is_uppercase()
            && at > 0
            && (!chars[at - 1].is_uppercase()
                || chars.get(at + 1).is_some_and(|next| next.is_lowercase()));
        if starts_word && !kebab.ends_with('-') {
            kebab.push('-');
        }
        kebab.extend(if c == '_' {
            vec!['-']
        } else {
            c.to_lowercase().collect()
        });
    }
    kebab
}

/// Reads `500ms`, `2s`, `5m`, `1h` or `7d` as milliseconds; `None` for anything else and for zero.
pub(crate) fn millis(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number
        .parse::<u64>()
        .ok()?
        .checked_mul(unit)
        .filter(|millis| *millis > 0)
}

/// A size in bytes: a whole number above 0 with a unit.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit: u64 = match unit {
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return None,
    };
    number
        .parse::<u64>()
        .ok()?
        .checked_mul(unit)
        .filter(|bytes| *bytes > 0)
}
