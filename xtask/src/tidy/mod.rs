//! `cargo xtask tidy`: the rules of the house that no compiler checks. Each rule is a function from
//! the tracked files to violations; it repairs nothing.

mod blocks;
mod budget;
mod circles;
mod glossary;
mod guards;
mod image;
mod kernel;
mod layers;
mod links;
mod llms;
mod map;
mod markdown;
mod mutants;
mod packages;
mod selects;
mod sleeps;
mod sources;
mod tables;
mod violation;
mod words;

use crate::tree;
use violation::{Found, Violation};

/// Every rule over the whole tree.
fn check() -> Found {
    let files = tree::files()?;
    let mut found = Vec::new();
    found.extend(layers::check(&files)?);
    found.extend(kernel::check()?);
    found.extend(sources::check(&files)?);
    found.extend(map::check()?);
    found.extend(links::check(&files)?);
    found.extend(words::check(&files)?);
    found.extend(selects::check(&files)?);
    found.extend(sleeps::check(&files)?);
    found.extend(mutants::check()?);
    found.extend(blocks::check(&files)?);
    found.extend(tables::check(&files)?);
    found.extend(circles::check(&files)?);
    found.extend(glossary::check(&files)?);
    found.extend(guards::check()?);
    found.extend(image::check(&files)?);
    found.extend(llms::check()?);
    found.extend(packages::check(&files)?);
    found.extend(budget::check(&files)?);
    Ok(found)
}

pub(crate) fn run() -> Result<(), String> {
    let found = check()?;
    for violation in &found {
        println!("{violation}");
    }
    println!("{}", circles::figures(&tree::files()?)?);
    match found.len() {
        0 => {
            println!("tidy");
            Ok(())
        }
        1 => Err("1 violation".to_owned()),
        many => Err(format!("{many} violations")),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_tree_is_tidy() {
        let found: Vec<String> = super::check()
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert!(found.is_empty(), "\n{}\n", found.join("\n"));
    }
}
