//! What lies in folders of this machine: objects and scratch.
//!
//! Must not know tasks beyond their ids, nor delete anything but what a checked prefix names.

mod objects;
mod pages;
mod scratch;
mod shared_folders;
mod walk;

pub use objects::FolderObjects;
pub use scratch::FolderScratch;
#[cfg(feature = "step-processes")]
pub(crate) use scratch::folder_of_task;
