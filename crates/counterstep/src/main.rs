//! The `counterstep` program, with the shipped task types.

// Small and short-lived values by the thousand: under load glibc's allocator was a quarter of a
// worker's time.
#[cfg(feature = "servers")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    counterstep::cli::main(counterstep_tasks::tasks())
}
