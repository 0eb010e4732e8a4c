//! Which promises the configured servers cannot keep.

use crate::exit::Exit;
use crate::open;
use crate::settings::{Database, ObjectPlace, Settings};
pub use counterstep_adapters::finding::Finding;
use counterstep_adapters::postgres::PostgresStore;
use counterstep_adapters::redis;
use counterstep_adapters::s3::S3Objects;
use counterstep_kernel::Registry;
use futures::future::BoxFuture;

fn away(code: &'static str, error: impl std::fmt::Display) -> Finding {
    Finding {
        code,
        what: error.to_string(),
        why: "nothing can be said about a server that does not answer",
        to_do: "start it, or correct its setting".to_owned(),
    }
}

/// Looks at every server of the settings. One that does not answer is a finding, and the others are looked at all the
/// same.
///
/// # Errors
/// [`Exit`] for settings that cannot be used whatever the servers do.
pub fn examine<'a>(settings: &'a Settings, registry: &'a Registry) -> BoxFuture<'a, Result<Vec<Finding>, Exit>> {
    Box::pin(async move {
        crate::install_provider();
        let mut found = Vec::new();
        match &settings.database {
            Database::Sqlite(path) => found.push(Finding {
                code: "sqlite_one_machine",
                what: format!("the database is the file {}", path.display()),
                why: "all services must run on this machine, and a lost disk loses every task",
                to_do: "for more than one machine set --database postgres://… and --nats".to_owned(),
            }),
            Database::Postgres(server) => {
                let options = open::postgres_options(settings, server, "doctor");
                match PostgresStore::open(server.url.expose(), options).await {
                    Err(error) => found.push(away("postgres_unreachable", counterstep_kernel::error::chain(&error))),
                    Ok(store) => match store.examine().await {
                        Err(error) => found.push(away("postgres_unreachable", error)),
                        Ok(findings) => found.extend(findings),
                    },
                }
            }
        }
        if let Some(server) = &settings.nats {
            let nats = open::nats(settings, server, registry, "doctor").await?;
            match nats.examine(settings.nats_monitor.as_deref()).await {
                Err(error) => found.push(away("nats_unreachable", error)),
                Ok(findings) => found.extend(findings),
            }
        }
        if let Some(server) = &settings.redis {
            let redis = redis::open(open::redis_options(settings, server)).await;
            let redis = redis.map_err(|error| Exit::config(counterstep_kernel::error::chain(&error)))?;
            found.extend(redis.findings().await);
        }
        if let ObjectPlace::S3(url) = &settings.objects {
            let objects = S3Objects::open(&open::s3_settings(settings, url)?).map_err(Exit::config)?;
            if let Err(error) = objects.check().await {
                found.push(away("objects_unreachable", error));
            }
        }
        Ok(found)
    })
}
