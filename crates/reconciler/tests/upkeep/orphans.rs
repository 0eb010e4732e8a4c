//! Orphans as reconcilers find and treat them: by rows and by listing, each kind and each policy.

use crate::place::{
    self, Kind, Place, Row, at_each_pass, at_each_pass_with_unknown, one_pass, types,
};
use counterstep_contracts::TaskStatus;
use counterstep_contracts::overrides::OrphanOverride;
use counterstep_kernel::documents::ListingOp;
use counterstep_reconciler::{ReconcilerSettings, Report, pass, plan_listing};
use counterstep_steps::orphans::{EVERY, Orphan, OrphanAction, OrphanRule, Why};
use counterstep_tasks::CreateZipFromFiles;
use std::time::Duration;

#[tokio::test]
async fn an_output_is_never_touched_in_whatever_state_its_task_is() {
    let place = Place::new(types(), at_each_pass).await;
    let mut outputs = Vec::new();
    for status in TaskStatus::ALL {
        let task = place.task(*status, &[Row::of(1, Kind::Kept)]).await;
        outputs.push(place.old(task, 1, "0"));
    }
    assert_eq!(one_pass(&place).await, Report::default());
    assert_eq!(place.missing(&outputs), Vec::<String>::new());
}

#[tokio::test]
async fn what_crashed_attempts_left_goes_and_what_may_still_be_written_stays() {
    let place = Place::new(types(), at_each_pass).await;
    let rows = [
        Row::of(1, Kind::Overdue),
        Row::of(2, Kind::Overdue),
        Row::of(3, Kind::Overdue),
        Row::of(4, Kind::Live),
    ];
    let task = place.task(TaskStatus::Running, &rows).await;
    // The first crashed before its upload, the second in it, the third after it.
    let go = [
        place.half(task, 2, "0"),
        place.old(task, 3, "0"),
        place.old(task, 3, "1"),
    ];
    let stays = place.old(task, 4, "0");
    let report = one_pass(&place).await;
    assert_eq!((report.prefixes, report.objects), (3, 3));
    assert_eq!(place.missing(&go).len(), 3);
    assert_eq!(place.missing(&[stays]), Vec::<String>::new());
}

#[tokio::test]
async fn files_of_a_request_that_never_became_a_task_go_when_its_time_is_over_and_not_before() {
    let place = Place::new(types(), at_each_pass_with_unknown).await;
    let (arrives, never) = (
        place.receive(Duration::from_secs(3600)).await,
        place.receive(Duration::ZERO).await,
    );
    // However old: a request may take its time.
    let stays = [place.old(arrives, 1, "0"), place.half(arrives, 1, "1")];
    let go = [
        place.old(never, 1, "0"),
        place.old(never, 2, "0"),
        place.half(never, 1, "1"),
    ];
    let report = one_pass(&place).await;
    assert_eq!(
        (report.prefixes, report.objects, report.unknown_objects),
        (1, 3, 0)
    );
    assert_eq!(
        (place.missing(&go).len(), place.missing(&stays)),
        (3, Vec::new())
    );
    // Its row is gone too: what is stored there later belongs to a task that is not known.
    place.new_object(never, 1, "2");
    let again = one_pass(&place).await;
    assert_eq!(
        (again.prefixes, again.objects, again.unknown_objects),
        (0, 0, 1)
    );
}

#[tokio::test]
async fn what_a_paused_writer_stored_after_the_sweep_goes_once_it_is_old() {
    let place = Place::new(types(), at_each_pass).await;
    let task = place
        .task(
            TaskStatus::Completed,
            &[Row::of(1, Kind::Swept), Row::of(2, Kind::Kept)],
        )
        .await;
    let go = [place.old(task, 1, "0"), place.half(task, 1, "1")];
    let stay = [place.new_object(task, 1, "2"), place.old(task, 2, "0")];
    assert_eq!(one_pass(&place).await.objects, 2);
    assert_eq!(
        (place.missing(&go).len(), place.missing(&stay)),
        (2, Vec::new())
    );
    // It is the object's own age that counts, and no row's.
    place.age(&stay[0]);
    assert_eq!(one_pass(&place).await.objects, 1);
    assert_eq!(place.missing(&stay), [stay[0].clone()]);
}

