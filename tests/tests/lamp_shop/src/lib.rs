//! The task types of this program.

mod booking;
mod checkout;
mod seats;
mod stock;
mod tickets;

pub use booking::{Approval, BookSeat, Booking};
pub use checkout::{Checkout, Order};
pub use seats::Seats;
pub use stock::Stock;
pub use tickets::{MailTicket, PrintTicket, Ticket};

use counterstep::prelude::*;
use counterstep::{Layers, Roles, Service};
use std::error::Error;

/// All of them, with what their steps share.
pub fn tasks() -> Registry {
    Registry::new()
        .provide(Stock::default())
        .provide_with(Seats::from_variable)
        .with::<Checkout>()
        .with::<BookSeat>()
        .with::<PrintTicket>()
        .with::<MailTicket>()
        .table("tickets", TableRight::Insert)
}

/// Books a seat: a row of the shop's own and a task in one transaction. Approves it, and waits for the
/// answer.
pub async fn book(seat: &str) -> Result<String, Box<dyn Error>> {
    let settings = Layers::from_variables()?.resolve()?;
    let service = Service::start(tasks(), &settings, Roles::default()).await?;
    let seats = Seats::from_variable()
        .await
        .map_err(|error| error.to_string())?;
    let mut connection = seats.0.get().await?;
    let client = service.client();
    let booking = Booking {
        seat: seat.to_owned(),
    };

    // One that is rolled back leaves no task.
    let mut transaction = connection.transaction().await?;
    let none = client
        .submit_in::<BookSeat>(&mut transaction, &booking)
        .await?;
    transaction.rollback().await?;
    if none.committed().await.is_ok() {
        return Err("a transaction that was rolled back has left a task".into());
    }

    let mut transaction = connection.transaction().await?;
    transaction
        .execute("INSERT INTO bookings (seat) VALUES ($1)", &[&seat])
        .await?;
    let task = client
        .submit_in::<BookSeat>(&mut transaction, &booking)
        .await?;
    transaction.commit().await?;
    let task = task.committed().await?;
    let by = "Ada".to_owned();
    task.signal("approval", &Approval { by }).await?;
    let answer = task.response().await?;
    service.stop().await?;
    Ok(answer)
}
