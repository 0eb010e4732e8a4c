//! Files that import each other in a circle can only be read together: how many those may be.

use super::{Found, Violation};
use crate::tree;
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};
use syn::{ItemMod, ItemUse, Meta, UseTree, Visibility};

/// Files of a crate that may import each other, at most.
const LIMIT: usize = 3;

/// A module by the names that lead to it from the crate's root.
type Path = Vec<String>;

/// The modules of a file that it has beside others, all in one crate.
#[derive(Debug, Default)]
struct Source {
    file: String,
    module: Path,
    /// What `use` brings into its modules, by module and name.
    names: BTreeMap<(Path, String), Path>,
    /// What it refers to, by the module that does. A re-export refers to nothing: who imports by it
    /// depends on what it stands for.
    refers: Vec<(Path, Path)>,
    /// Its inline modules, and itself.
    modules: BTreeSet<Path>,
}

pub(super) fn check(files: &[String]) -> Found {
    let too_large = |(_, circle): &(String, Vec<String>)| circle.len() > LIMIT;
    let found = circles(files)?.into_iter().filter(too_large);
    let violation = |(name, circle): (String, Vec<String>)| {
        let (count, names) = (circle.len(), circle.join(", "));
        let what = format!("{count} files import each other, and {LIMIT} may: {names}");
        Violation::new(&name, 1, what)
    };
    Ok(found.map(violation).collect())
}

/// The largest circle of each crate, which `cargo xtask tidy` prints.
pub(super) fn figures(files: &[String]) -> Result<String, String> {
    let figures: Vec<String> = circles(files)?
        .iter()
        .map(|(name, circle)| format!("{name} {}", circle.len()))
        .collect();
    Ok(format!("largest circles of files: {}", figures.join(", ")))
}

/// Each folder that is a crate, with the files of its largest circle.
fn circles(files: &[String]) -> Result<Vec<(String, Vec<String>)>, String> {
    let mut found = Vec::new();
    for manifest in files.iter().filter(|file| file.ends_with("/Cargo.toml")) {
        let folder = manifest.trim_end_matches("/Cargo.toml");
        let sources = format!("{folder}/src/");
        let has_library = files.contains(&format!("{sources}lib.rs"));
        let mut read = Vec::new();
        for file in files.iter().filter(|file| file.ends_with(".rs")) {
            // A program beside a library is a crate of its own.
            if let Some(path) = file.strip_prefix(&sources)
                && !path.starts_with("bin/")
                && !(has_library && path == "main.rs")
            {
                read.push(source(file, module(path), &tree::text(file)?)?);
            }
        }
        if !read.is_empty() {
            found.push((folder.to_owned(), largest(&read)));
        }
    }
    Ok(found)
}

/// The module that a file below `src` is.
fn module(path: &str) -> Path {
    let path = path.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    match path {
        "lib" | "main" => Path::new(),
        _ => path.split('/').map(str::to_owned).collect(),
    }
}

fn source(file: &str, module: Path, text: &str) -> Result<Source, String> {
    let parsed = syn::parse_file(text).map_err(|error| format!("{file}: {error}"))?;
    let mut source = Source {
        file: file.to_owned(),
        module: module.clone(),
        modules: BTreeSet::from([module]),
        ..Source::default()
    };
    source.visit_file(&parsed);
    Ok(source)
}

impl Visit<'_> for Source {
    fn visit_item_mod(&mut self, item: &ItemMod) {
        let is_test = |meta: &Meta| {
            meta.require_list()
                .is_ok_and(|list| meta.path().is_ident("cfg") && list.tokens.to_string() == "test")
        };
        if item.content.is_some() && !item.attrs.iter().any(|it| is_test(&it.meta)) {
            self.module.push(item.ident.to_string());
            self.modules.insert(self.module.clone());
            visit::visit_item_mod(self, item);
            self.module.pop();
        }
    }

    fn visit_item_use(&mut self, item: &ItemUse) {
        let is_private = matches!(item.vis, Visibility::Inherited);
        self.imports(&item.tree, &mut Path::new(), is_private);
    }

    // `pub(crate)` and `pub(super)` name who may see a thing, and import nothing.
    fn visit_visibility(&mut self, _: &Visibility) {}

    fn visit_path(&mut self, path: &syn::Path) {
        let names = path.segments.iter().map(|it| it.ident.to_string());
        self.refers.push((self.module.clone(), names.collect()));
        visit::visit_path(self, path);
    }
}

