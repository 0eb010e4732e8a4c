//! Hints in Redis: what was seen, counters, small states. One round trip each; what takes more than
//! one command is a script, so that it happens whole or not at all.

use super::locks::{connection, try_out};
use super::reconnecting::{Pace, Reconnecting};
use ::redis::aio::ConnectionManager;
use ::redis::{AsyncCommands, Client, ErrorKind, FromRedisValue, RedisError, Script};
use async_trait::async_trait;
use counterstep_kernel::ports::{HintError, Hints};
use futures::future::BoxFuture;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// The first addition sets the end of the window, the later ones leave it.
static BUMP: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local count = redis.call('INCR', KEYS[1])
         if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
         return count",
    )
});

/// A missing key reads as `false`, which no text equals.
static SWAP: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local was = false
         if ARGV[1] == 'some' then was = ARGV[2] end
         if redis.call('GET', KEYS[1]) ~= was then return 0 end
         if ARGV[4] == '0' then redis.call('DEL', KEYS[1])
         else redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4]) end
         return 1",
    )
});

/// The value of a key, unless it is longer than any that is set here: its bytes then stay on the
/// server.
static GET: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('STRLEN', KEYS[1]) > tonumber(ARGV[1]) then
             return redis.error_reply('ERR the value is too long')
         end
         return redis.call('GET', KEYS[1])",
    )
});

/// Bytes of the longest value that is kept under a key.
const LARGEST: usize = 16 * 1024;

/// Hints in Redis. Keys: `{prefix}:seen:…`, `{prefix}:count:…`, `{prefix}:kept:…`.
#[derive(Debug)]
pub struct RedisHints {
    connection: Reconnecting<ConnectionManager>,
    prefix: Arc<str>,
}

impl RedisHints {
    pub(super) async fn open(client: Client, prefix: Arc<str>, pace: Pace) -> Self {
        let of_keys = prefix.clone();
        let connect = Box::new(move || -> BoxFuture<'static, _> {
            let (client, key) = (client.clone(), format!("{of_keys}:try-out:hints"));
            Box::pin(async move {
                let server = connection(&client)?;
                try_out(&server, &key).await.map(|()| server)
            })
        });
        Self {
            connection: Reconnecting::open("hints", pace, connect).await,
            prefix,
        }
    }

    pub(super) async fn answers(&self) -> Result<(), String> {
        let pong = self.ask(|mut server| Box::pin(async move { server.ping::<String>().await }));
        pong.await.map(drop).map_err(|HintError(why)| why)
    }

    fn key(&self, kind: &str, key: &str) -> String {
        format!("{}:{kind}:{key}", self.prefix)
    }

    async fn ask<'a, R: FromRedisValue>(
        &'a self,
        question: impl FnOnce(ConnectionManager) -> BoxFuture<'a, Result<R, RedisError>>,
    ) -> Result<R, HintError> {
        let answer = self.connection.call(|server| async move {
            match question(server).await {
                Err(error) if is_about_the_key(&error) => Ok(Err(HintError(error.to_string()))),
                answer => answer.map(Ok).map_err(|error| error.to_string()),
            }
        });
        answer.await.map_err(HintError)?
    }
}

/// Whether the server did answer, and only what lies under this key is of no use: a key that
/// another program wrote must not take the hints away from all others.
fn is_about_the_key(error: &RedisError) -> bool {
    error.kind() == ErrorKind::UnexpectedReturnType
        || matches!(error.code(), Some("WRONGTYPE" | "ERR"))
}

/// Redis takes no time below a millisecond, and no more than its own clock can count.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis())
        .unwrap_or(u64::MAX)
        .clamp(1, 1 << 50)
}

#[async_trait]
impl Hints for RedisHints {
    async fn check(&self) -> Result<(), HintError> {
        self.answers().await.map_err(HintError)
    }

    async fn seen(&self, key: &str) -> Result<bool, HintError> {
        let key = self.key("seen", key);
        self.ask(|mut server| Box::pin(async move { server.exists(key).await }))
            .await
    }

    async fn remember(&self, key: &str, ttl: Duration) -> Result<(), HintError> {
        let key = self.key("seen", key);
        self.ask(|mut server| Box::pin(async move { server.pset_ex(key, "1", millis(ttl)).await }))
            .await
    }

    async fn bump(&self, counter: &str, window: Duration) -> Result<u64, HintError> {
        let key = self.key("count", counter);
        self.ask(|mut server| {
            Box::pin(async move {
                BUMP.key(key)
                    .arg(millis(window))
                    .invoke_async(&mut server)
                    .await
            })
        })
        .await
    }

    async fn get(&self, key: &str) -> Result<Option<String>, HintError> {
        let key = self.key("kept", key);
        self.ask(|mut server| {
            Box::pin(async move { GET.key(key).arg(LARGEST).invoke_async(&mut server).await })
        })
        .await
    }

    async fn left(&self, key: &str) -> Result<Option<Duration>, HintError> {
        let key = self.key("kept", key);
        let left: i64 = self
            .ask(|mut server| Box::pin(async move { server.pttl(key).await }))
            .await?;
        Ok(match left {
            // Without an end, which nothing here sets.
            -1 => Some(Duration::MAX),
            left => u64::try_from(left).ok().map(Duration::from_millis),
        })
    }

    async fn set(&self, key: &str, value: &str, ttl: Duration) -> Result<(), HintError> {
        if value.len() > LARGEST {
            return Err(HintError(format!(
                "a value of {} bytes is not kept: at most {LARGEST} are",
                value.len()
            )));
        }
        let (key, value) = (self.key("kept", key), value.to_owned());
        self.ask(|mut server| {
            Box::pin(async move { server.pset_ex(key, value, millis(ttl)).await })
        })
        .await
    }

    async fn swap(
        &self,
        key: &str,
        was: Option<&str>,
        value: &str,
        ttl: Duration,
    ) -> Result<bool, HintError> {
        let mut script = SWAP.key(self.key("kept", key));
        script
            .arg(if was.is_some() { "some" } else { "none" })
            .arg(was.unwrap_or_default())
            .arg(value)
            .arg(if ttl.is_zero() { 0 } else { millis(ttl) });
        self.ask(|mut server| Box::pin(async move { script.invoke_async(&mut server).await }))
            .await
    }
}
