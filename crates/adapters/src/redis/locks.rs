//! Locks of tasks on one Redis, or on several with a majority (RedLock), through `rslock`.
//!
//! What was measured of `rslock` 0.10, and what follows from it here:
//! - `acquire` waits until the lock is free, and never returns while Redis is away: `lock` is used,
//!   with one try.
//! - More than one try with no delay between them panics when the lock is held: `set_retry(1, …)`.
//! - "Held by another process" and "no server answered" are the same error: only a look at the key
//!   tells them apart.
//! - A failed `extend` deletes the lock where it can: it counts as lost.
//! - Dropping a lock does not release it, and a call that is given up on half-way may have taken
//!   one.

use super::reconnecting::{CONNECT_LIMIT, Pace, Reconnecting};
use ::redis::aio::{ConnectionManager, ConnectionManagerConfig};
use ::redis::{AsyncCommands, Client, Script};
use async_trait::async_trait;
use counterstep_contracts::TaskId;
use counterstep_kernel::ports::{Acquired, LockError, LockTag, Locks};
use futures::future::join_all;
use rslock::{Lock, LockManager};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Deletes a key that has our value: not the lock of a later holder.
const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

/// Locks of tasks in Redis. Key: `{prefix}:lock:{task}`.
#[derive(Debug)]
pub struct RedisLocks {
    connection: Reconnecting<Link>,
    prefix: Arc<str>,
}

#[derive(Clone)]
struct Link {
    manager: LockManager,
    /// To look at keys with: one connection a server.
    servers: Vec<ConnectionManager>,
}

/// A connection that `Reconnecting` replaces when it fails: no patience of its own.
pub(super) fn connection(client: &Client) -> Result<ConnectionManager, String> {
    let config = ConnectionManagerConfig::new()
        .set_number_of_retries(0)
        .set_connection_timeout(Some(CONNECT_LIMIT))
        .set_response_timeout(Some(CONNECT_LIMIT));
    ConnectionManager::new_lazy_with_config(client.clone(), config)
        .map_err(|error| error.to_string())
}

/// Writes to a server: one that answers and takes no writes (a replica, a full one) is of no use.
pub(super) async fn try_out(server: &ConnectionManager, key: &str) -> Result<(), String> {
    let mut server = server.clone();
    server
        .pset_ex::<_, _, ()>(key, "1", 1000)
        .await
        .map_err(|error| error.to_string())
}

impl Link {
    async fn connect(clients: &[Client], prefix: &str) -> Result<Self, String> {
        let servers = clients
            .iter()
            .map(connection)
            .collect::<Result<Vec<_>, _>>()?;
        let key = format!("{prefix}:try-out:locks");
        let tried = join_all(servers.iter().map(|server| try_out(server, &key))).await;
        let reached = tried.iter().filter(|tried| tried.is_ok()).count();
        if reached < servers.len() / 2 + 1 {
            let errors: Vec<_> = tried.into_iter().filter_map(Result::err).collect();
            return Err(errors.join("; "));
        }
        let mut manager = LockManager::from_clients(clients.to_vec());
        manager.set_retry(1, Duration::ZERO);
        // It connects with its first question; no task is to wait for that.
        manager
            .query_redis_for_key_value(key.as_bytes())
            .await
            .map_err(|error| error.to_string())?;
        Ok(Self { manager, servers })
    }

    /// Whether any server has a key, as far as they answer.
    async fn is_there(&self, key: &str) -> Result<bool, String> {
        let looks = self.servers.iter().map(|server| {
            let mut server = server.clone();
            async move { server.exists::<_, bool>(key).await }
        });
        let mut silent = Vec::new();
        let mut answered = 0;
        for look in join_all(looks).await {
            match look {
                Ok(true) => return Ok(true),
                Ok(false) => answered += 1,
                Err(error) => silent.push(error.to_string()),
            }
        }
        if answered == 0 {
            Err(silent.join("; "))
        } else {
            Ok(false)
        }
    }