impl Source {
    fn imports(&mut self, tree: &UseTree, before: &mut Path, is_private: bool) {
        let (name, local) = match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.imports(&path.tree, before, is_private);
                before.pop();
                return;
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.imports(tree, before, is_private);
                }
                return;
            }
            UseTree::Name(name) => (name.ident.to_string(), name.ident.to_string()),
            UseTree::Rename(rename) => (rename.ident.to_string(), rename.rename.to_string()),
            UseTree::Glob(_) => ("*".to_owned(), "*".to_owned()),
        };
        let mut path = before.clone();
        let local = match (name.as_str(), path.last()) {
            ("self", Some(last)) if local == "self" => last.clone(),
            _ => local,
        };
        if name != "self" && name != "*" {
            path.push(name);
        }
        if is_private {
            self.refers.push((self.module.clone(), path.clone()));
        }
        self.names.insert((self.module.clone(), local), path);
    }
}

/// The files of the largest circle, in their order.
fn largest(sources: &[Source]) -> Vec<String> {
    let modules: BTreeMap<&Path, usize> = sources
        .iter()
        .enumerate()
        .flat_map(|(at, source)| source.modules.iter().map(move |module| (module, at)))
        .collect();
    let imports: Vec<BTreeSet<usize>> = sources
        .iter()
        .map(|source| {
            let refers = source.refers.iter();
            refers
                .filter_map(|(from, path)| home(&modules, sources, from, path, 0))
                .collect()
        })
        .collect();
    let reached: Vec<BTreeSet<usize>> = (0..sources.len()).map(|at| reach(&imports, at)).collect();
    let circle_of = |at: usize| -> Vec<String> {
        let both = reached[at]
            .iter()
            .filter(|other| reached[**other].contains(&at));
        both.map(|other| sources[*other].file.clone()).collect()
    };
    (0..sources.len())
        .map(circle_of)
        .max_by_key(Vec::len)
        .unwrap_or_default()
}

/// The file in which lives what a path means, behind re-exports; `None`: another crate.
fn home(
    modules: &BTreeMap<&Path, usize>,
    sources: &[Source],
    from: &Path,
    path: &Path,
    depth: usize,
) -> Option<usize> {
    let mut at = from.clone();
    let mut names = path.iter().peekable();
    let mut is_anchored = false;
    while let Some(name) = names.next_if(|name| matches!(name.as_str(), "crate" | "self" | "super"))
    {
        is_anchored = true;
        match name.as_str() {
            "crate" => at.clear(),
            "super" => drop(at.pop()),
            _ => {}
        }
    }
    while let Some(name) = names.next() {
        at.push(name.clone());
        if modules.contains_key(&at) {
            is_anchored = true;
            continue;
        }
        at.pop();
        let file = &sources[*modules.get(&at)?];
        // What the module itself imports was counted where it is imported.
        if is_anchored
            && depth < 8
            && let Some(meant) = file.names.get(&(at.clone(), name.clone()))
        {
            let rest = names.cloned();
            let whole: Path = meant.iter().cloned().chain(rest).collect();
            return home(modules, sources, &at, &whole, depth + 1);
        }
        break;
    }
    is_anchored.then(|| modules.get(&at).copied()).flatten()
}

/// All that a file imports, directly or by others.
fn reach(imports: &[BTreeSet<usize>], from: usize) -> BTreeSet<usize> {
    let (mut found, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(at) = open.pop() {
        open.extend(imports[at].iter().filter(|next| found.insert(**next)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{largest, module, source};

    fn circle(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<_> = files
            .iter()
            .map(|(path, text)| source(path, module(path), text).unwrap())
            .collect();
        largest(&sources)
    }

    #[test]
    fn files_that_import_each_other_are_a_circle() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; pub use c::C;"),
            ("a/mod.rs", "use super::b::B; mod inner;"),
            ("a/inner.rs", "pub struct I;"),
            // By way of a re-export, and by a path in the code.
            ("b.rs", "use crate::C; pub struct B(C);"),
            (
                "c.rs",
                "fn f(_: crate::a::inner::I) {} fn g() -> crate::a::A { todo!() } pub struct C;",
            ),
        ];
        assert_eq!(circle(&files), ["a/mod.rs", "b.rs", "c.rs"]);
    }

    #[test]
    fn a_tree_and_its_tests_are_none() {
        let files = [
            ("lib.rs", "mod a; use a::A; fn f(_: A) {}"),
            (
                "a.rs",
                "use std::fmt; pub struct A; #[cfg(test)] mod tests { use crate::f; }",
            ),
        ];
        assert!(circle(&files).is_empty());
    }
}
