//! The task types of this program.

mod booking;
mod checkout;
mod desk;
mod seats;
mod ship_order;
mod stock;
mod tickets;

pub use booking::{Approval, BookSeat, Booking};
pub use checkout::{Checkout, Order};
pub use seats::Seats;
pub use ship_order::ShipOrder;
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
        .with::<ShipOrder>()
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
    let booking = Booking {
        seat: seat.to_owned(),
    };
    let mut transaction = seats.0.begin().await?;
    let insert = sqlx::query("INSERT INTO bookings (seat) VALUES ($1)").bind(seat);
    insert.execute(&mut *transaction).await?;
    let task = desk::book(&service.client(), transaction, &booking).await?;
    let by = "Ada".to_owned();
    task.signal("approval", &Approval { by }).await?;
    let answer = task.response().await?;
    service.stop().await?;
    Ok(answer)
}
