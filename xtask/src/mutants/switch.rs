//! All mutants in one build: the body of each function that some of them change becomes a choice between its own text and theirs, which a
//! variable makes when the test runs. So a patch may change the bodies of functions, and nothing else.

use super::patch::Mutant;
use crate::tree;
use quote::{ToTokens, quote};
use std::collections::{BTreeMap, BTreeSet};
use syn::{Block, File, ImplItem, Item, Signature, TraitItem, parse_quote};

/// The variable that names the mutant.
pub(super) const VARIABLE: &str = "COUNTERSTEP_MUTANT";

/// The files that mutants change, each with all of them.
pub(super) fn files(mutants: &[Mutant]) -> Result<BTreeMap<String, String>, String> {
    let hunks = mutants.iter().flat_map(|mutant| &mutant.hunks);
    let names: BTreeSet<&String> = hunks.map(|hunk| &hunk.file).collect();
    let mut files = BTreeMap::new();
    for name in names {
        let text = tree::text(name)?;
        let mut own = parsed(&text).map_err(|error| format!("{name}: {error}"))?;
        let mut texts: Vec<Vec<(&str, Block)>> = Vec::new();
        for mutant in mutants {
            let changed = changed(mutant, name, &text, &own)
                .map_err(|error| format!("{}: {error}", mutant.path()))?;
            for (at, body) in changed {
                texts.resize_with(texts.len().max(at + 1), Vec::new);
                texts[at].push((&mutant.name, body));
            }
        }
        for (function, texts) in functions(&mut own.items).into_iter().zip(&texts) {
            if !texts.is_empty() {
                *function.body = choice(function.body, texts)?;
                // What it is asked while the program is compiled cannot depend on a variable.
                function.signature.constness = None;
            }
        }
        // What a mutant leaves out or cannot reach is no news.
        own.attrs.push(parse_quote!(#![allow(warnings)]));
        files.insert(name.clone(), own.into_token_stream().to_string());
    }
    Ok(files)
}

/// The functions whose bodies a mutant changes, by their place in the file, and these bodies.
fn changed(
    mutant: &Mutant,
    file: &str,
    text: &str,
    own: &File,
) -> Result<Vec<(usize, Block)>, String> {
    let mut hunks = mutant
        .hunks
        .iter()
        .filter(|hunk| hunk.file == file)
        .peekable();
    if hunks.peek().is_none() {
        return Ok(Vec::new());
    }
    let text = hunks.try_fold(text.to_owned(), |text, hunk| hunk.apply(&text))?;
    let (mut own, mut mutated) = (own.clone(), parsed(&text)?);
    let mut changed = Vec::new();
    let pairs = functions(&mut mutated.items)
        .into_iter()
        .zip(functions(&mut own.items));
    for (at, (changes, own)) in pairs.enumerate() {
        if changes.body != own.body {
            changed.push((at, std::mem::replace(changes.body, own.body.clone())));
        }
    }
    match own == mutated {
        true => Ok(changed),
        false => Err("it changes more than bodies of functions".to_owned()),
    }
}

fn parsed(text: &str) -> Result<File, String> {
    syn::parse_file(text).map_err(|error| error.to_string())
}

/// A function of a file.
struct Function<'a> {
    signature: &'a mut Signature,
    body: &'a mut Block,
}

/// Each function that has a body, in the order of the file.
fn functions(items: &mut [Item]) -> Vec<Function<'_>> {
    let mut found = Vec::new();
    let mut add = |signature, body| found.push(Function { signature, body });
    for item in items {
        match item {
            Item::Fn(function) => add(&mut function.sig, &mut *function.block),
            Item::Impl(of) => of.items.iter_mut().for_each(|item| {
                if let ImplItem::Fn(function) = item {
                    add(&mut function.sig, &mut function.block);
                }
            }),
            Item::Trait(of) => of.items.iter_mut().for_each(|item| {
                if let TraitItem::Fn(function) = item
                    && let Some(body) = &mut function.default
                {
                    add(&mut function.sig, body);
                }
            }),
            Item::Mod(module) => {
                if let Some((_, items)) = &mut module.content {
                    let within = functions(items).into_iter();
                    within.for_each(|function| add(function.signature, function.body));
                }
            }
            _ => {}
        }
    }
    found
}

fn choice(own: &Block, texts: &[(&str, Block)]) -> Result<Block, String> {
    let names = texts.iter().map(|(name, _)| name);
    let bodies = texts.iter().map(|(_, body)| body);
    let choice = quote! {{
        static MUTANT: ::std::sync::LazyLock<String> =
            ::std::sync::LazyLock::new(|| ::std::env::var(#VARIABLE).unwrap_or_default());
        match MUTANT.as_str() {
            #(#names => #bodies)*
            _ => #own
        }
    }};
    syn::parse2(choice).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::{files, parsed};
    use crate::mutants::patch;

    #[test]
    fn each_mutant_of_the_tree_stands_in_one_file_with_the_others() {
        let mutants = patch::all().unwrap();
        let files = files(&mutants).unwrap();
        for mutant in &mutants {
            for hunk in &mutant.hunks {
                let arm = format!("\"{}\" =>", mutant.name);
                let text = &files[&hunk.file];
                assert!(text.contains(&arm), "{}", mutant.name);
                assert!(parsed(text).is_ok(), "{}", hunk.file);
            }
        }
    }
}
