//! What must hold of a declaration, whatever its text: for the program `declaration` of `fuzz/`, which
//! compiles this crate's sources into itself, and for a test that reads its committed inputs. Must not read
//! or judge a declaration itself.

use crate::check::check;
use crate::declaration::Declaration;
use crate::expand::expand;
use crate::parse::parse;
use crate::report::Report;
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use std::collections::BTreeSet;
use syn::ext::IdentExt;

/// Reads a text that has the attribute `#[distributed_task(..)]` and the item that it stands on. `group!(..)` stands
/// for what a `macro_rules!` passes on: a group without delimiters.
///
/// # Panics
/// Where a rule is broken.
pub(crate) fn declaration(input: &[u8]) {
    let tokens = std::str::from_utf8(input)
        .ok()
        .and_then(|text| text.parse::<TokenStream>().ok());
    let Some(tokens) = tokens else { return };
    let (attribute, item) = split(grouped(tokens));
    let mut report = Report::default();
    let Some(declaration) = parse(attribute, &item, &mut report) else {
        assert!(!report.is_empty(), "refused without a diagnostic");
        let given = report.beside(item.clone()).to_string();
        assert!(
            given.ends_with(&item.to_string()),
            "the item is not given back as it came"
        );
        return;
    };
    let readings = check(&declaration, &mut report);
    let expanded = expand(&declaration, &readings, &report);
    let text = expanded.to_string();
    assert_eq!(report.is_empty(), !text.contains("compile_error"), "{text}");
    if report.is_empty() {
        obeys(&declaration);
    }
    // An item that only the compiler refuses is given back with what it refuses.
    let is_item = syn::parse2::<syn::ItemImpl>(item);
    if is_item.is_ok_and(|item| syn::parse2::<syn::File>(quote::quote!(#item)).is_ok()) {
        let read = syn::parse2::<syn::File>(expanded);
        assert!(read.is_ok(), "{:?}: {text}", read.err());
    }
}

/// The inside of the first attribute of ours, and the item below it; all tokens, where there is none.
fn split(tokens: TokenStream) -> (TokenStream, TokenStream) {
    let all: Vec<TokenTree> = tokens.into_iter().collect();
    let found = all
        .windows(2)
        .enumerate()
        .find_map(|(at, pair)| match pair {
            [TokenTree::Punct(sign), TokenTree::Group(inner)] if sign.as_char() == '#' => {
                Some((at + 2, arguments(inner)?))
            }
            _ => None,
        });
    let Some((from, arguments)) = found else {
        return (TokenStream::new(), all.into_iter().collect());
    };
    let rest = &all[from..];
    // Braces within angle brackets are an argument.
    let is_body = |at: usize| {
        let is_braces =
            matches!(&rest[at], TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        let next = rest.get(at + 1);
        is_braces && !matches!(next, Some(TokenTree::Punct(sign)) if ">,".contains(sign.as_char()))
    };
    let end = (0..rest.len()).find(|at| is_body(*at));
    let end = end.map_or(rest.len(), |at| at + 1);
    (arguments, rest[..end].iter().cloned().collect())
}

/// What stands in the parentheses of `distributed_task(..)`.
fn arguments(attribute: &Group) -> Option<TokenStream> {
    let mut inside = attribute.stream().into_iter();
    let is_ours =
        matches!(inside.next(), Some(TokenTree::Ident(name)) if name == "distributed_task");
    match inside.next() {
        Some(TokenTree::Group(arguments)) if is_ours => Some(arguments.stream()),
        None if is_ours => Some(TokenStream::new()),
        _ => None,
    }
}

fn grouped(tokens: TokenStream) -> TokenStream {
    let mut out: Vec<TokenTree> = Vec::new();
    for token in tokens {
        let TokenTree::Group(group) = token else {
            out.push(token);
            continue;
        };
        let is_call = matches!(
            &out[..],
            [.., TokenTree::Ident(name), TokenTree::Punct(sign)] if name == "group" && sign.as_char() == '!'
        );
        let delimiter = if is_call {
            out.truncate(out.len() - 2);
            Delimiter::None
        } else {
            group.delimiter()
        };
        out.push(Group::new(delimiter, grouped(group.stream())).into());
    }
    out.into_iter().collect()
}

/// The rules of an accepted declaration, in other words than those of `check`.
fn obeys(declaration: &Declaration) {
    let task = &declaration.task;
    for name in [&task.name, &task.queue] {
        let is_sign = |sign: char| sign.is_ascii_alphanumeric() || "_-".contains(sign);
        let starts = name.starts_with(|sign: char| sign.is_ascii_alphabetic());
        assert!(
            starts && name.chars().all(is_sign),
            "`{name}` is a part of a subject and of a route"
        );
    }
    assert!(task.version > 0, "version 0");
    assert!(task.timeout != Some(0) && task.lease != Some(0), "no time");
    let labels: BTreeSet<&str> = task.labels.iter().map(|label| &*label.name).collect();
    assert!(
        labels.len() == task.labels.len() && labels.len() <= 16,
        "{labels:?}"
    );
    assert!(
        declaration.request.is_some() && declaration.response.is_some(),
        "no types"
    );
    assert!(
        declaration.respond().is_some() && !declaration.steps.is_empty(),
        "no steps"
    );
    let mut names = BTreeSet::from(["request".to_owned(), "respond".to_owned()]);
    let mut last = 0;
    for (at, step) in declaration.steps.iter().enumerate() {
        assert!(step.number > last, "step {} after {last}", step.number);
        last = step.number;
        let name = declaration.step_name(at).unraw().to_string();
        assert!(names.insert(name.clone()), "two of the name `{name}`");
        assert!(step.host.is_some(), "`{name}` runs nowhere");
        let undos = [
            declaration.undo_of(at).is_some(),
            step.no_undo.is_some(),
            step.pure.is_some(),
        ];
        let count = undos.into_iter().filter(|it| *it).count();
        let expected = if declaration.is_custom(at) {
            1..=1
        } else {
            0..=1
        };
        assert!(expected.contains(&count), "`{name}` has {count} undos");
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    fn each_file(folder: &str) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let mut read = 0;
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                continue;
            }
            // Shown where a rule is broken.
            println!("{}", path.display());
            super::declaration(&fs::read(&path).unwrap());
            read += 1;
        }
        assert!(read > 0, "no inputs in {}", folder.display());
    }

    #[test]
    fn committed_inputs_of_the_fuzzer_keep_the_rules() {
        each_file("../../fuzz/seeds/declaration");
    }

    /// The fuzzer begins with them too.
    #[test]
    fn the_cases_of_the_compile_tests_keep_the_rules() {
        each_file("tests/ui");
        each_file("tests/ui/pass");
    }
}
