//! `man`: the help of each command as a man page, for packages.

use super::output::print;
use counterstep_node::Exit;
use std::path::Path;

/// Writes a page of the program and of each command below it.
pub(super) fn main(whole: clap::Command, program: &str, folder: &Path) -> Result<(), Exit> {
    let failed =
        |error: std::io::Error| Exit::failed(format_args!("{}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(whole.name(program.to_owned()), folder).map_err(failed)?;
    print(&format!("the pages are in {}\n", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::main;
    use crate::cli::{ALL, command};
    use counterstep_steps::Registry;
    use std::collections::BTreeSet;

    /// The names of the pages of a command and of those below it.
    fn pages(command: &clap::Command, name: &str, found: &mut BTreeSet<String>) {
        found.insert(format!("{name}.1"));
        for sub in command.get_subcommands().filter(|it| !it.is_hide_set()) {
            pages(sub, &format!("{name}-{}", sub.get_name()), found);
        }
    }

    #[test]
    fn each_command_that_is_shown_has_a_page_with_its_flags() {
        let folder = tempfile::tempdir().expect("a folder");
        let whole = || command(&Registry::new(), ALL);
        main(whole(), "lamp-shop", folder.path()).expect("pages");
        let entries = std::fs::read_dir(folder.path()).expect("the folder");
        let name = |it: std::fs::DirEntry| it.file_name().to_string_lossy().into_owned();
        let written: BTreeSet<_> = entries.map(|it| name(it.expect("an entry"))).collect();
        let mut wanted = BTreeSet::new();
        pages(&whole(), "lamp-shop", &mut wanted);
        assert_eq!(written, wanted);
        let page = folder.path().join("lamp-shop-tasks-list.1");
        let page = std::fs::read_to_string(page).expect("a page");
        assert!(page.contains("\\-\\-status"), "{page}");
    }
}