#[tokio::test]
async fn of_a_task_whose_undo_failed_only_what_no_output_names_goes() {
    let place = Place::new(types(), at_each_pass_with_unknown).await;
    let rows = [
        Row::of(1, Kind::Kept),
        Row::of(2, Kind::Overdue),
        Row::of(3, Kind::Swept),
    ];
    let task = place.task(TaskStatus::CompensationFailed, &rows).await;
    let stays = place.old(task, 1, "0");
    let go = [
        place.old(task, 2, "0"),
        place.old(task, 3, "0"),
        place.old(task, 9, "0"),
    ];
    assert_eq!(one_pass(&place).await.objects, 3);
    assert_eq!(
        (place.missing(&go).len(), place.missing(&[stays])),
        (3, Vec::new())
    );
}

#[tokio::test]
async fn objects_of_unknown_tasks_and_attempts_stay_however_old_and_are_told_of() {
    let place = Place::new(types(), at_each_pass).await;
    let (unknown, task) = (
        place.new_task(),
        place
            .task(TaskStatus::Completed, &[Row::of(1, Kind::Kept)])
            .await,
    );
    let mut objects: Vec<_> = (0..20)
        .map(|n| place.old(unknown, 1, &n.to_string()))
        .collect();
    objects.extend([
        place.half(unknown, 2, "0"),
        place.new_object(unknown, 3, "0"),
        place.old(task, 7, "0"),
    ]);
    for key in objects.iter().filter(|key| !key.contains("/e1.3/")) {
        place.age_by(key, Duration::from_secs(4000 * 24 * 3600));
    }
    let planned = plan_listing(&place.engine, &place.settings)
        .await
        .expect("a plan");
    assert!(
        planned.starts_with("leave 23 objects of tasks or attempts that this database does not"),
        "{planned}"
    );
    assert_eq!(
        (
            planned.lines().count(),
            planned.matches(place::STEP).count()
        ),
        (1, 10),
        "{planned}"
    );
    let report = one_pass(&place).await;
    assert_eq!(
        report,
        Report {
            unknown_objects: 23,
            ..Report::default()
        }
    );
    assert_eq!(report.counts()["unknown_objects"], 23);
    assert_eq!(
        place.missing(&objects),
        Vec::<String>::new(),
        "they may be another database's"
    );
    // What the settings say is a least age, and those of an attempt count as those of a task.
    let mut patient = place.settings.clone();
    patient.orphans.without_task = Some(Duration::from_secs(5000 * 24 * 3600));
    let report = pass(&place.another(), &patient).await.expect("a pass");
    assert_eq!((report.unknown_objects, report.objects), (23, 0));
}

#[tokio::test]
async fn objects_without_a_task_go_where_the_settings_say_so_and_those_of_others_never() {
    let place = Place::new(types(), at_each_pass_with_unknown).await;
    let unknown = place.new_task();
    let (old, new) = (
        place.old(unknown, 1, "0"),
        place.new_object(unknown, 1, "1"),
    );
    let unmanaged = [
        "t/default/photos/1.jpg",
        "t/readme",
        "archive/orphans/t/x",
        "photos/1.jpg",
    ]
    .map(str::to_owned);
    for key in &unmanaged {
        place.write(key);
        place.age(key);
    }
    let planned = plan_listing(&place.engine, &place.settings)
        .await
        .expect("a plan");
    assert!(
        planned.contains(&format!("delete orphan incoming-files/{old}: ")),
        "{planned}"
    );
    assert!(
        planned.contains("this database has no such task") && planned.contains("leave 2 objects"),
        "{planned}"
    );
    assert_eq!(
        place.missing(std::slice::from_ref(&old)),
        Vec::<String>::new(),
        "a plan does nothing"
    );
    let report = one_pass(&place).await;
    assert_eq!(
        (report.objects, report.unknown_objects, report.unmanaged),
        (1, 2, 2)
    );
    assert_eq!(
        place
            .missing(&[old, new].into_iter().chain(unmanaged).collect::<Vec<_>>())
            .len(),
        1
    );
}

