//! The engine of Counterstep.
//!
//! Owns the judge, the plan, the turn, undo, the calls of clients and operators, the journal,
//! schedules, disabled task types, the worker registry, and the ports that they run on. Knows no
//! database, broker, cache or web framework, and takes no time, chance or thread but through a port.

pub mod access_tokens;
pub mod admin_audit;
pub mod announce;
pub mod api_keys;
pub mod audit;
pub mod breakers;
pub mod bulk;
pub mod change;
pub mod children;
pub mod client;
pub mod dead_letters;
mod deliveries;
pub mod disable;
pub mod documents;
pub mod draft;
pub mod engine;
pub mod events;
pub mod faults;
mod fetch_errors;
pub mod health;
mod heavy;
pub mod host;
pub mod intents;
mod isolation;
pub mod journal;
pub mod limits;
mod liveness;
pub mod load;
pub mod log_lines;
mod loop_watch;
pub mod lost_hosts;
mod observe;
pub mod operator;
pub mod outages;
mod outbox;
pub mod paused_queues;
pub mod payloads;
pub mod places;
pub mod plan;
pub mod poison;
mod poison_delivery;
pub mod ports;
pub mod progress;
pub mod quarantine;
pub mod record;
pub mod registration;
pub mod request_edit;
pub mod result_links;
pub mod saga;
pub mod schedule;
pub mod scratch_sweep;
mod secrets;
mod settings;
mod spool;
pub mod status;
mod store;
mod store_uptime;
pub mod task_log;
pub mod time_limits;
mod traces;
pub mod trail;
pub mod transition;
pub mod turn;
mod turn_time;
mod under_way;
mod unknown_commits;
mod waiting_looks;
mod waiting_tasks;
pub mod webhooks;
pub mod worker_registry;

pub(crate) use counterstep_steps::{
    breaker, builtin, call, cancel, context, digest, error, keys, output_limit, policies, policy,
    scratch, sql, task, times, waits,
};
pub use engine::Engine;
pub use settings::EngineSettings;
pub use spool::{InvalidSealSecret, SealSecrets};
