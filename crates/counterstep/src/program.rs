//! A whole program, and what its author puts beside the engine's own commands, routes and metrics.

use crate::cli;
use clap::{ArgMatches, Command};
use counterstep_api::Beside;
use counterstep_node::Exit;
use counterstep_operations::Running;
use counterstep_steps::Registry;
use std::fmt;
use std::process::ExitCode;

/// A program for these task types: API, worker, reconciler and operator's tool in one.
#[derive(Debug)]
pub struct Program {
    registry: Registry,
    beside: Beside,
    own: OwnCommands,
    operations: &'static [Running],
}

impl Program {
    /// With nothing beside the engine.
    #[must_use]
    pub fn new(registry: Registry) -> Self {
        Self {
            registry,
            beside: Beside::default(),
            own: OwnCommands::default(),
            operations: counterstep_operations::ALL,
        }
    }

    /// Adds a command. Where the command line names it, `run` gets its arguments, and the program ends
    /// with what it returns.
    ///
    /// # Panics
    /// When there is a command of its name.
    #[must_use]
    pub fn command(
        mut self,
        command: Command,
        run: impl FnOnce(&ArgMatches) -> Result<(), Exit> + 'static,
    ) -> Self {
        let name = command.get_name();
        assert!(
            !cli::has_command(name) && !self.own.has(name),
            "the program has a command `{name}` already; expected another name"
        );
        self.own.0.push((command, Box::new(run)));
        self
    }

    /// Serves routes and metrics beside those of the API, in `api` and `dev`.
    #[must_use]
    pub fn beside(mut self, beside: Beside) -> Self {
        self.beside = beside;
        self
    }

    /// With these operations in place of the product's: as routes with their roles, in the document, as commands, forms and tools. For
    /// tests, which add one to the product's.
    #[doc(hidden)]
    #[must_use]
    pub const fn operations(mut self, operations: &'static [Running]) -> Self {
        self.operations = operations;
        self
    }

    /// Does what the command line says.
    #[must_use]
    pub fn main(self) -> ExitCode {
        cli::run(self.registry, self.beside, self.own, self.operations)
    }
}

type Run = Box<dyn FnOnce(&ArgMatches) -> Result<(), Exit>>;

/// Commands beside the engine's.
#[derive(Default)]
pub(crate) struct OwnCommands(Vec<(Command, Run)>);

impl fmt::Debug for OwnCommands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|(command, _)| command.get_name());
        f.debug_list().entries(names).finish()
    }
}

impl OwnCommands {
    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(command, _)| command.get_name() == name)
    }

    pub(crate) fn add_to(&self, whole: Command) -> Command {
        let own = self.0.iter().map(|(command, _)| command.clone());
        whole.subcommands(own)
    }

    /// Runs the one that the arguments name; `None`: they name one of the engine's.
    pub(crate) fn run(self, matches: &ArgMatches) -> Option<Result<(), Exit>> {
        let (named, arguments) = matches.subcommand()?;
        let mut own = self.0.into_iter();
        let (_, run) = own.find(|(command, _)| command.get_name() == named)?;
        Some(run(arguments))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    #[test]
    fn a_command_of_the_programs_own_gets_its_arguments_and_no_other_one_is_run() {
        let seen = Rc::new(Cell::new(0));
        let count = seen.clone();
        let program = Program::new(Registry::new()).command(
            Command::new("import").arg(clap::arg!(<COUNT>).value_parser(clap::value_parser!(u32))),
            move |arguments| {
                count.set(*arguments.get_one::<u32>("COUNT").expect("it is required"));
                Err(Exit::failed("half of it"))
            },
        );
        let whole = program.own.add_to(Command::new("program"));
        let matches = whole.get_matches_from(["program", "import", "7"]);
        let ended = program.own.run(&matches).expect("it is named");
        assert_eq!(ended.expect_err("it says so").message, "half of it");
        assert_eq!(seen.get(), 7);
        let engine = Command::new("program").subcommand(Command::new("migrate"));
        let matches = engine.get_matches_from(["program", "migrate"]);
        assert!(OwnCommands::default().run(&matches).is_none());
    }

    #[test]
    #[should_panic(expected = "has a command `worker` already")]
    fn a_name_that_is_taken_is_refused() {
        drop(Program::new(Registry::new()).command(Command::new("worker"), |_| Ok(())));
    }
}
