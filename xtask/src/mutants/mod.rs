//! `cargo xtask mutants`: whether the tests notice when a decision is another one. Each file in `tests/mutants` changes one;
//! its first line says what it breaks and which test notices.
//!
//! All of them are built at once, into a copy of the checkout with a folder of its own for what is built: the sources have no trace
//! of them. A variable then chooses one for each run of a test.

mod checkout;
pub(crate) mod patch;
mod switch;

use checkout::{Built, Checkout};
use patch::Mutant;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A test that a mutant keeps running for longer hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// What became of a mutant.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Killed,
    /// Its test passes all the same.
    Survived,
    /// Its test neither passes nor fails in its time.
    Hangs,
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Killed => "killed",
            Self::Survived => "SURVIVED",
            Self::Hangs => "HANGS",
        })
    }
}

/// Builds all mutants, and runs all, or those with this in their names.
pub(crate) fn run(filter: Option<&str>) -> Result<(), String> {
    let started = Instant::now();
    let all = patch::all()?;
    let copy = Checkout::make(&switch::files(&all)?)?;
    let binaries: BTreeSet<_> = all.iter().map(|mutant| &mutant.binary).collect();
    let built = copy.build(&binaries)?;
    println!("built in {} s", started.elapsed().as_secs());
    let chosen = |mutant: &Mutant| filter.is_none_or(|filter| mutant.name.contains(filter));
    let mutants: Vec<Mutant> = all.into_iter().filter(chosen).collect();
    if mutants.is_empty() {
        return Err("no mutant has such a name".to_owned());
    }
    let started = Instant::now();
    passes_unchanged(&built, &mutants)?;
    let fates = fates(&built, &mutants)?;
    let seconds = started.elapsed().as_secs();
    let mut left = Vec::new();
    for (mutant, fate) in mutants.iter().zip(&fates) {
        println!("{}: {fate}", mutant.name);
        if *fate != Fate::Killed {
            left.push(format!("{} ({})", mutant.name, mutant.breaks));
        }
    }
    let killed = mutants.len() - left.len();
    println!(
        "\n{} mutants, {killed} killed, ran in {seconds} s",
        mutants.len()
    );
    match left.is_empty() {
        true => Ok(()),
        false => Err(format!("not killed:\n{}", left.join("\n"))),
    }
}

/// Each test is there, and passes while no mutant is chosen.
fn passes_unchanged(built: &Built, mutants: &[Mutant]) -> Result<(), String> {
    let mut tests: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for mutant in mutants {
        let of_binary = tests.entry(&mutant.binary).or_default();
        of_binary.insert(mutant.test.as_str());
    }
    for (binary, tests) in tests {
        let ended = built.test(binary, &tests, "", LIMIT)?;
        let missing: Vec<_> = tests.iter().filter(|test| !ended.passed(test)).collect();
        if !missing.is_empty() {
            return Err(format!(
                "of the unchanged sources these tests do not pass, or are not there: {missing:?}\n{}",
                ended.output
            ));
        }
    }
    Ok(())
}

/// As many at a time as there are cores.
fn fates(built: &Built, mutants: &[Mutant]) -> Result<Vec<Fate>, String> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut fates = Vec::new();
        while let at = next.fetch_add(1, Ordering::Relaxed)
            && let Some(mutant) = mutants.get(at)
        {
            fates.push((at, fate(built, mutant)?));
        }
        Ok(fates)
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut fates: Vec<(usize, Fate)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let ended = threads.into_iter().map(|thread| {
            let panicked = |_| Err("a thread panicked".to_owned());
            thread.join().unwrap_or_else(panicked)
        });
        let ended: Result<Vec<_>, String> = ended.collect();
        Ok::<_, String>(ended?.into_iter().flatten().collect())
    })?;
    fates.sort_by_key(|(at, _)| *at);
    Ok(fates.into_iter().map(|(_, fate)| fate).collect())
}

fn fate(built: &Built, mutant: &Mutant) -> Result<Fate, String> {
    let test = BTreeSet::from([mutant.test.as_str()]);
    let ended = built.test(&mutant.binary, &test, &mutant.name, LIMIT)?;
    Ok(match ended.success {
        None => Fate::Hangs,
        Some(true) => Fate::Survived,
        Some(false) if ended.failed(&mutant.test) => Fate::Killed,
        Some(false) => {
            return Err(format!(
                "the test of {} does not run:\n{}",
                mutant.name, ended.output
            ));
        }
    })
}
