//! The program: API, worker, reconciler and the operator's commands, for the task types of this
//! crate, and a command of its own.

use counterstep::clap::{Command, arg};
use counterstep::{Exit, Program};

fn main() -> std::process::ExitCode {
    let book = Command::new("book").about("Book a seat").arg(arg!(<SEAT>));
    Program::new(lamp_shop::tasks())
        .command(book, |arguments| {
            let seat = arguments.get_one::<String>("SEAT").expect("it is required");
            let runtime = tokio::runtime::Runtime::new().map_err(Exit::failed)?;
            let answer = runtime
                .block_on(lamp_shop::book(seat))
                .map_err(Exit::failed)?;
            println!("{answer}");
            Ok(())
        })
        .main()
}
