//! The program of the product with one operation more. It is declared here, and stands in the list that the program is given; nothing
//! else knows it.

use counterstep::Program;
use counterstep::contracts::QueueName;
use counterstep::contracts::access::Role;
use counterstep::contracts::operation::{About, Access, Chapter, Operation};
use counterstep::contracts::queue::{PauseView, QueueRequest};
use counterstep_operations::{ALL, Cx, Refused, Run, Running};
use std::process::ExitCode;

struct LightLamp;

impl Operation for LightLamp {
    type Target = QueueName;
    type Input = QueueRequest;
    type Output = PauseView;
    const ABOUT: About = About::post(
        "lightLamp",
        "/api/lamps/{name}/light",
        Access::Role(Role::Operate),
    )
    .summary(Chapter::Process, "Light a lamp")
    .answers(200, "It shines")
    .command(["lamps", "light"], &[]);

    fn example() -> (QueueRequest, PauseView) {
        let (note, text) = ("it is dark".to_owned(), String::new);
        let shines = PauseView {
            since: text(),
            by: text(),
            note: note.clone(),
        };
        (QueueRequest { note, actor: None }, shines)
    }
}

impl Run for LightLamp {
    async fn run(cx: Cx, lamp: QueueName, input: QueueRequest) -> Result<PauseView, Refused> {
        let (by, note) = cx.decided::<Self>(&input.note, input.actor.as_deref())?;
        let since = format!("{} shines", lamp.0);
        Ok(PauseView { since, by, note })
    }
}

fn main() -> ExitCode {
    let operations = [ALL, &[Running::of::<LightLamp>()]].concat();
    Program::new(counterstep_tasks::tasks())
        .operations(operations.leak())
        .main()
}
