//! Submits a task in a transaction of the shop's own. `docs/recipes.md` shows it.

use crate::booking::{BookSeat, Booking};
use counterstep::client::{Client, Handle};
use sqlx::PgTransaction;
use std::error::Error;

pub async fn book(
    client: &Client,
    mut transaction: PgTransaction<'_>,
    booking: &Booking,
) -> Result<Handle<BookSeat>, Box<dyn Error>> {
    let task = client.prepare::<BookSeat>(booking).await?;
    if let Some(statement) = task.statement() {
        let mut query = sqlx::query(&statement.sql);
        for param in &statement.params {
            query = query.bind(param);
        }
        query.execute(&mut *transaction).await?;
    }
    transaction.commit().await?;
    // Announces it to the workers.
    Ok(task.committed().await?)
}
