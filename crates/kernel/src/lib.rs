//! The engine of Counterstep. Knows no database, broker, cache or web framework, and takes no time, chance or
//! thread but through a port.
//!
//! | room | holds |
//! |---|---|
//! | [`saga`] | the judge: which state follows which event |
//! | [`plan`] | the planner: what is next for a task |
//! | [`turn`] | a turn: claim, run, commit, heartbeat |
//! | [`host`] | the loop of a process around its turns |
//! | [`draft`], [`change`] | a change in the making; its commit, and what is announced of it |
//! | [`record`], [`journal`], [`audit`] | the rows of a task; the rows of its changes; their chain |
//! | [`admission`] | what may hold a task back |
//! | [`children`], [`schedule`], [`bulk`], [`webhooks`] | tasks of tasks, tasks by time, decisions for many, calls to clients |
//! | [`client`], [`operator`], [`dead_letters`], [`status`], [`access`] | what people and clients ask, and who may |
//! | [`workers`] | the worker registry |
//! | [`engine`] | what a process holds of all this |
//! | [`payloads`], [`documents`], `spool`, `store`, [`ports`] | encryption, documents, the spool, the store, and what adapters implement |

pub mod access;
pub mod admission;
pub mod audit;
pub mod bulk;
pub mod change;
pub mod children;
pub mod client;
pub mod dead_letters;
pub mod documents;
pub mod draft;
pub mod engine;
pub mod host;
pub mod journal;
pub mod operator;
pub mod payloads;
pub mod plan;
pub mod ports;
pub mod record;
pub mod saga;
pub mod schedule;
mod spool;
pub mod status;
mod store;
pub mod turn;
pub mod webhooks;
pub mod workers;

pub(crate) use counterstep_steps::{
    breaker, builtin, call, cancel, context, digest, error, keys, output_limit, policies,
    retry_decision, scratch, sql, task, times, waits,
};
pub use engine::Engine;
pub use engine::settings::EngineSettings;
pub use spool::{InvalidSealSecret, SealSecrets};
