//! Whole installations from seeds: the engine under all that may go wrong around it.

mod bank;
mod trip;

use bank::{Bank, Transfer, account};
use counterstep_contracts::TaskStatus;
use counterstep_steps::Registry;
use counterstep_testkit::Form;
use counterstep_testkit::simulation::{Choice, Outcome, Setup, Simulation};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use trip::{BookSeat, Trip};

/// Transfers and trips, of which some fail, some are cancelled, some store files.
fn all(made: &mut Setup) {
    let bank = Arc::new(Bank::default());
    let (answers, checked) = (bank.clone(), bank);
    let calls = &["bank"];
    let types = Registry::new().with_calls::<Transfer>(calls);
    let types = types
        .with_calls::<Trip>(calls)
        .with_calls::<BookSeat>(calls);
    made.types(types)
        .request(|choice| match choice.chance(600) {
            true => transfer(choice),
            false => trip(choice),
        })
        .service("bank", move |request| Ok(answers.answer(request)))
        .finally(move |ended| {
            for record in &ended.records {
                let booked = checked.of(record.task.id);
                account(record, booked)?;
            }
            Ok(())
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

fn simulation() -> Simulation {
    Simulation::of(all)
}

/// `SIMULATE_SEEDS`, `SIMULATE_FROM` and `SIMULATE_SECONDS` as `cargo xtask simulate` sets them.
fn set(name: &str, default: u64) -> u64 {
    let set = std::env::var(name).ok();
    set.map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn nothing_breaks_whatever_goes_wrong() {
    let seeds = simulation()
        .from(set("SIMULATE_FROM", 1))
        .seeds(set("SIMULATE_SEEDS", 200))
        .within(Duration::from_secs(set("SIMULATE_SECONDS", 30)));
    let began = std::time::Instant::now();
    let outcomes = seeds.check();
    let took = began.elapsed();
    let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    let mut statuses: BTreeMap<TaskStatus, u32> = BTreeMap::new();
    let mut points: BTreeMap<&str, u64> = BTreeMap::new();
    let mut troubles: BTreeMap<String, u64> = BTreeMap::new();
    for outcome in &outcomes {
        for (status, tasks) in &outcome.statuses {
            *statuses.entry(*status).or_default() += tasks;
        }
        for (point, times) in &outcome.points {
            *points.entry(point).or_default() += times;
        }
        for strike in &outcome.strikes {
            *troubles.entry(format!("{:?}", strike.trouble)).or_default() += 1;
        }
    }
    println!(
        "{} seeds in {took:?}, {:?} a seed; {} polls, {} s of simulated time; tasks {statuses:?}\nfaults {troubles:?}\npoints {points:?}",
        outcomes.len(),
        took / u32::try_from(outcomes.len().max(1)).unwrap_or(1),
        sum(|it| it.polls),
        sum(|it| it.lasted.as_secs()),
    );
    assert!(
        statuses.contains_key(&TaskStatus::Completed),
        "{statuses:?}"
    );
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
