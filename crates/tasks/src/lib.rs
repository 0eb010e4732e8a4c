//! The task types that come with Counterstep. On `counterstep-steps` and the macros alone: what a
//! user's own crate looks like.

pub mod create_zip_from_files;
pub mod place_order;
pub mod transcode_video;

pub use create_zip_from_files::CreateZipFromFiles;
pub use place_order::PlaceOrder;
pub use transcode_video::TranscodeVideo;

use counterstep_steps::Registry;

/// All task types of this crate.
#[must_use]
pub fn tasks() -> Registry {
    Registry::new()
        .with::<CreateZipFromFiles>()
        .with::<TranscodeVideo>()
        .with_calls::<PlaceOrder>(&["inventory", "bank", "shipping"])
}
