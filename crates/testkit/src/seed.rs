//! The chance of a test, from a seed that its output shows: a failure by chance can be run again.

use rand::SeedableRng;
use rand::rngs::StdRng;

/// The seed of a test's random choices: a new one in each run, or the value of the variable `SEED`.
/// It is printed, and the test runner shows it beside a failure.
///
/// # Panics
/// When `SEED` is no number.
#[must_use]
pub fn seed() -> u64 {
    let given = std::env::var("SEED")
        .ok()
        .map(|text| text.parse().expect("SEED is a number"));
    let seed = given.unwrap_or_else(rand::random::<u64>);
    println!("SEED={seed}");
    seed
}

/// How many cases a test runs: `usual`, or the value of the variable `RUNS`.
///
/// # Panics
/// When `RUNS` is no number.
#[must_use]
pub fn runs(usual: u64) -> u64 {
    let given = std::env::var("RUNS").ok();
    given.map_or(usual, |text| text.parse().expect("RUNS is a number"))
}

/// Random choices of a test, from its [`seed`].
///
/// # Panics
/// When `SEED` is no number.
#[must_use]
pub fn seeded() -> StdRng {
    StdRng::seed_from_u64(seed())
}
