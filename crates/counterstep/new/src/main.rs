//! The program: API, worker, reconciler and the operator's commands, for the task types of this
//! crate.

fn main() -> std::process::ExitCode {
    counterstep::cli::main(my_app::tasks())
}
