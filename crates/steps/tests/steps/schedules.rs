//! When a schedule is due: tables of a pure function.

use counterstep_contracts::ScheduleSpec;
use counterstep_steps::schedule::{When, read, read_stored};
use counterstep_steps::times::DbTime;
use counterstep_steps::times::rfc3339;

fn spec(cron: &str, zone: &str) -> ScheduleSpec {
    ScheduleSpec {
        cron: Some(cron.to_owned()),
        zone: Some(zone.to_owned()),
        ..ScheduleSpec::of("Zip")
    }
}

fn when(cron: &str, zone: &str) -> When {
    read(&mut spec(cron, zone)).unwrap_or_else(|error| panic!("{cron}: {error}"))
}

fn time(text: &str) -> DbTime {
    let mut once = ScheduleSpec {
        run_at: Some(text.to_owned()),
        ..ScheduleSpec::of("Zip")
    };
    let Ok(When::Once(at)) = read(&mut once) else {
        panic!("{text}")
    };
    at
}

fn short(time: DbTime) -> String {
    rfc3339(time).replace(".000000Z", "Z")
}

/// The first due times after one.
fn due(cron: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let when = when(cron, zone);
    let first = when.after(time(after));
    std::iter::successors(first, |due| when.after(*due))
        .take(count)
        .map(short)
        .collect()
}

fn assert_due(cron: &str, zone: &str, after: &str, expected: &[&str]) {
    assert_eq!(
        due(cron, zone, after, expected.len()),
        expected,
        "{cron} in {zone} after {after}"
    );
}

const BERLIN: &str = "Europe/Berlin";
const NEW_YORK: &str = "America/New_York";

#[test]
fn expressions_mean_what_crontab_says() {
    for (cron, after, expected) in [
        (
            "* * * * *",
            "2026-01-01T00:00:00Z",
            ["2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"],
        ),
        (
            "*/20 9-10 * * *",
            "2026-01-01T09:20:00Z",
            ["2026-01-01T09:40:00Z", "2026-01-01T10:00:00Z"],
        ),
        (
            "0 3 * * *",
            "2026-01-01T03:00:00Z",
            ["2026-01-02T03:00:00Z", "2026-01-03T03:00:00Z"],
        ),
        (
            "5/25 0 * * *",
            "2026-01-01T00:05:00Z",
            ["2026-01-01T00:30:00Z", "2026-01-01T00:55:00Z"],
        ),
        // Both days are given: one of them is enough. 2026-01-05 is a Monday.
        (
            "0 0 13 * mon",
            "2026-01-05T00:00:00Z",
            ["2026-01-12T00:00:00Z", "2026-01-13T00:00:00Z"],
        ),
        (
            "0 0 * * 0",
            "2026-01-01T00:00:00Z",
            ["2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z"],
        ),
        (
            "0 0 * * 7",
            "2026-01-01T00:00:00Z",
            ["2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z"],
        ),
        (
            "0 0 * * Fri-6",
            "2026-01-01T00:00:00Z",
            ["2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"],
        ),
        (
            "0 12 31 * *",
            "2026-01-31T12:00:00Z",
            ["2026-03-31T12:00:00Z", "2026-05-31T12:00:00Z"],
        ),
        (
            "0 0 1 jan,JUL *",
            "2026-01-01T00:00:00Z",
            ["2026-07-01T00:00:00Z", "2027-01-01T00:00:00Z"],
        ),
        (
            "0 0 29 2 *",
            "2026-01-01T00:00:00Z",
            ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"],
        ),
        (
            "@monthly",
            "2026-01-01T00:00:00Z",
            ["2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"],
        ),
        (
            "@hourly",
            "2026-01-01T00:00:00Z",
            ["2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z"],
        ),
        // Six fields: the second first.
        (
            "* * * * * *",
            "2026-12-31T23:59:59Z",
            ["2027-01-01T00:00:00Z", "2027-01-01T00:00:01Z"],
        ),
        (
            "*/30 59 23 31 12 *",
            "2026-01-01T00:00:00Z",
            ["2026-12-31T23:59:00Z", "2026-12-31T23:59:30Z"],
        ),
        // A part of a second is over before the next one begins.
        (
            "* * * * * *",
            "2026-01-01T00:00:00.900Z",
            ["2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"],
        ),
    ] {
        assert_due(cron, "UTC", after, &expected);
    }
    // 2100 is no leap year.
    assert_due(
        "0 0 29 2 *",
        "UTC",
        "2096-03-01T00:00:00Z",
        &["2104-02-29T00:00:00Z"],
    );
}