    /// Ends a holding, and returns on how many servers it was still there. Not with `rslock`, which
    /// does not report that.
    async fn release(&self, key: &str, tag: &LockTag) -> Result<usize, String> {
        let script = Script::new(RELEASE);
        let releases = self.servers.iter().map(|server| {
            let (mut server, mut call) = (server.clone(), script.key(key));
            call.arg(&tag.0);
            async move { call.invoke_async::<bool>(&mut server).await }
        });
        let (answers, silent): (Vec<_>, Vec<_>) = join_all(releases)
            .await
            .into_iter()
            .partition(Result::is_ok);
        if answers.is_empty() {
            let errors: Vec<_> = silent
                .into_iter()
                .filter_map(Result::err)
                .map(|error| error.to_string())
                .collect();
            return Err(errors.join("; "));
        }
        Ok(answers.into_iter().flatten().filter(|there| *there).count())
    }

    /// The lock that a tag stands for.
    fn lock(&self, key: &str, tag: &LockTag) -> Lock {
        Lock {
            resource: key.as_bytes().to_vec(),
            val: tag.0.clone(),
            validity_time: 0,
            lock_manager: self.manager.clone(),
        }
    }
}

impl RedisLocks {
    pub(super) async fn open(clients: Arc<[Client]>, prefix: Arc<str>, pace: Pace) -> Self {
        let of_keys = prefix.clone();
        let connect = Box::new(move || -> futures::future::BoxFuture<'static, _> {
            let (clients, prefix) = (clients.clone(), of_keys.clone());
            Box::pin(async move { Link::connect(&clients, &prefix).await })
        });
        Self {
            connection: Reconnecting::open("locks", pace, connect).await,
            prefix,
        }
    }

    fn key(&self, task: TaskId) -> String {
        format!("{}:lock:{task}", self.prefix)
    }
}

#[async_trait]
impl Locks for RedisLocks {
    async fn acquire(&self, task: TaskId, ttl: Duration) -> Result<Acquired, LockError> {
        let key = self.key(task);
        let runtime = self.connection.runtime();
        let granted = self.connection.call(|link| async move {
            let (answer, waits) = oneshot::channel();
            let (manager, resource) = (link.manager.clone(), key.clone());
            // In a task of its own: where the limit passes first, the server may still grant the
            // lock, and no caller would release it.
            runtime.spawn(async move {
                let taken = manager.lock(resource.as_str(), ttl).await;
                if let Err(Ok(late)) = answer.send(taken) {
                    late.release().await;
                }
            });
            match waits
                .await
                .map_err(|_| "the runtime has ended".to_owned())?
            {
                Ok(lock) => Ok(Some(Acquired::Held(LockTag(lock.val)))),
                Err(rslock::LockError::Unavailable) => {
                    Ok(link.is_there(&key).await?.then_some(Acquired::Elsewhere))
                }
                Err(error) => Err(error.to_string()),
            }
        });
        // The key is gone, and still the lock was refused: it was released this moment, or the
        // server takes no writes. Never a reason to leave the task alone.
        let refused =
            || LockError("it answers, but did not grant a lock that seems to be free".to_owned());
        granted.await.map_err(LockError)?.ok_or_else(refused)
    }

    async fn extend(&self, task: TaskId, tag: &LockTag, ttl: Duration) -> Result<bool, LockError> {
        let key = self.key(task);
        let extended = self.connection.call(|link| async move {
            match link.manager.extend(&link.lock(&key, tag), ttl).await {
                Ok(_) => Ok(true),
                // Held by another process or free: any answer means that the server is up.
                Err(rslock::LockError::Unavailable) => link.is_there(&key).await.map(|_| false),
                Err(error) => Err(error.to_string()),
            }
        });
        extended.await.map_err(LockError)
    }

    async fn release(&self, task: TaskId, tag: &LockTag) -> Result<(), LockError> {
        let key = self.key(task);
        let runtime = self.connection.runtime();
        let released = self.connection.call(|link| async move {
            let tag = tag.clone();
            // Not given up on with the call: a lock that stays behind delays the next holder.
            let released = runtime.spawn(async move { link.release(&key, &tag).await });
            released
                .await
                .map_err(|_| "the runtime has ended".to_owned())?
        });
        if released.await.map_err(LockError)? == 0 {
            tracing::info!(%task, "the lock was gone before its release: it ran out, or Redis lost it");
        }
        Ok(())
    }
}
