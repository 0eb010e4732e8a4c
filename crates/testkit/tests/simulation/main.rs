//! Whole installations from seeds: the engine under all that may go wrong around it.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod bank;
mod claim;
mod points;
mod trip;
mod user;

use bank::{Transfer, account, answer};
use claim::{Claim, ClaimBefore, Watch};
use counterstep_steps::Registry;
use counterstep_testkit::Form;
use counterstep_testkit::simulation::{Choice, Ledger, Setup, Simulation};
use serde_json::json;
use std::time::{Duration, Instant};
use trip::{BookSeat, Trip};

/// Transfers, trips, claims and watches, of which some fail, some are cancelled, some store files.
fn all(made: &mut Setup) {
    let ledger = Ledger::default();
    let (answers, checked) = (ledger.clone(), ledger);
    let types = Registry::new().with::<Transfer>();
    let types = types.with::<Trip>().with::<BookSeat>();
    let types = types.with::<Watch>().with::<ClaimBefore>();
    made.older(types.clone())
        .types(types.with::<Claim>())
        .request(|choice| match choice.below(100) {
            0..40 => transfer(choice),
            40..62 => trip(choice),
            62..88 => claim(choice),
            _ => watch(choice),
        })
        .service("bank", move |request| Ok(answer(&answers, request)))
        .finally(move |ended| {
            let mut records = ended.records.iter();
            records.try_for_each(|record| account(record, &checked))?;
            ended.what_stands_is_listed(&checked)
        });
}

fn transfer(choice: &mut Choice) -> Form {
    let fails_at = choice.chance(300).then(|| choice.within(1, 5));
    Form::to::<Transfer>()
        .field("cents", choice.within(1, 500))
        .field("fails_at", fails_at.unwrap_or_default())
        .file(
            "receipt",
            "receipt.txt",
            format!("receipt {}", choice.draw()),
        )
}

fn trip(choice: &mut Choice) -> Form {
    let fails_at = choice.chance(400).then(|| choice.within(1, 5));
    let seats = choice.below(4);
    let seats: Vec<_> = (0..seats)
        .map(|no| json!({ "no": no, "is_broken": choice.chance(100) }))
        .collect();
    Form::to::<Trip>()
        .field("customer", *choice.one_of(&["anna", "bert"]))
        .field("seats", seats)
        .field("fails_at", fails_at.unwrap_or_default())
}

fn claim(choice: &mut Choice) -> Form {
    let within = format!("{}s", choice.within(2, 25));
    let pays = choice.chance(700);
    let form = Form::to::<Claim>()
        .field("within", within)
        .field("is_stubborn", choice.chance(400));
    let body = json!({ "pays": pays, "by": *choice.one_of(&["carla", "dora"]) });
    match choice.below(10) {
        0 => form.never_answer("decision"),
        1 => form.answer_late("decision", body),
        _ => form.answer("decision", body),
    }
}

fn watch(choice: &mut Choice) -> Form {
    Form::to::<Watch>().field("seconds", choice.within(5, 90))
}

fn simulation() -> Simulation {
    Simulation::of(all)
}

/// `SIMULATE_SEEDS`, `SIMULATE_FROM` and `SIMULATE_SECONDS` as `cargo xtask simulate` sets them.
fn set(name: &str) -> Option<u64> {
    let set = std::env::var(name).ok();
    set.map(|text| text.parse().expect("a number"))
}

/// The first new seed: every commit tries others.
fn seeds_of_the_commit() -> u64 {
    let mut git = std::process::Command::new("git");
    git.args(["rev-parse", "HEAD"])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    let head = git.output().ok();
    let head = head.and_then(|it| String::from_utf8(it.stdout).ok());
    let number = head.and_then(|it| u64::from_str_radix(it.get(..8)?, 16).ok());
    1_000_000 + number.unwrap_or_default() * 1_000
}

/// Seeds in a second, at least, where they run for a time that was asked for: one that grows slow finds nothing any more.
const LEAST: f64 = 400.0 / 60.0;

/// Seeds of a run that has to reach everything.
const LONG: usize = 1_000;

#[test]
fn nothing_breaks_whatever_goes_wrong() {
    let from = set("SIMULATE_FROM").unwrap_or_else(seeds_of_the_commit);
    let (seeds, seconds) = (set("SIMULATE_SEEDS"), set("SIMULATE_SECONDS"));
    let asked = seeds.is_some() || seconds.is_some();
    let simulation = simulation()
        .kept(if asked { &[] } else { &points::KEPT })
        .from(from)
        .seeds(seeds.unwrap_or(u64::MAX))
        .within(Duration::from_secs(seconds.unwrap_or(match asked {
            true => u64::from(u32::MAX),
            false => 20,
        })));
    let began = Instant::now();
    let outcomes = simulation.check(|_| Ok(()));
    let took = began.elapsed();
    println!("seeds from {from} on\n{}", points::summary(&outcomes, took));
    if !asked {
        let kept = outcomes.iter().filter(|it| points::KEPT.contains(&it.seed));
        points::all_reached(&kept.collect::<Vec<_>>());
    } else if outcomes.len() >= LONG {
        points::all_reached(&outcomes.iter().collect::<Vec<_>>());
    }
    if let (Some(seconds), None) = (seconds, seeds) {
        let least = LEAST * seconds as f64;
        assert!(
            outcomes.len() as f64 >= least,
            "{} seeds in {took:?}: expected {least} at least",
            outcomes.len()
        );
    }
}

/// Prints the seeds that `points.rs` is to keep, of those that the variables name.
#[test]
#[ignore = "run by hand where points were added, or the seeds mean something else"]
fn seeds_to_keep() {
    let seeds = simulation()
        .from(set("SIMULATE_FROM").unwrap_or(1))
        .seeds(set("SIMULATE_SEEDS").unwrap_or(1_000));
    let outcomes = seeds.check(|_| Ok(()));
    println!("{:?}", points::chosen(&outcomes));
    points::all_reached(&outcomes.iter().collect::<Vec<_>>());
}

#[test]
fn a_seed_is_the_same_each_time() {
    let run = || {
        let outcomes = (1..=20).map(|seed| simulation().run(seed));
        outcomes
            .map(|it| (it.hash, it.events, it.polls))
            .collect::<Vec<_>>()
    };
    // On another thread, whose hash maps have other keys.
    let other = std::thread::spawn(run).join().expect("it runs");
    let here = run();
    for (seed, (one, two)) in here.iter().zip(&other).enumerate() {
        assert_eq!(one, two, "seed {}", seed + 1);
    }
}
