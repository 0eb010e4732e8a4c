//! The same of each server.

use super::{Examined, Finding};
use crate::exit::Exit;
use crate::open::servers;
use crate::settings::{Database, NatsLogin, ObjectBackend, Settings};
use counterstep_adapters::nats::Nats;
use counterstep_adapters::nats_rights::User;
use counterstep_adapters::postgres::PostgresStore;
use counterstep_adapters::redis;
use counterstep_contracts::Host;
use counterstep_kernel::ports::{ServerInUse, Storage};
use counterstep_steps::Registry;
use counterstep_steps::error::chain;

fn away(code: &'static str, error: impl std::fmt::Display) -> Finding {
    Finding {
        code,
        what: error.to_string(),
        why: "nothing can be said about a server that does not answer",
        to_do: "start it, or correct its setting".to_owned(),
    }
}

/// The roles of processes that run steps. Where none of them is there, all processes have one role.
const ROLES: [&str; 3] = [
    "counterstep_api",
    "counterstep_worker",
    "counterstep_service",
];

/// By the users that `deploy/nats/accounts.conf` makes.
fn role_of_user(login: &NatsLogin) -> Option<User> {
    let NatsLogin::User { user, .. } = login else {
        return None;
    };
    let mut users = [User::Api, User::Worker, User::Reconciler].into_iter();
    users.find(|of| user.ends_with(&format!("-{}", of.as_str())))
}

/// Whose steps a process runs.
fn host_of(user: User) -> Option<Host> {
    match user {
        User::Api => Some(Host::Api),
        User::Worker => Some(Host::Worker),
        User::Reconciler | User::Operator => None,
    }
}

async fn refused_queues(nats: &Nats, registry: &Registry, host: Host) -> Option<Finding> {
    let missing = match nats.missing_rights(&registry.lanes(host)).await {
        // What does not answer was found before.
        Err(_) => return None,
        Ok(missing) if missing.is_empty() => return None,
        Ok(missing) => missing,
    };
    Some(Finding {
        code: "nats_rights",
        what: format!("the NATS account may not publish {}", missing.join(", ")),
        why: "the queue brings nothing: each of its tasks waits until polling finds it, seconds later",
        to_do:
            "run `deploy render`, and give the NATS server the nats/accounts.conf that it writes"
                .to_owned(),
    })
}

async fn missing_rights(store: &PostgresStore, registry: &Registry) -> Vec<Finding> {
    let rights = servers::table_rights(registry);
    match store.missing_table_rights(&rights, &ROLES).await {
        Err(error) => vec![away("postgres_unreachable", error)],
        Ok(missing) => missing
            .into_iter()
            .map(|what| Finding {
                code: "table_rights",
                what: format!("steps write a table of the program's own, and a right is missing: {what}"),
                why: "a process of that role does not start, and a step without the right fails permanently",
                to_do: "make the table, then run the rendered postgres/roles.sql".to_owned(),
            })
            .collect(),
    }
}

fn one_of_several(ServerInUse { position, of }: ServerInUse) -> Option<String> {
    (of > 1).then(|| format!("server {position} of the {of} in `database` takes writes"))
}

pub(super) async fn examine(
    settings: &Settings,
    registry: &Registry,
    processes: Option<usize>,
    role: Option<User>,
    Examined {
        findings: found,
        notes,
    }: &mut Examined,
) -> Result<(), Exit> {
    if let Database::Postgres(server) = &settings.database {
        let options = servers::postgres_options(settings, server, "doctor");
        match PostgresStore::open(server.url.expose(), options).await {
            Err(error) => found.push(away("postgres_unreachable", chain(&error))),
            Ok(store) => match store.examine(processes).await {
                Err(error) => found.push(away("postgres_unreachable", error)),
                Ok(findings) => {
                    found.extend(findings);
                    found.extend(missing_rights(&store, registry).await);
                    notes.extend(store.server_in_use().and_then(one_of_several));
                }
            },
        }
    }
    if let Some(server) = &settings.nats {
        let role = role.or_else(|| role_of_user(&server.login));
        // The user of a kind of process hears answers at the inbox of that kind alone.
        let inbox = role.map_or("doctor", User::as_str);
        let options = servers::nats_options(settings, server, inbox);
        let nats = Nats::look(options)
            .await
            .map_err(|error| Exit::config(chain(&error)))?;
        match nats.examine(server.monitor.as_deref()).await {
            Err(error) => found.push(away("nats_unreachable", error)),
            Ok(findings) => found.extend(findings),
        }
        if let Some(host) = role.and_then(host_of) {
            found.extend(refused_queues(&nats, registry, host).await);
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