#[test]
fn what_is_no_expression_is_refused_with_the_field() {
    for (cron, words) in [
        ("", "has 0"),
        ("* * * *", "has 4"),
        ("* * * * * * *", "has 7"),
        (
            "60 * * * *",
            "the minute is `60`; expected *, or numbers from 0 to 59",
        ),
        ("* 24 * * *", "the hour is `24`"),
        ("* * 0 * *", "the day of the month is `0`"),
        (
            "* * * 13 *",
            "the month is `13`; expected *, or numbers from 1 to 12, or names like feb",
        ),
        ("* * * * 8", "the day of the week is `8`"),
        ("* * * * fri-mon", "the day of the week is `fri-mon`"),
        ("*/0 * * * *", "the minute is `*/0`"),
        ("5-1 * * * *", "the minute is `5-1`"),
        ("1,,2 * * * *", "the minute is `1,,2`"),
        ("+1 * * * *", "the minute is `+1`"),
        ("60 * * * * *", "the second is `60`"),
        ("0 0 30 2 *", "names no day that exists"),
        ("@often", "has 1"),
        (
            "*/90 * * * *",
            "the minute is `*/90`: a step of 90 goes beyond 0-59; write `0` for what `*/90` means, or a step of at most 59",
        ),
        ("*/60 * * * *", "the minute is `*/60`: a step of 60"),
        ("0 */36 * * *", "the hour is `*/36`: a step of 36"),
        (
            "0 0 1 */13 *",
            "the month is `*/13`: a step of 13 goes beyond 1-12; write `1`",
        ),
        ("0 0 * * */7", "the day of the week is `*/7`: a step of 7"),
        ("50-59/10 * * * *", "write `50` for what `50-59/10` means"),
        ("0 0 * * FRI-SUN", "write `5-6,0` for `FRI-SUN`"),
        ("0 22-2 * * *", "write `22-23,0-2` for `22-2`"),
    ] {
        let error = read(&mut spec(cron, "UTC")).expect_err(cron);
        assert!(
            error.pointer == "cron" && error.message.contains(words),
            "{cron}: {error:?}"
        );
    }
    for zone in ["Europe/Atlantis", "Etc/Unknown", "Factory", "factory"] {
        let error = read(&mut spec("* * * * *", zone)).expect_err(zone);
        assert!(
            error.pointer == "zone" && error.message.contains(zone),
            "{error:?}"
        );
    }
    let far = ScheduleSpec {
        run_at: Some("9999-12-31T00:00:00Z".to_owned()),
        ..ScheduleSpec::of("Zip")
    };
    let error = read(&mut far.clone()).expect_err("too far");
    assert!(error.message.contains("too far away"), "{error:?}");
    for (spec, pointer) in [
        (ScheduleSpec::of("Zip"), "cron"),
        (
            ScheduleSpec {
                run_at: Some("tomorrow".to_owned()),
                ..ScheduleSpec::of("Zip")
            },
            "run_at",
        ),
        (
            ScheduleSpec {
                run_at: Some("2026-01-01T00:00:00Z".to_owned()),
                ..spec("* * * * *", "UTC")
            },
            "run_at",
        ),
        (
            ScheduleSpec {
                grace: "soon".to_owned(),
                ..spec("* * * * *", "UTC")
            },
            "grace",
        ),
        (
            ScheduleSpec {
                catch_up_limit: 0,
                ..spec("* * * * *", "UTC")
            },
            "catch_up_limit",
        ),
    ] {
        assert_eq!(
            read(&mut spec.clone()).expect_err("refused").pointer,
            pointer,
            "{spec:?}"
        );
    }
}

