//! What every Counterstep process has: settings from flags, environment and file, logging, opened
//! adapters, a token that the process's signals cancel, and exit codes. Decides nothing about
//! tasks.

mod capacity;
pub mod doctor;
pub mod exit;
pub mod logging;
pub mod metrics;
mod open;
mod panics;
pub mod process;
mod readable_secrets;
pub mod settings;
pub mod step_process;
#[cfg(feature = "otlp")]
mod traces;
#[cfg(not(feature = "otlp"))]
#[path = "traces/unsupported.rs"]
mod traces;

pub use capacity::tasks_at_a_time;
#[cfg(feature = "http")]
pub use counterstep_adapters::is_this_machine;
pub use counterstep_adapters::nats_rights;
pub use counterstep_adapters::payload_keys;
pub use counterstep_adapters::system::{SystemRandom, TokioRuntime};
pub use exit::{Exit, ExitKind};
pub use open::{
    access_tokens, install_provider, links, look, look_at_objects, migrate, missing_file, no_file,
    open, open_keys, open_store, webhooks,
};
pub use process::{run, run_service, shutdown_on_signals, spawner};
pub use settings::{Layers, Settings, SettingsArgs};
