//! Local files between steps of one host. They never cross hosts, and they may be gone: then the
//! engine runs the step that made them once more.

mod draft;
mod file;

pub use draft::ScratchDraft;
pub use file::{ScratchFile, ScratchPlace, Sealed, scratch_files_in};
