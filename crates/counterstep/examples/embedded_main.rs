//! An engine in a program without a server: it starts a worker, submits a task, and stops in order.

use counterstep::prelude::*;
use counterstep::{ReconcilerSettings, Roles, Service, Settings, WorkerSettings};
use serde::{Deserialize, Serialize};

/// Who is greeted.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Guest {
    /// The name.
    pub name: String,
}

/// How guests are greeted here: a value that the program provides to its steps.
#[derive(Debug)]
pub struct Manners(pub &'static str);

/// What a guest is told.
#[derive(Debug, Serialize, Deserialize)]
pub struct Greeting(String);

/// Greets a guest.
#[derive(Debug)]
pub struct Greet;

#[distributed_task]
impl Greet {
    type Request = Guest;
    type Response = String;

    #[step(1, host = "worker")]
    #[pure]
    async fn greet(guest: &Guest, manners: &State<Manners>) -> StepResult<Greeting> {
        Ok(Greeting(format!("{}, {}", manners.0, guest.name)))
    }

    fn respond(greeting: &Greeting) -> String {
        greeting.0.clone()
    }
}

/// The task types of the program. A connection pool would be made as the manners are: by
/// `provide_with`, when the engine starts.
#[must_use]
pub fn tasks() -> Registry {
    Registry::new()
        .with::<Greet>()
        .provide_with(|| async { Ok::<_, std::io::Error>(Manners("good day")) })
}

/// A worker and a reconciler.
#[must_use]
pub fn roles() -> Roles {
    Roles {
        worker: Some(WorkerSettings::default()),
        reconciler: Some(ReconcilerSettings::default()),
        ..Roles::default()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    // `Layers::from_variables()?.resolve()?` reads the variables and the file that the programs read.
    let settings = Settings::in_folder(folder.path());
    let service = Service::start(tasks(), &settings, roles()).await?;
    let guest = Guest {
        name: "Ada".to_owned(),
    };
    let task = service.client().submit::<Greet>(&guest).await?;
    println!("{}", task.response().await?);
    service.stop().await?;
    Ok(())
}
