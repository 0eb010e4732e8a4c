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
