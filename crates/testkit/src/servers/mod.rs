//! Real servers for tests, private to the process that starts them: PostgreSQL, NATS with
//! JetStream, Redis and Azurite as processes of their own on free ports of the loopback address,
//! and an S3 server in this process over real HTTP.
//!
//! Starting blocks and takes well under a second each. Dropping stops for certain; and whatever way
//! the test process ends, also by a kill, its servers end with it and their files are removed. A
//! server that is not installed is a panic that names its package: a test that needs one never
//! passes without it.
//!
//! Nothing in here may listen beyond the loopback address, or touch a server that it has not
//! started.

mod azurite;
#[cfg(feature = "s3-server")]
mod bucket_files;
mod nats;
mod nats_cluster;
mod pgbouncer;
mod place;
mod postgres;
mod postgres_clock;
mod process;
mod proxy;
mod redis;
mod rows;
#[cfg(feature = "s3-server")]
mod s3;
mod standby;

pub use azurite::Azurite;
pub use nats::Nats;
pub use nats_cluster::{NatsCluster, NatsStores};
pub use pgbouncer::PgBouncer;
pub use postgres::{Postgres, first_value};
pub(crate) use postgres_clock::DatabaseClocks;
pub use proxy::{Proxy, is_commit};
pub use redis::Redis;
pub use rows::ROWS_READ;
#[cfg(feature = "s3-server")]
pub use s3::S3;

use std::sync::LazyLock;

#[cfg(feature = "s3-server")]
/// One of each, started side by side.
#[derive(Debug)]
pub struct Servers {
    /// PostgreSQL.
    pub postgres: Postgres,
    /// NATS with JetStream.
    pub nats: Nats,
    /// Redis.
    pub redis: Redis,
    /// S3.
    pub s3: S3,
}

#[cfg(feature = "s3-server")]
impl Servers {
    /// Starts one of each, with these buckets.
    ///
    /// # Panics
    /// When a server is not installed or does not start.
    #[must_use]
    pub fn start(buckets: &[&str]) -> Self {
        Self::around(Postgres::start, buckets)
    }

    /// The same with a PostgreSQL that keeps what it has committed through a power cut: for
    /// benchmarks.
    ///
    /// # Panics
    /// When a server is not installed or does not start.
    #[must_use]
    pub fn durable(buckets: &[&str]) -> Self {
        Self::around(Postgres::durable, buckets)
    }

    /// The same with a PostgreSQL that a standby may follow.
    ///
    /// # Panics
    /// When a server is not installed or does not start.
    #[must_use]
    pub fn with_primary(buckets: &[&str]) -> Self {
        Self::around(Postgres::primary, buckets)
    }

    fn around(postgres: fn() -> Postgres, buckets: &[&str]) -> Self {
        std::thread::scope(|scope| {
            let postgres = scope.spawn(postgres);
            let nats = scope.spawn(Nats::start);
            let redis = scope.spawn(Redis::start);
            let s3 = S3::start(buckets);
            let started = "a server did not start; its own message stands above";
            Self {
                postgres: postgres.join().expect(started),
                nats: nats.join().expect(started),
                redis: redis.join().expect(started),
                s3,
            }
        })
    }
}

/// The one PostgreSQL of this test binary, started on first use. Take a [`Postgres::database`] of
/// your own from it.
pub fn shared_postgres() -> &'static Postgres {
    static SHARED: LazyLock<Postgres> = LazyLock::new(Postgres::of_many_tests);
    &SHARED
}

/// The one NATS of this test binary, started on first use. Tests keep apart by the names of their
/// streams.
pub fn shared_nats() -> &'static Nats {
    static SHARED: LazyLock<Nats> = LazyLock::new(Nats::start);
    &SHARED
}

/// The one Redis of this test binary, started on first use. Tests keep apart by the prefix of their
/// keys.
pub fn shared_redis() -> &'static Redis {
    static SHARED: LazyLock<Redis> = LazyLock::new(Redis::start);
    &SHARED
}

/// The one Azurite of this test binary, started on first use, without a container: see
/// [`Azurite::make_container`].
pub fn shared_azurite() -> &'static Azurite {
    static SHARED: LazyLock<Azurite> = LazyLock::new(Azurite::start);
    &SHARED
}

#[cfg(feature = "s3-server")]
/// The one S3 server of this test binary, started on first use, without a bucket: see
/// [`S3::make_bucket`].
pub fn shared_s3() -> &'static S3 {
    static SHARED: LazyLock<S3> = LazyLock::new(|| S3::start(&[]));
    &SHARED
}
