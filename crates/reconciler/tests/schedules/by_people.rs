//! What people ask of schedules: dry runs, pauses, runs by hand, points of time, and what is
//! refused to them.

use crate::{
    SECOND, Tick, alone, finish, hourly, make_due, one_pass, overdue, row, tasks, tenant, types,
};
use counterstep_contracts::ScheduleSpec;
use counterstep_kernel::audit::admin_audit;
use counterstep_kernel::schedule;
use counterstep_kernel::schedule::ScheduleError;
use counterstep_reconciler::{ReconcilerSettings, Report, plan};
use counterstep_steps::Schedule;
use counterstep_steps::times::rfc3339;
use futures::future::join_all;
use serde_json::json;
use std::collections::BTreeSet;

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_says_what_is_due_and_fires_nothing() {
    let (engine, _folder) = alone(types()).await;
    overdue(
        &engine,
        "yearly",
        ScheduleSpec {
            cron: Some("@yearly".to_owned()),
            ..hourly()
        },
        0,
    )
    .await;
    let due = rfc3339(
        row(&engine, "yearly")
            .await
            .next_due_at
            .expect("a due time"),
    );
    let planned = plan(&engine, &ReconcilerSettings::default())
        .await
        .expect("a plan")
        .to_string();
    assert_eq!(
        planned,
        format!("fire schedule yearly: a Tick was due {due}\n")
    );
    assert_eq!(tasks(&engine.ports.store).await, []);
    let report = one_pass(&engine).await;
    assert!(
        report
            .to_string()
            .ends_with("schedules: 1 fired, 0 skipped, 0 taken over"),
        "{report}"
    );
    let task = row(&engine, "yearly").await.last_task.expect("a task");
    let first = &engine
        .ports
        .store
        .history(task)
        .await
        .expect("a history")
        .audit[0];
    assert_eq!(
        first.entry.details,
        json!({"scheduled": {"schedule": "yearly", "due": due}})
    );
    assert_eq!(first.entry.actor, engine.id.as_ref());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_schedule_fires_by_hand_only_and_misses_nothing() {
    let (engine, _folder) = alone(types()).await;
    overdue(&engine, "nightly", hourly(), 10).await;
    schedule::pause(&engine, &tenant(), "nightly", true, "kim")
        .await
        .expect("it is paused");
    assert_eq!(one_pass(&engine).await, Report::default());
    let task = schedule::run_now(&engine, &tenant(), "nightly", "client:kim")
        .await
        .expect("it runs")
        .task_id;
    let first = &engine
        .ports
        .store
        .history(task)
        .await
        .expect("a history")
        .audit[0];
    assert_eq!(
        first.entry.details,
        json!({"scheduled": {"schedule": "nightly", "due": null}})
    );
    assert_eq!(first.entry.actor, "client:kim");
    let busy = schedule::run_now(&engine, &tenant(), "nightly", "client").await;
    assert!(
        matches!(busy, Err(ScheduleError::Busy(last)) if last == task),
        "{busy:?}"
    );
    finish(&engine, task).await;
    schedule::run_now(&engine, &tenant(), "nightly", "client")
        .await
        .expect("it has come to rest");

    let resumed = schedule::pause(&engine, &tenant(), "nightly", false, "kim")
        .await
        .expect("it goes on");
    assert!(
        resumed.row.next_due_at > Some(resumed.now),
        "what was due meanwhile was not wanted"
    );
    assert_eq!(resumed.row.last_due_at, None);
    assert_eq!(resumed.upcoming(3).len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_point_of_time_fires_once_and_the_same_words_change_nothing() {
    let (engine, _folder) = alone(types()).await;
    let mut once = ScheduleSpec {
        run_at: Some("2999-01-01T00:00:00Z".to_owned()),
        ..ScheduleSpec::of("tick")
    };
    let made = schedule::set(&engine, &tenant(), "party", once.clone(), "kim")
        .await
        .expect("it is set");
    assert!(made.is_new && made.row.spec.task_type == "Tick");
    let again = schedule::set(&engine, &tenant(), "party", once.clone(), "kim")
        .await
        .expect("it is set");
    assert_eq!((again.is_new, again.row), (false, made.row));
    make_due(&engine, "party", 0).await;
    assert_eq!(one_pass(&engine).await.fired, 1);
    once.run_at = Some("2001-01-01T00:00:00Z".to_owned());
    let past = schedule::set(&engine, &tenant(), "party", once, "kim").await;
    assert!(
        matches!(&past, Err(ScheduleError::Invalid(error)) if error.pointer == "run_at"),
        "{past:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_scheduled_is_refused_with_the_reason() {
    let (engine, _folder) = alone(types()).await;
    for (name, spec, words) in [
        (
            "x",
            ScheduleSpec {
                task_type: "Keep".to_owned(),
                ..hourly()
            },
            "begin with an upload",
        ),
        (
            "x",
            ScheduleSpec {
                task_type: "Other".to_owned(),
                ..hourly()
            },
            "no task type `Other`",
        ),
        (
            "x",
            ScheduleSpec {
                request: json!({"txt": "?"}),
                ..hourly()
            },
            "unknown field",
        ),
        ("a/b", hourly(), "1 to 100 characters"),
        (
            "x",
            ScheduleSpec {
                cron: Some("0 25 * * *".to_owned()),
                ..hourly()
            },
            "the hour is `25`",
        ),
    ] {
        let refused = schedule::set(&engine, &tenant(), name, spec, "kim")
            .await
            .expect_err(words)
            .to_string();
        assert!(refused.contains(words), "{refused}");
    }
    let gone = schedule::run_now(&engine, &tenant(), "no-such", "client").await;
    assert!(matches!(gone, Err(ScheduleError::Gone)), "{gone:?}");
    for (task_type, schedule, words) in [
        (
            "Other",
            Schedule::once("x", "2999-01-01T00:00:00Z"),
            "task type `Other` is not registered",
        ),
        ("Tick", Schedule::cron("x", "* * *", "UTC"), "has 3"),
        (
            "Tick",
            Schedule::cron("", "* * * * *", "UTC"),
            "1 to 100 characters",
        ),
        (
            "Keep",
            Schedule::cron("x", "* * * * *", "UTC"),
            "begin with an upload",
        ),
        (
            "Tick",
            Schedule::cron("x", "* * * * *", "UTC").request(json!({"text": 1})),
            "request.text",
        ),
    ] {
        let mistake = types()
            .try_schedule(task_type, schedule)
            .expect_err(words)
            .to_string();
        assert!(mistake.contains(words), "{mistake}");
    }
    let twice = types().schedule::<Tick>(Schedule::cron("x", "@daily", "UTC"));
    assert!(
        twice
            .try_schedule("Tick", Schedule::cron("x", "@hourly", "UTC"))
            .is_err()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_is_refused_today_goes_on_where_it_was_set() {
    let (engine, _folder) = alone(types()).await;
    let ninety = ScheduleSpec {
        cron: Some("*/90 * * * *".to_owned()),
        ..hourly()
    };
    let refused = schedule::set(&engine, &tenant(), "odd", ninety.clone(), "kim").await;
    assert!(
        matches!(refused, Err(ScheduleError::Invalid(_))),
        "{refused:?}"
    );
    schedule::set(&engine, &tenant(), "odd", hourly(), "kim")
        .await
        .expect("it is set");
    let mut set = row(&engine, "odd").await;
    set.spec = ninety;
    set.rev = set.rev.next();
    let put = engine.ports.store.put_schedule(&set).await;
    assert!(put.expect("the store answers"));
    make_due(&engine, "odd", 5).await;
    assert_eq!(one_pass(&engine).await.fired, 1);
    let fired = row(&engine, "odd").await;
    let hour = fired.next_due_at.expect("a due time").0 % (3600 * SECOND);
    assert_eq!(hour, 0, "{fired:?}");
    schedule::pause(&engine, &tenant(), "odd", true, "kim")
        .await
        .expect("it is paused");
    let resumed = schedule::pause(&engine, &tenant(), "odd", false, "kim").await;
    assert_eq!(resumed.expect("it goes on").upcoming(3).len(), 3);
}

/// Each is decided again on what another one has written.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_changes_at_once_each_is_written_with_one_entry_or_has_to_be_tried_again() {
    let (engine, _folder) = alone(types()).await;
    let actors: Vec<String> = (0..26).map(|minute| format!("kim-{minute}")).collect();
    let set = |(minute, actor): (usize, &String)| {
        let (engine, actor) = (engine.clone(), actor.clone());
        let spec = ScheduleSpec {
            cron: Some(format!("{minute} * * * *")),
            ..hourly()
        };
        tokio::spawn(async move {
            match schedule::set(&engine, &tenant(), "busy", spec, &actor).await {
                Ok(_) => Some(actor),
                Err(ScheduleError::Moved) => None,
                Err(error) => panic!("{error}"),
            }
        })
    };
    let set = join_all(actors.iter().enumerate().map(set)).await;
    let set: BTreeSet<String> = set
        .into_iter()
        .filter_map(|set| set.expect("its end"))
        .collect();
    assert!(!set.is_empty());
    let entries = admin_audit::page(&engine.ports.store, 0, 100).await;
    let entries = entries.expect("entries");
    assert_eq!(entries.len(), set.len());
    // What was written last stands.
    let last = entries
        .last()
        .and_then(|entry| entry.actor.strip_prefix("kim-"));
    let cron = row(&engine, "busy").await.spec.cron;
    assert_eq!(cron, last.map(|minute| format!("{minute} * * * *")));
    let named: BTreeSet<String> = entries.into_iter().map(|entry| entry.actor).collect();
    assert_eq!(named, set);
}
