//! Copies of a large and of a small picture, and every fault at every step.

use counterstep::contracts::TaskStatus;
use counterstep_testkit::{Form, Harness, sweep};
use image_pipeline::{Picture, tasks};

fn picture(width: u32, height: u32) -> Picture {
    let pixels = (0..width * height).map(|at| [(at % 251) as u8, 7, 9]);
    Picture {
        width,
        height,
        pixels: pixels.collect(),
    }
}

fn large() -> Form {
    Form::new().file("picture", "large.ppm", picture(200, 100).write())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_leaves_all_copies_or_none() {
    sweep::every_fault(tasks, large).await;
}

#[tokio::test]
async fn a_large_picture_has_two_copies_and_a_small_one_its_icon() {
    let small = Form::new().file("picture", "small.ppm", picture(10, 40).write());
    for (form, copies) in [(large(), 2), (small, 1)] {
        let task = Harness::embedded(tasks()).submit(form).await;
        assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
        let objects = task.objects().await;
        let stored = objects.iter().filter(|object| object.bucket == "copies");
        assert_eq!(stored.count(), copies);
        task.assert_no_orphans().await;
    }
}

#[tokio::test]
async fn what_is_no_picture_fails_for_good_and_leaves_nothing() {
    let form = Form::new().file("picture", "note.txt", "no picture");
    let task = Harness::embedded(tasks()).submit(form).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    let failure = task.record().await.task.failure.expect("a reason");
    assert!(failure.message.contains("expected a PPM"), "{failure:?}");
    task.assert_no_objects().await;
}

#[test]
fn what_is_too_large_is_refused_by_its_size_alone() {
    for (size, fits) in [(0, true), (3 * (64 << 20), true), (5 << 30, false)] {
        assert_eq!(Picture::fits(size).is_ok(), fits, "{size}");
    }
}

#[test]
fn a_picture_is_read_as_it_was_written_and_scaled_to_its_longer_side() {
    let large = picture(200, 100);
    assert_eq!(Picture::read(&large.write()).expect("a picture"), large);
    let icon = large.scaled_to(16);
    assert_eq!((icon.width, icon.height), (16, 8));
    for broken in [
        &b"P6\n2 2\n255\n123"[..],
        b"P6\n0 9\n255\n",
        b"P5\n1 1\n255\n1",
        b"",
    ] {
        assert!(Picture::read(broken).is_err());
    }
}
