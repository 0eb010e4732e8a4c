//! What a schedule does at a due time: fires, waits or skips it.

use counterstep_contracts::{Misfire, Overlap, ScheduleSpec};
use counterstep_reconciler::schedules::{self, Move, SkipReason};
use counterstep_steps::schedule::read;
use counterstep_steps::times::{DbTime, read_rfc3339};

fn spec(cron: &str, zone: &str) -> ScheduleSpec {
    ScheduleSpec {
        cron: Some(cron.to_owned()),
        zone: Some(zone.to_owned()),
        ..ScheduleSpec::of("Zip")
    }
}

fn time(text: &str) -> DbTime {
    DbTime(read_rfc3339(text).unwrap_or_else(|| panic!("{text}")))
}

fn moves(misfire: Misfire, overlap: Overlap, busy: bool, now: &str) -> Vec<Move> {
    let spec = ScheduleSpec {
        misfire,
        overlap,
        catch_up_limit: 3,
        ..spec("0 * * * *", "UTC")
    };
    let when = read(&mut spec.clone()).expect("usable");
    schedules::moves(&spec, &when, time("2026-01-01T01:00:00Z"), time(now), busy)
}

fn hour(hour: u8) -> DbTime {
    time(&format!("2026-01-01T{hour:02}:00:00Z"))
}

fn fire(due: u8) -> Move {
    Move::Fire {
        due: hour(due),
        next: Some(hour(due + 1)),
    }
}

#[test]
fn what_was_missed_is_caught_up_with_fired_once_or_skipped() {
    use Misfire::{CatchUp, FireOnce, Skip};
    let late = |misfire, now| moves(misfire, Overlap::Allow, false, now);
    for misfire in [CatchUp, FireOnce, Skip] {
        assert_eq!(late(misfire, "2026-01-01T01:00:20Z"), [fire(1)], "in time");
    }
    assert_eq!(late(FireOnce, "2026-01-01T06:30:00Z"), [fire(6)]);
    assert_eq!(late(CatchUp, "2026-01-01T02:30:00Z"), [fire(1), fire(2)]);
    assert_eq!(
        late(CatchUp, "2026-01-01T06:30:00Z"),
        [fire(4), fire(5), fire(6)],
        "the newest three"
    );
    let missed = Move::Skip {
        due: hour(6),
        next: Some(hour(7)),
        why: SkipReason::Missed,
    };
    assert_eq!(late(Skip, "2026-01-01T06:30:00Z"), [missed]);
    assert_eq!(
        late(Skip, "2026-01-01T06:01:00Z"),
        [fire(6)],
        "within its grace"
    );
}

#[test]
fn due_times_within_the_grace_are_not_missed_and_all_fire() {
    for misfire in [Misfire::FireOnce, Misfire::Skip, Misfire::CatchUp] {
        let grace = if misfire == Misfire::CatchUp {
            "1m"
        } else {
            "90m"
        };
        let overlap = Overlap::Allow;
        let spec = ScheduleSpec {
            misfire,
            overlap,
            grace: grace.to_owned(),
            catch_up_limit: 2,
            ..spec("0 * * * *", "UTC")
        };
        let when = read(&mut spec.clone()).expect("usable");
        let moves = schedules::moves(&spec, &when, hour(1), time("2026-01-01T06:20:00Z"), false);
        assert_eq!(moves, [fire(5), fire(6)], "{misfire}");
    }
}

#[test]
fn while_the_last_task_runs_a_due_time_is_skipped_waits_or_fires() {
    use Misfire::{CatchUp, FireOnce};
    let now = "2026-01-01T03:30:00Z";
    let skipped = Move::Skip {
        due: hour(3),
        next: Some(hour(4)),
        why: SkipReason::Overlaps,
    };
    assert_eq!(moves(FireOnce, Overlap::Skip, true, now), [skipped]);
    assert_eq!(
        moves(FireOnce, Overlap::Queue, true, now),
        [Move::Wait { due: hour(3) }]
    );
    assert_eq!(moves(FireOnce, Overlap::Allow, true, now), [fire(3)]);
    assert_eq!(
        moves(CatchUp, Overlap::Skip, false, now),
        [fire(1), skipped],
        "the first runs when the second is due"
    );
    assert_eq!(
        moves(CatchUp, Overlap::Queue, false, now),
        [fire(1), Move::Wait { due: hour(2) }]
    );
    assert_eq!(
        moves(CatchUp, Overlap::Allow, true, now),
        [fire(1), fire(2), fire(3)]
    );
}

#[test]
fn a_point_of_time_fires_once() {
    let at = time("2026-06-01T00:00:00Z");
    let once = ScheduleSpec {
        run_at: Some("2026-06-01T02:00:00+02:00".to_owned()),
        ..ScheduleSpec::of("Zip")
    };
    let when = read(&mut once.clone()).expect("usable");
    assert_eq!(
        (when.after(DbTime(at.0 - 1)), when.after(at)),
        (Some(at), None)
    );
    let now = DbTime(at.0 + 5_000_000);
    assert_eq!(
        schedules::moves(&once, &when, at, now, false),
        [Move::Fire {
            due: at,
            next: None
        }]
    );
}

#[test]
fn a_point_of_time_waits_while_the_last_task_runs() {
    let at = time("2026-06-01T00:00:00Z");
    let now = DbTime(at.0 + 5_000_000);
    for overlap in [Overlap::Skip, Overlap::Queue] {
        let once = ScheduleSpec {
            run_at: Some("2026-06-01T00:00:00Z".to_owned()),
            overlap,
            ..ScheduleSpec::of("Zip")
        };
        let when = read(&mut once.clone()).expect("usable");
        assert_eq!(
            schedules::moves(&once, &when, at, now, true),
            [Move::Wait { due: at }],
            "{overlap}"
        );
    }
}

#[test]
fn a_due_time_that_other_rules_announced_stands() {
    let spec = spec("0 3 * * *", "UTC");
    let when = read(&mut spec.clone()).expect("usable");
    let (announced, now) = (time("2026-01-01T02:30:00Z"), time("2026-01-01T02:30:01Z"));
    let next = Some(hour(3));
    assert_eq!(
        schedules::moves(&spec, &when, announced, now, false),
        [Move::Fire {
            due: announced,
            next
        }]
    );
}
