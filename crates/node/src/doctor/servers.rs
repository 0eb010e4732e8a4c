//! The same of each server.

use super::Finding;
use crate::exit::Exit;
use crate::open::servers;
use crate::settings::{Database, ObjectPlace, Settings};
use counterstep_adapters::postgres::PostgresStore;
use counterstep_adapters::redis;
use counterstep_adapters::s3::S3Objects;
use counterstep_kernel::Registry;

fn away(code: &'static str, error: impl std::fmt::Display) -> Finding {
    Finding {
        code,
        what: error.to_string(),
        why: "nothing can be said about a server that does not answer",
        to_do: "start it, or correct its setting".to_owned(),
    }
}

pub(super) async fn examine(settings: &Settings, registry: &Registry, found: &mut Vec<Finding>) -> Result<(), Exit> {
    if let Database::Postgres(server) = &settings.database {
        let options = servers::postgres_options(settings, server, "doctor");
        match PostgresStore::open(server.url.expose(), options).await {
            Err(error) => found.push(away("postgres_unreachable", counterstep_kernel::error::chain(&error))),
            Ok(store) => match store.examine().await {
                Err(error) => found.push(away("postgres_unreachable", error)),
                Ok(findings) => found.extend(findings),
            },
        }
    }
    if let Some(server) = &settings.nats {
        let nats = servers::nats(settings, server, registry, "doctor").await?;
        match nats.examine(settings.nats_monitor.as_deref()).await {
            Err(error) => found.push(away("nats_unreachable", error)),
            Ok(findings) => found.extend(findings),
        }
    }
    if let Some(server) = &settings.redis {
        let redis = redis::open(servers::redis_options(settings, server)).await;
        let redis = redis.map_err(|error| Exit::config(counterstep_kernel::error::chain(&error)))?;
        found.extend(redis.findings().await);
    }
    if let ObjectPlace::S3(url) = &settings.objects {
        let objects = S3Objects::open(&servers::s3_settings(settings, url)?).map_err(Exit::config)?;
        if let Err(error) = objects.check().await {
            found.push(away("objects_unreachable", error));
        }
    }
    Ok(())
}
