//! The operator's page: a dead letter goes on with another request, tasks that have ended run again, from a step
//! and by the list, and many are cancelled.

use super::shop::Shop;
use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_tests::browser::Browser;

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_goes_on_with_another_request() {
    let shop = Shop::open().await;
    let task = shop.dead_letter().await;
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    tab.open(&shop.url(&format!("/ui/tasks/{task}"))).await;
    tab.follow("a[href*='/decide/retry']").await;
    tab.fill("#note", "the shelf is another one").await;
    tab.fill("#patch", r#"{"fails_at": {}}"#).await;
    tab.follow("form button.primary").await;
    tab.until(
        "it is refused: it does not fit the type",
        "!!document.querySelector('p.wrong')",
    )
    .await;
    tab.fill("#patch", r#"{"fails_at": null}"#).await;
    tab.follow("form button.primary").await;
    tab.until(
        "it completes",
        "document.querySelector('.standing')?.innerText.includes('completed')",
    )
    .await;
    // The browser names an answer that is a refusal.
    let errors = tab.errors();
    assert!(errors.iter().all(|it| it.contains("422")), "{errors:?}");
    shop.assert_asks_own(&tab);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_has_ended_runs_again_from_a_step() {
    let shop = Shop::open().await;
    let task = shop.submit("order-lamp", r#"{"name":"Aurora"}"#).await;
    shop.api.at_rest(task).await;
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    tab.open(&shop.url(&format!("/ui/tasks/{task}"))).await;
    tab.follow("a[href*='/decide/run-again']").await;
    tab.eval("document.querySelector('#from').value = 'ship'")
        .await;
    tab.fill("#note", "the parcel was lost").await;
    tab.follow("form button.primary").await;
    tab.shows("Runs again").await;
    tab.shows("from ship").await;
    let id = tab.eval("location.pathname.split('/').pop()").await;
    let new: TaskId = id.as_str().unwrap().parse().expect("the id of a task");
    assert_ne!(new, task);
    let view = shop.api.at_rest(new).await;
    assert_eq!(view.status, TaskStatus::Completed);
    let tries: Vec<_> = view.steps.iter().map(|step| step.attempts.0).collect();
    assert_eq!(tries, [0, 0, 0, 0, 0, 1], "{:?}", view.steps);
    shop.assert_own(&tab);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_tasks_of_a_list_run_again_and_are_cancelled() {
    let shop = Shop::open().await;
    for _ in 0..3 {
        let task = shop.submit("order-lamp", r#"{"name":"Aurora"}"#).await;
        shop.api.at_rest(task).await;
    }
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    tab.open(&shop.url("/ui/tasks?status=completed")).await;
    tab.follow("#many a[href*='run-again']").await;
    tab.shows("3 tasks").await;
    tab.fill("#note", "all of them anew").await;
    tab.follow("form button.primary").await;
    let three = "document.querySelector('#bulk .facts dd')?.innerText === '3'";
    tab.until("three are done", three).await;
    assert_eq!(shop.statuses().await.len(), 6);

    for _ in 0..3 {
        let large = r#"{"name":"Daybreak","is_large":true}"#;
        shop.submit("order-lamp", large).await;
    }
    tab.open(&shop.url("/ui/tasks?type=OrderLamp&status=waiting"))
        .await;
    let rows = "document.querySelectorAll('table.tasks tbody tr').length";
    tab.until("three wait for an approval", &format!("{rows} === 3"))
        .await;
    tab.follow("#many a[href*='cancel']").await;
    tab.shows("3 tasks").await;
    tab.fill("#note", "sold out").await;
    tab.follow("form button.primary").await;
    tab.until("three are done", three).await;
    tab.open(&shop.url("/ui/tasks?status=cancelled")).await;
    tab.until("three are cancelled", &format!("{rows} === 3"))
        .await;
    shop.assert_own(&tab);
}
