//! A pool of connections to the shop's own tables, in the database that the engine has, too.

use deadpool::managed::{Manager, Metrics, Pool, RecycleError, RecycleResult};
use std::error::Error;
use tokio_postgres::{Client, Config, NoTls};

/// Makes connections.
#[derive(Debug)]
pub struct Connections(Config);

impl Manager for Connections {
    type Type = Client;
    type Error = tokio_postgres::Error;

    async fn create(&self) -> Result<Client, tokio_postgres::Error> {
        let (client, connection) = self.0.connect(NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    async fn recycle(
        &self,
        client: &mut Client,
        _: &Metrics,
    ) -> RecycleResult<tokio_postgres::Error> {
        if client.is_closed() {
            return Err(RecycleError::message("the connection is closed"));
        }
        Ok(())
    }
}

/// Seats that are held.
pub struct Seats(pub Pool<Connections>);

type Failed = deadpool::managed::PoolError<tokio_postgres::Error>;

impl Seats {
    /// In the database that `SHOP_DATABASE` names.
    pub async fn from_variable() -> Result<Self, Box<dyn Error + Send + Sync>> {
        let url = std::env::var("SHOP_DATABASE").unwrap_or_default();
        let pool = Pool::builder(Connections(url.parse()?)).max_size(8);
        Ok(Self(pool.build()?))
    }

    /// Holds a seat under a key. The same key again changes nothing.
    pub async fn hold(&self, key: &str, seat: &str) -> Result<(), Failed> {
        let text = "INSERT INTO seats (key, seat) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        self.0.get().await?.execute(text, &[&key, &seat]).await?;
        Ok(())
    }

    /// Frees what is held under a key, if there is something.
    pub async fn free(&self, key: &str) -> Result<(), Failed> {
        let text = "DELETE FROM seats WHERE key = $1";
        self.0.get().await?.execute(text, &[&key]).await?;
        Ok(())
    }
}