#[tokio::test]
async fn a_policy_moves_reports_or_deletes_and_a_broken_one_touches_nothing() {
    let policy = |orphan: &Orphan| match orphan.key.rsplit('/').next() {
        Some("0") => OrphanAction::Archive {
            prefix: "orphans/zip".to_owned(),
        },
        Some("1") => OrphanAction::Report,
        Some("2") => OrphanAction::Archive {
            prefix: "../elsewhere".to_owned(),
        },
        Some("3") => panic!("planted"),
        _ => OrphanAction::Delete,
    };
    let registry = types().orphans::<CreateZipFromFiles>(OrphanRule::new(policy).every("1s"));
    let place = Place::new(registry, at_each_pass).await;
    let rows = [Row::of(1, Kind::Swept), Row::of(2, Kind::Overdue)];
    let task = place.task(TaskStatus::Failed, &rows).await;
    let objects: Vec<_> = (1..=2)
        .flat_map(|n| ["0", "1", "2", "3", "4"].map(|name| place.old(task, n, name)))
        .collect();
    let half = place.half(task, 1, "0");
    let report = one_pass(&place).await;
    // Three of each attempt, those of the second by its row and by the listing that follows.
    assert_eq!(
        (report.archived, report.reported, report.objects),
        (2, 3 + 3 + 3, 2 + 1)
    );
    assert_eq!(
        place.missing(&[half]).len(),
        1,
        "half an object cannot be moved"
    );
    let gone: Vec<_> = place.missing(&objects);
    assert_eq!(
        gone,
        [&objects[0], &objects[4], &objects[5], &objects[9]].map(Clone::clone)
    );
    for moved in [&objects[0], &objects[5]] {
        assert_eq!(
            place.missing(&[format!("archive/orphans/zip/{moved}")]),
            Vec::<String>::new()
        );
    }
    // What was reported is reported again, and its intent blocks nothing.
    let again = one_pass(&place).await;
    assert_eq!(
        (
            again.archived,
            again.reported,
            again.objects,
            again.prefixes
        ),
        (0, 6, 0, 0)
    );
}

#[tokio::test]
async fn why_an_object_is_an_orphan_is_told_and_each_type_has_its_own_interval() {
    let ask = |orphan: &Orphan| {
        assert_eq!(orphan.task_type.as_deref(), Some("CreateZipFromFiles"));
        assert!(
            orphan.age >= Duration::from_secs(3600)
                && orphan.step == place::STEP
                && orphan.size_bytes == 1
        );
        match (orphan.why, orphan.attempt.0) {
            (Why::Late, 1) | (Why::NoAttempt, 7) => OrphanAction::Delete,
            other => panic!("{other:?}"),
        }
    };
    let registry = types().orphans::<CreateZipFromFiles>(OrphanRule::new(ask).every("1h"));
    let place = Place::new(registry, |settings| {
        settings.orphans.without_task = Some(Duration::from_secs(60))
    })
    .await;
    let task = place
        .task(TaskStatus::Completed, &[Row::of(1, Kind::Swept)])
        .await;
    let (late, unknown) = (place.old(task, 1, "0"), place.old(task, 7, "0"));
    assert_eq!(one_pass(&place).await.objects, 2);
    assert_eq!(place.missing(&[late.clone(), unknown]).len(), 2);
    // Not due again for an hour, for this reconciler or another one.
    place.old(task, 1, "0");
    assert_eq!(one_pass(&place).await.objects, 0);
    assert_eq!(place.missing(&[late]), Vec::<String>::new());
}

#[tokio::test]
async fn a_grace_is_settable_upward_only() {
    let settings = |grace: u64| {
        move |settings: &mut ReconcilerSettings| {
            let all = OrphanOverride {
                every: Some(Duration::from_micros(1)),
                grace: Some(Duration::from_secs(grace)),
            };
            settings
                .orphans
                .types
                .insert("CreateZipFromFiles".to_owned(), all);
        }
    };
    for (grace, gone) in [(1, 1), (24 * 3600, 0)] {
        let place = Place::new(types(), settings(grace)).await;
        let task = place
            .task(
                TaskStatus::Completed,
                &[Row::of(1, Kind::Swept), Row::of(2, Kind::Overdue)],
            )
            .await;
        let (old, new) = (place.old(task, 1, "0"), place.new_object(task, 1, "1"));
        // What the rows find waits too, and is found by listing after that.
        let overdue = place.old(task, 2, "0");
        let report = one_pass(&place).await;
        assert_eq!((report.objects, report.prefixes), (2 * gone, 1));
        assert_eq!(
            place.missing(&[old, overdue.clone()]).len() as u64,
            2 * gone
        );
        if gone == 0 {
            place.age_by(&overdue, Duration::from_secs(25 * 3600));
            let report = one_pass(&place).await;
            assert_eq!((report.objects, report.prefixes), (1, 0));
            assert_eq!(place.missing(&[overdue]).len(), 1);
        }
        assert_eq!(
            place.missing(&[new]),
            Vec::<String>::new(),
            "younger than an upload may take"
        );
    }
}

