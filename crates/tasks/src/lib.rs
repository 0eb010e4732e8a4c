//! The task types that come with Counterstep. On `counterstep-steps` and the macros alone: what a
//! user's own crate looks like.

pub mod create_zip_from_files;
#[cfg(feature = "place-order")]
pub mod place_order;
#[cfg(feature = "transcode-video")]
pub mod transcode_video;

pub use create_zip_from_files::CreateZipFromFiles;
#[cfg(feature = "place-order")]
pub use place_order::PlaceOrder;
#[cfg(feature = "transcode-video")]
pub use transcode_video::TranscodeVideo;

use counterstep_steps::Registry;

/// All task types of this crate that its features turn on.
#[must_use]
pub fn tasks() -> Registry {
    let tasks = Registry::new().with::<CreateZipFromFiles>();
    #[cfg(feature = "transcode-video")]
    let tasks = tasks.with::<TranscodeVideo>();
    #[cfg(feature = "place-order")]
    let tasks = tasks.with_calls::<PlaceOrder>(&["inventory", "bank", "shipping"]);
    tasks
}
