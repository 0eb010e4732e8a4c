//! Prints tickets into the shop's own table, with the step's own commit, and mails them: each on a queue of its own. Written
//! into a crate of `counterstep new` by the test of such crates.

use counterstep::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub struct Ticket {
    pub number: String,
}

#[derive(Serialize, Deserialize)]
pub struct Printed {
    pub number: String,
}

pub struct PrintTicket;

#[distributed_task]
impl PrintTicket {
    type Request = Ticket;
    type Response = String;

    #[step(1, host = "worker", no_undo = "a ticket that is printed stays printed")]
    async fn print(ctx: &StepContext, ticket: &Ticket) -> StepResult<Printed> {
        let row = Sql::new("INSERT INTO tickets (number) VALUES ($1)");
        ctx.in_transaction(row.bind(ticket.number.as_str()).rows(1));
        Ok(Printed {
            number: ticket.number.clone(),
        })
    }

    fn respond(print: &Printed) -> String {
        print.number.clone()
    }
}

pub struct MailTicket;

#[distributed_task]
impl MailTicket {
    type Request = Ticket;
    type Response = String;

    #[step(1, host = "worker", no_undo = "a mail that is sent stays sent")]
    async fn mail(ticket: &Ticket) -> StepResult<Printed> {
        Ok(Printed {
            number: ticket.number.clone(),
        })
    }

    fn respond(mail: &Printed) -> String {
        mail.number.clone()
    }
}