#[tokio::test]
async fn a_listing_goes_on_in_the_next_pass() {
    let place = Place::new(types(), |_| {}).await;
    let task = place
        .task(TaskStatus::Completed, &[Row::of(1, Kind::Swept)])
        .await;
    for n in 0..2_500 {
        place.old(task, 1, &n.to_string());
    }
    let settings = ReconcilerSettings {
        pages: 1,
        ..place.settings.clone()
    };
    let mut each = Vec::new();
    for _ in 0..4 {
        each.push(
            pass(&place.engine, &settings)
                .await
                .expect("a pass")
                .objects,
        );
    }
    assert_eq!(each, [1000, 1000, 500, 0]);
}

#[tokio::test]
async fn a_listing_that_is_always_due_leaves_others_their_turn() {
    let place = Place::new(types(), |settings| {
        let always = OrphanOverride {
            every: Some(Duration::from_micros(1)),
            grace: None,
        };
        settings
            .orphans
            .types
            .insert("CreateZipFromFiles".to_owned(), always);
        settings.orphans.without_task = Some(Duration::from_secs(60));
    })
    .await;
    let task = place
        .task(TaskStatus::Completed, &[Row::of(1, Kind::Kept)])
        .await;
    place.many_old(task, 1, 2_500);
    // Of the listing of all other types: the last of three pages.
    let nobodys = place.old(place.new_task(), 1, "0");
    let settings = ReconcilerSettings {
        pages: 1,
        ..place.settings.clone()
    };
    for _ in 0..3 {
        pass(&place.engine, &settings).await.expect("a pass");
    }
    assert_eq!(place.missing(&[nobodys]).len(), 1);
}

#[tokio::test]
async fn a_listing_that_was_begun_on_other_objects_begins_again() {
    let place = Place::new(types(), |_| {}).await;
    let task = place
        .task(TaskStatus::Completed, &[Row::of(1, Kind::Swept)])
        .await;
    let orphan = place.old(task, 1, "0");
    let (store, by) = (&place.engine.ports.store, "another".to_owned());
    store
        .listing(&ListingOp::Claim {
            every: EVERY,
            by: by.clone(),
            hold: EVERY,
        })
        .await
        .expect("a turn");
    // A bucket of a server, where the reconciler has a folder now.
    let cursor = Some("o|objects||t/x".to_owned());
    store
        .listing(&ListingOp::Keep {
            every: EVERY,
            by,
            cursor,
            hold: Duration::ZERO,
        })
        .await
        .expect("a note");
    assert_eq!(one_pass(&place).await.objects, 1);
    assert_eq!(place.missing(&[orphan]).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_five_reconcilers_each_orphan_goes_once() {
    let place = Place::new(types(), |_| {}).await;
    let task = place
        .task(TaskStatus::Completed, &[Row::of(1, Kind::Swept)])
        .await;
    let orphans: Vec<_> = (0..300)
        .map(|n| place.old(task, 1, &n.to_string()))
        .collect();
    let passes = (0..5).map(|_| {
        let (engine, settings) = (place.another(), place.settings.clone());
        tokio::spawn(async move { pass(&engine, &settings).await.expect("a pass").objects })
    });
    let passes = futures::future::join_all(passes.collect::<Vec<_>>()).await;
    let deleted: Vec<_> = passes
        .into_iter()
        .map(|pass| pass.expect("it ends"))
        .collect();
    assert_eq!(
        (deleted.iter().sum::<u64>(), deleted.iter().max()),
        (300, Some(&300)),
        "{deleted:?}"
    );
    assert_eq!(place.missing(&orphans).len(), 300);
}
