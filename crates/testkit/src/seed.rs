//! The chance of a test, from a seed that its output shows: a failure by chance can be run again.

use rand::SeedableRng;
use rand::rngs::StdRng;

/// Random choices of a test. The seed is a new one in each run, or the value of the variable `SEED`; it is printed, and
/// the test runner shows it beside a failure.
///
/// # Panics
/// When `SEED` is no number.
#[must_use]
pub fn seeded() -> StdRng {
    let given = std::env::var("SEED").ok().map(|text| text.parse().expect("SEED is a number"));
    let seed = given.unwrap_or_else(rand::random::<u64>);
    println!("SEED={seed}");
    StdRng::seed_from_u64(seed)
}
