//! A pool of connections to the shop's own tables, in the database that the engine has, too.

use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use std::error::Error;

/// Seats that are held.
pub struct Seats(pub PgPool);

impl Seats {
    /// In the database that `SHOP_DATABASE` names.
    pub async fn from_variable() -> Result<Self, Box<dyn Error + Send + Sync>> {
        let server: PgConnectOptions = match std::env::var("SHOP_DATABASE") {
            Ok(url) => url.parse()?,
            Err(_) => PgConnectOptions::new(),
        };
        let pool = PgPoolOptions::new().max_connections(8);
        Ok(Self(pool.connect_lazy_with(server)))
    }

    /// Holds a seat under a key. The same key again changes nothing.
    pub async fn hold(&self, key: &str, seat: &str) -> Result<(), sqlx::Error> {
        let text = "INSERT INTO seats (key, seat) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        let insert = sqlx::query(text).bind(key).bind(seat);
        insert.execute(&self.0).await.map(drop)
    }

    /// Frees what is held under a key, if there is something.
    pub async fn free(&self, key: &str) -> Result<(), sqlx::Error> {
        let delete = sqlx::query("DELETE FROM seats WHERE key = $1").bind(key);
        delete.execute(&self.0).await.map(drop)
    }
}
