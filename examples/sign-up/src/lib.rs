//! Signing up: an account is made, a person approves a large plan, and the account is opened, or
//! taken back.

mod office;

use counterstep::prelude::*;
pub use office::Office;
use serde::{Deserialize, Serialize};

/// What a customer fills in.
#[derive(Debug, Serialize, Deserialize)]
pub struct Application {
    pub name: String,
    pub mail: String,
    pub plan: Plan,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Plan {
    Free,
    Company,
}

/// What a person says to a company's application.
#[derive(Debug, Serialize, Deserialize)]
pub struct Approval {
    pub approved: bool,
    pub by: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Account {
    pub number: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Opened {
    pub approved_by: Option<String>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    pub account: String,
    pub approved_by: Option<String>,
}

const PATIENT: RetryPolicy = RetryPolicy::exponential("200ms").max_retries(5).cap("10s");

pub struct SignUp;

#[distributed_task(cancellable, timeout = "30d")]
impl SignUp {
    type Request = Application;
    type Response = Welcome;

    #[step(1, host = "worker", retry = PATIENT, undo = close)]
    async fn reserve(
        ctx: &StepContext,
        application: &Application,
        office: &State<Office>,
    ) -> StepResult<Account> {
        // The same number on every attempt: a second one finds what the first one wrote.
        let number = ctx.task_id().to_string();
        office.write_account(&number, &application.name).await?;
        tracing::info!(number, "account reserved");
        Ok(Account { number })
    }

    async fn close(ctx: &StepContext, office: &State<Office>) -> UndoResult {
        // By the task and not by the output: an attempt whose end is unknown has none.
        office.remove_account(&ctx.task_id().to_string()).await
    }

    /// Waits for `POST /api/tasks/{id}/signals/approval`, without a slot or a lease.
    #[step(2, host = "worker", when = is_company)]
    fn approval() -> AwaitSignal<Approval> {
        AwaitSignal::within("14d")
    }

    fn is_company(application: &Application) -> bool {
        application.plan == Plan::Company
    }

    #[step(3, host = "worker", no_undo = "it only decides")]
    async fn decide(approval: Option<&Approval>) -> StepResult<Opened> {
        match approval {
            Some(Approval {
                approved: false,
                by,
            }) => Err(StepError::permanent(format_args!("{by} declined"))),
            Some(Approval { by, .. }) => Ok(Opened {
                approved_by: Some(by.clone()),
            }),
            None => Ok(Opened { approved_by: None }),
        }
    }

    #[step(4, host = "worker", retry = PATIENT, no_undo = "a mail cannot be taken back")]
    async fn welcome(
        ctx: &StepContext,
        application: &Application,
        _opened: &Opened,
        office: &State<Office>,
    ) -> StepResult<()> {
        let text = format!("Welcome, {}!\n", application.name);
        office
            .send(&ctx.effect_key(), &application.mail, &text)
            .await
    }

    fn respond(account: &Account, opened: &Opened) -> Welcome {
        Welcome {
            account: account.number.clone(),
            approved_by: opened.approved_by.clone(),
        }
    }
}

pub fn tasks(office: Office) -> Registry {
    Registry::new().provide(office).with::<SignUp>()
}
