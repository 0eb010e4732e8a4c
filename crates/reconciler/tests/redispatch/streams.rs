//! Streams and consumers that are gone, and messages that a stream has lost.

use crate::{NEVER, SHORT, Scene, settings};
use counterstep_reconciler::{Report, pass, plan};

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_gone_is_made_again_and_its_tasks_are_offered_again() {
    let mut scene = Scene::new().await;
    let mut tasks = Vec::new();
    for _ in 0..10 {
        tasks.push(scene.submit(false).await);
    }
    let (context, name) = scene.stream().await;
    context.delete_stream(&name).await.expect("it was there");
    let planned = plan(&scene.engine, &settings(NEVER))
        .await
        .expect("a plan")
        .to_string();
    for lost in [
        format!("make again the stream `{name}`"),
        "make again the consumer of queue `errands`".to_owned(),
    ] {
        assert!(planned.contains(&lost), "{planned}");
    }
    assert!(
        context.get_stream(&name).await.is_err(),
        "a plan changes nothing"
    );
    scene.hears();
    let (mended, offered) = scene.pass_until_completed(&tasks, SHORT).await;
    assert!(
        mended.contains(&format!("the stream `{name}`")),
        "{mended:?}"
    );
    assert!(offered >= tasks.len(), "{offered} offers");
    for task in tasks {
        let record = scene.record(task).await;
        assert_eq!(
            (record.steps[0].attempts.0, record.task.recovery_attempts),
            (1, 0),
            "no host was lost"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_a_stream_has_lost_come_again() {
    let mut scene = Scene::new().await;
    let task = scene.submit(false).await;
    let (context, name) = scene.stream().await;
    context
        .get_stream(&name)
        .await
        .expect("the stream")
        .purge()
        .await
        .expect("it is empty");
    scene.hears();
    let (mended, offered) = scene.pass_until_completed(&[task], SHORT).await;
    assert!(
        mended.is_empty() && offered >= 1,
        "{mended:?}, {offered} offers"
    );
    assert_eq!(scene.offers(task).await.len(), offered);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_is_gone_is_made_again_and_brings_what_waits() {
    let mut scene = Scene::new().await;
    let task = scene.submit(false).await;
    let (context, name) = scene.stream().await;
    context
        .delete_consumer_from_stream("errands", &name)
        .await
        .expect("it was there");
    let (mended, offered) = {
        scene.hears();
        scene.pass_until_completed(&[task], NEVER).await
    };
    // A host that fetches may have mended it before; then there was nothing to mend.
    assert!(
        mended.is_empty() || mended == ["the consumer of queue `errands`"],
        "{mended:?}"
    );
    assert_eq!(
        (offered, scene.offers(task).await.len()),
        (0, 0),
        "its message was still there"
    );

    // A host that fetches would make it again, too: none does any more.
    for host in scene.hosts.drain(..) {
        host.abort();
        let _ = host.await;
    }
    context
        .delete_consumer_from_stream("errands~api", &name)
        .await
        .expect("it was there");
    let report = pass(&scene.engine, &settings(NEVER)).await.expect("a pass");
    assert_eq!(report.mended, ["the consumer of queue `errands.api`"]);
    assert!(
        report
            .to_string()
            .contains("made again: the consumer of queue `errands.api`"),
        "{report}"
    );
    let found = context.get_stream(&name).await.expect("the stream");
    found
        .consumer_info("errands~api")
        .await
        .expect("it is there again");
    assert_eq!(
        pass(&scene.engine, &settings(NEVER)).await.expect("a pass"),
        Report::default()
    );
}
