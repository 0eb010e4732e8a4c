//! The same of each server.

use super::Finding;
use crate::exit::Exit;
use crate::open::servers;
use crate::settings::{Database, ObjectBackend, Settings};
use counterstep_adapters::nats::Nats;
use counterstep_adapters::postgres::PostgresStore;
use counterstep_adapters::redis;
use counterstep_steps::error::chain;

fn away(code: &'static str, error: impl std::fmt::Display) -> Finding {
    Finding {
        code,
        what: error.to_string(),
        why: "nothing can be said about a server that does not answer",
        to_do: "start it, or correct its setting".to_owned(),
    }
}

pub(super) async fn examine(
    settings: &Settings,
    processes: Option<usize>,
    found: &mut Vec<Finding>,
) -> Result<(), Exit> {
    if let Database::Postgres(server) = &settings.database {
        let options = servers::postgres_options(settings, server, "doctor");
        match PostgresStore::open(server.url.expose(), options).await {
            Err(error) => found.push(away("postgres_unreachable", chain(&error))),
            Ok(store) => match store.examine(processes).await {
                Err(error) => found.push(away("postgres_unreachable", error)),
                Ok(findings) => found.extend(findings),
            },
        }
    }
    if let Some(server) = &settings.nats {
        let options = servers::nats_options(settings, server, "doctor");
        let nats = Nats::look(options)
            .await
            .map_err(|error| Exit::config(chain(&error)))?;
        match nats.examine(server.monitor.as_deref()).await {
            Err(error) => found.push(away("nats_unreachable", error)),
            Ok(findings) => found.extend(findings),
        }
    }
    if let Some(server) = &settings.redis {
        let options = servers::redis_options(settings, server);
        found.extend(
            redis::findings(&options)
                .await
                .map_err(|error| Exit::config(chain(&error)))?,
        );
    }
    if let ObjectBackend::Server {
        url,
        credentials_file,
    } = &settings.objects
    {
        let objects = servers::objects(settings, url, credentials_file.as_deref())?;
        if let Err(error) = objects.check().await {
            found.push(away("objects_unreachable", error));
        }
    }
    Ok(())
}
