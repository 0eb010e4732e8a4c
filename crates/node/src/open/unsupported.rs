//! A program that was built for a file and folders only. What it is asked for beyond them it says
//! it has not.

use super::{BestEffortPorts, DatabasePorts};
use crate::exit::Exit;
use crate::settings::{
    Database, NatsBackend, ObjectBackend, RedisBackend, SecretUrl, Server, Settings,
};
use counterstep_kernel::ports::{Objects, Store};
use counterstep_steps::Registry;
use std::path::Path;
use std::sync::Arc;

/// Nothing here speaks TLS.
pub const fn install_provider() {}

fn lacking(setting: &str) -> Exit {
    Exit::config(format_args!(
        "setting `{setting}`: this program was built without servers: build it with `--features servers`, or leave the \
         setting out"
    ))
}

pub(super) async fn database(
    _: &Settings,
    _: &Server,
    _: &NatsBackend,
    _: &Registry,
    _: &str,
) -> Result<DatabasePorts, Exit> {
    Err(lacking("database"))
}

pub(super) fn look(_: &Settings, _: &Server, _: &str) -> Result<Store, Exit> {
    Err(lacking("database"))
}

pub(super) async fn store(_: &Settings, _: &Server, _: &str) -> Result<Store, Exit> {
    Err(lacking("database"))
}

pub(super) async fn with_keys(_: &Settings, _: &Server) -> Result<Store, Exit> {
    Err(lacking("database"))
}

pub(super) async fn migrate(_: &Settings, _: &Server) -> Result<(), Exit> {
    Err(lacking("database"))
}

pub(super) async fn best_effort(_: &Settings, _: &RedisBackend) -> Result<BestEffortPorts, Exit> {
    Err(lacking("redis"))
}

pub(super) fn objects(
    _: &Settings,
    _: &SecretUrl,
    _: Option<&Path>,
) -> Result<Arc<dyn Objects>, Exit> {
    Err(lacking("objects"))
}

/// Refuses settings that name a server.
pub(crate) fn no_servers(settings: &Settings) -> Result<(), Exit> {
    match settings {
        Settings {
            database: Database::Postgres(_),
            ..
        } => Err(lacking("database")),
        Settings { redis: Some(_), .. } => Err(lacking("redis")),
        Settings {
            objects: ObjectBackend::Server { .. },
            ..
        } => Err(lacking("objects")),
        _ => Ok(()),
    }
}
