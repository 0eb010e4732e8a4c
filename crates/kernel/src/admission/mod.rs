//! What may hold a task back: types that are disabled, paused queues and processes, limits, breakers, room for heavy steps, the
//! places of a key, few tasks beside one that has lost hosts, and the counts of waiting tasks. Each says what
//! it allows; when it is asked stands with the caller (`turn`, `host`, `client`).

pub mod breakers;
pub mod disable;
pub(crate) mod gate;
pub(crate) mod heavy;
pub(crate) mod isolation;
pub(crate) mod known_pauses;
pub mod limits;
pub mod paused_queues;
pub mod paused_workers;
pub mod pauses;
pub mod places;
mod setting;
pub(crate) mod setting_cache;
pub(crate) mod waiting_tasks;

pub use setting::{SettingError, SettingOf};
