//! The `counterstep` program, with the shipped task types.

fn main() -> std::process::ExitCode {
    counterstep::cli::main(counterstep_tasks::tasks())
}