#[test]
fn what_an_earlier_version_took_goes_on_as_it_did() {
    for (cron, zone, pointer, next) in [
        ("*/90 * * * *", "UTC", Some("cron"), "2026-01-01T01:00:00Z"),
        ("0 */36 * * *", "UTC", Some("cron"), "2026-01-02T00:00:00Z"),
        ("0 0 1 */13 *", "UTC", Some("cron"), "2027-01-01T00:00:00Z"),
        (
            "30 * * * *",
            "Factory",
            Some("zone"),
            "2026-01-01T00:30:00Z",
        ),
        ("30 * * * *", "UTC", None, "2026-01-01T00:30:00Z"),
    ] {
        let stored =
            read_stored(&spec(cron, zone)).unwrap_or_else(|error| panic!("{cron}: {error}"));
        assert_eq!(
            stored.refused.map(|error| error.pointer).as_deref(),
            pointer,
            "{cron} {zone}"
        );
        let due = stored.when.after(time("2026-01-01T00:00:00Z"));
        assert_eq!(due.map(short).as_deref(), Some(next), "{cron} {zone}");
    }
    read_stored(&spec("* * * * 8", "UTC")).expect_err("no version took it");
}

#[test]
fn a_step_in_a_field_of_days_restricts_it() {
    // 2026-01-05 is a Monday: odd days, and Mondays.
    let first = "2026-01-05T00:00:00Z";
    let days = [
        "2026-01-07T00:00:00Z",
        "2026-01-09T00:00:00Z",
        "2026-01-11T00:00:00Z",
        "2026-01-12T00:00:00Z",
    ];
    assert_due("0 0 */2 * mon", "UTC", first, &days);
    assert_due(
        "0 0 */1 * mon",
        "UTC",
        first,
        &["2026-01-12T00:00:00Z", "2026-01-19T00:00:00Z"],
    );
    assert_due(
        "0 0 13 * */6",
        "UTC",
        first,
        &[
            "2026-01-10T00:00:00Z",
            "2026-01-11T00:00:00Z",
            "2026-01-13T00:00:00Z",
        ],
    );
}

#[test]
fn an_hour_that_comes_twice_is_no_rest_for_what_names_each_hour() {
    // Berlin, 2026-10-25: from 3:00 summer time, 1:00 UTC, back to 2:00.
    let times = [
        "2026-10-25T00:30:00Z",
        "2026-10-25T00:45:00Z",
        "2026-10-25T01:00:00Z",
        "2026-10-25T01:15:00Z",
    ];
    for cron in ["*/15 0-23 * * *", "*/15 * * * *"] {
        assert_due(cron, BERLIN, "2026-10-25T00:15:00Z", &times);
    }
}

#[test]
fn words_are_stored_in_one_form() {
    let mut words = ScheduleSpec {
        grace: "60s".to_owned(),
        ..spec("  0  3 * * * ", "europe/berlin")
    };
    read(&mut words).expect("usable");
    assert_eq!(
        (words.cron.as_deref(), words.zone.as_deref()),
        (Some("0 3 * * *"), Some(BERLIN))
    );
    assert_eq!(words.grace, "1m");
    let mut none = ScheduleSpec {
        zone: None,
        ..spec("0 3 * * *", "")
    };
    read(&mut none).expect("usable");
    assert_eq!(none.zone.as_deref(), Some("UTC"));
    assert_eq!(
        rfc3339(time("2026-12-24T18:00:00+01:00")),
        "2026-12-24T17:00:00.000000Z"
    );
}

#[test]
fn a_time_of_day_that_the_clock_jumps_over_is_due_once_behind_the_jump() {
    // Berlin: 2026-03-29, 02:00 becomes 03:00, which is 01:00 UTC. New York: 2026-03-08, 02:00
    // becomes 03:00, 07:00 UTC.
    assert_due(
        "30 2 * * *",
        BERLIN,
        "2026-03-28T12:00:00Z",
        &["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"],
    );
    assert_due(
        "30 2 * * *",
        NEW_YORK,
        "2026-03-07T12:00:00Z",
        &["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"],
    );
    // Many in the gap, and one right behind it: one all the same.
    assert_due(
        "*/10 2 * * *",
        BERLIN,
        "2026-03-28T12:00:00Z",
        &["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"],
    );
    assert_due(
        "30 2,3 * * *",
        BERLIN,
        "2026-03-28T12:00:00Z",
        &["2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"],
    );
    assert_due(
        "0 2,3 * * *",
        BERLIN,
        "2026-03-28T12:00:00Z",
        &["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"],
    );
    // Lord Howe Island moves by half an hour.
    assert_due(
        "15 2 * * *",
        "Australia/Lord_Howe",
        "2026-10-03T12:00:00Z",
        &["2026-10-03T15:30:00Z"],
    );
}

