//! What `docs/tasks.md` shows for sqlx, compiled with the real one by `cargo xtask dependencies` as a
//! module of a new crate: no crate of this workspace depends on sqlx, which would choose its SQLite.

use crate::checkout::{Checkout, Order};
use counterstep::client::Client;

type Failed = Box<dyn std::error::Error>;

/// Submits in a transaction of the caller's.
pub async fn book(
    client: &Client,
    mut transaction: sqlx::PgTransaction<'_>,
    order: Order,
) -> Result<(), Failed> {
    let task = client.prepare::<Checkout>(&order).await?;
    if let Some(statement) = task.statement() {
        let mut query = sqlx::query(&statement.sql);
        for param in &statement.params {
            query = query.bind(param);
        }
        query.execute(&mut *transaction).await?;
    }
    transaction.commit().await?;
    task.committed().await?;
    Ok(())
}