#[test]
fn a_time_of_day_that_comes_twice_is_due_the_first_time() {
    // Berlin: 2026-10-25, 03:00 becomes 02:00 at 01:00 UTC. New York: 2026-11-01, 02:00 becomes
    // 01:00 at 06:00 UTC.
    assert_due(
        "30 2 * * *",
        BERLIN,
        "2026-10-24T12:00:00Z",
        &["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
    );
    assert_due(
        "30 1 * * *",
        NEW_YORK,
        "2026-10-31T12:00:00Z",
        &["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"],
    );
    // Asked from within the repetition, or from a moment before it.
    assert_due(
        "30 2 * * *",
        BERLIN,
        "2026-10-25T01:10:00Z",
        &["2026-10-26T01:30:00Z"],
    );
    assert_due(
        "50 2 * * *",
        BERLIN,
        "2026-10-25T00:50:00Z",
        &["2026-10-26T01:50:00Z"],
    );
    assert_due(
        "0 3 * * *",
        BERLIN,
        "2026-10-25T00:59:59Z",
        &["2026-10-25T02:00:00Z", "2026-10-26T02:00:00Z"],
    );
}

#[test]
fn real_time_passes_through_both_changes_of_the_clock() {
    let every_half_hour =
        |day: &str, hours: [&str; 5]| hours.map(|hour| format!("{day}T{hour}:00Z"));
    for (zone, after, day, hours) in [
        (
            BERLIN,
            "2026-03-29T00:29:59Z",
            "2026-03-29",
            ["00:30", "01:00", "01:30", "02:00", "02:30"],
        ),
        (
            BERLIN,
            "2026-10-24T23:59:59Z",
            "2026-10-25",
            ["00:00", "00:30", "01:00", "01:30", "02:00"],
        ),
        (
            NEW_YORK,
            "2026-03-08T06:29:59Z",
            "2026-03-08",
            ["06:30", "07:00", "07:30", "08:00", "08:30"],
        ),
        (
            NEW_YORK,
            "2026-11-01T04:59:59Z",
            "2026-11-01",
            ["05:00", "05:30", "06:00", "06:30", "07:00"],
        ),
    ] {
        assert_eq!(
            due("*/30 * * * *", zone, after, 5),
            every_half_hour(day, hours),
            "{zone}"
        );
    }
    // Two-hourly by the local clock: 02:00 is missing in spring, and comes twice in autumn.
    assert_due(
        "0 */2 * * *",
        BERLIN,
        "2026-03-28T23:00:00Z",
        &["2026-03-29T02:00:00Z"],
    );
    assert_due(
        "0 */2 * * *",
        BERLIN,
        "2026-10-24T22:00:00Z",
        &["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z"],
    );
    assert_due(
        "* * * * * *",
        BERLIN,
        "2026-10-25T00:59:59Z",
        &["2026-10-25T01:00:00Z", "2026-10-25T01:00:01Z"],
    );
}

#[test]
fn a_year_of_due_times_has_each_once_in_order() {
    for zone in [BERLIN, NEW_YORK, "Australia/Lord_Howe", "Asia/Kolkata"] {
        for (cron, count) in [
            ("30 2 * * *", 365),
            ("0 3 * * *", 365),
            ("15 1 * * *", 365),
            ("0 * * * *", 8760),
        ] {
            let when = when(cron, zone);
            let (first, end) = (time("2026-01-01T00:00:00Z"), time("2027-01-01T00:00:00Z"));
            let all = when.newest(first, DbTime(end.0 - 1), usize::MAX);
            assert!(
                all.windows(2).all(|two| two[0] < two[1]),
                "{cron} in {zone}"
            );
            // Lord Howe Island jumps from 02:00 to 02:30, so that it has one full hour less.
            let missing = usize::from(cron == "0 * * * *" && zone == "Australia/Lord_Howe");
            assert_eq!(all.len(), count - missing, "{cron} in {zone}");
        }
    }
}

#[test]
fn the_newest_are_found_without_walking_through_all() {
    let each_second = when("* * * * * *", "UTC");
    let (first, until) = (
        time("1990-01-01T00:00:00Z"),
        time("2026-01-01T00:00:00.500Z"),
    );
    let newest = each_second.newest(first, until, 2);
    assert_eq!(
        newest,
        [time("2025-12-31T23:59:59Z"), time("2026-01-01T00:00:00Z")]
    );
    assert_eq!(each_second.newest(until, until, 2), []);
    let yearly = when("@yearly", "UTC");
    assert_eq!(yearly.newest(first, until, 100).len(), 37);
}
