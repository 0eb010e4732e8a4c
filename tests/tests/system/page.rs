//! The operator's page in a real browser: what a person does there, from a submission to the way back, with
//! mouse and keyboard, signed in and not; and that no page has a barrier that a program can find.

mod again;
mod barriers;
mod commands;
mod figures;
mod forms;
mod keyboard;
mod lists;
mod searches;
mod shop;
mod workers;

use counterstep_contracts::TaskStatus;
use counterstep_tests::browser::Browser;
use shop::Shop;

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_submitted_watched_and_cancelled() {
    let shop = Shop::open().await;
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    tab.open(&shop.url("/ui/tasks")).await;
    tab.shows("No task has been submitted").await;
    tab.follow("a.button.primary").await;
    tab.follow("a[href$='/submit/order-lamp']").await;
    tab.fill(
        "#request",
        r#"{"name":"Aurora","is_large":true,"polish_ms":1500}"#,
    )
    .await;
    tab.follow("button.primary").await;
    tab.shows("Submitted.").await;
    // It goes on by itself, in the picture and in words, without a look anew.
    tab.until(
        "the step that polishes runs",
        "!!document.querySelector('.segment.run')",
    )
    .await;
    tab.until("its progress is shown", "[...document.querySelectorAll('.segment.run text')].some(it => it.textContent.endsWith('%'))").await;
    tab.shows("with a soft cloth").await;
    tab.until(
        "it waits for the approval",
        "document.querySelector('.standing').innerText.includes('waiting')",
    )
    .await;
    assert!(
        tab.eval("document.title")
            .await
            .as_str()
            .unwrap()
            .starts_with("waiting")
    );
    // What a step has logged is shown as it is, and is no markup.
    tab.shows("a scratch <b>near the switch</b>").await;
    // A section that was opened stays open, whatever comes.
    tab.click("#step-2 summary").await;
    tab.follow("a[href*='/decide/cancel']").await;
    tab.shows("Would be undone, in this order").await;
    let plan = tab
        .eval("document.querySelector('ol.plan').innerText")
        .await;
    let plan = plan.as_str().unwrap().to_owned();
    assert!(
        plan.find("polish").unwrap() < plan.find("reserve").unwrap(),
        "{plan}"
    );
    tab.follow("form button.primary").await;
    tab.until(
        "it is cancelled",
        "document.querySelector('.standing').innerText.includes('cancelled')",
    )
    .await;
    tab.until(
        "the way back is drawn",
        "document.querySelectorAll('svg.wide .segment.undone').length === 2",
    )
    .await;
    assert_eq!(shop.statuses().await, [TaskStatus::Cancelled]);
    shop.assert_own(&tab);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_undo_is_resolved_and_the_rest_is_undone() {
    let shop = Shop::open().await;
    let task = shop.parked_undo().await;
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    tab.open(&shop.url(&format!("/ui/tasks/{task}"))).await;
    tab.shows("the bank refuses the refund: the account is closed")
        .await;
    tab.follow("a[href*='/decide/step-undone']").await;
    tab.shows("What would happen if I undid charge by hand?")
        .await;
    tab.shows("Would be undone, in this order").await;
    // Without a note it is not sent.
    tab.click("form button.primary").await;
    tab.until(
        "the note is asked for",
        "document.activeElement.id === 'note'",
    )
    .await;
    tab.fill("#note", "paid back in cash").await;
    tab.follow("form button.primary").await;
    tab.until(
        "it has failed, and all is undone",
        "document.querySelector('.standing').innerText.includes('failed')",
    )
    .await;
    tab.shows("settled by hand").await;
    let view = shop.api.task(task).await;
    assert_eq!(view.status, TaskStatus::Failed);
    let trail = shop.api.audit(task).await;
    let entry = trail
        .entries
        .iter()
        .find(|it| it.event == "undo_resolved")
        .expect("an entry");
    assert_eq!(entry.actor, "operator");
    assert!(
        entry.details.to_string().contains("paid back in cash"),
        "{entry:?}"
    );
    shop.assert_own(&tab);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_redriven_with_a_preview_of_what_it_hits() {
    let shop = Shop::open().await;
    for _ in 0..3 {
        shop.dead_letter().await;
    }
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    tab.open(&shop.url("/ui/parked")).await;
    tab.shows("shelf # cannot be read").await;
    tab.follow("a[href*='action=redrive']").await;
    tab.shows("3 tasks").await;
    tab.fill("#note", "the shelf is found").await;
    tab.follow("form button.primary").await;
    tab.until(
        "the operation is done",
        "document.querySelector('#bulk').innerText.includes('done')",
    )
    .await;
    tab.until(
        "three are done",
        "document.querySelector('#bulk .facts dd').innerText === '3'",
    )
    .await;
    // They fail again, and wait for a person again.
    tab.open(&shop.url("/ui")).await;
    tab.until(
        "three wait for a person",
        "document.querySelector('.group .count')?.innerText.startsWith('3')",
    )
    .await;
    shop.assert_own(&tab);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_filtered_without_another_page_and_leads_to_all_of_its_parked_tasks() {
    let shop = Shop::open().await;
    shop.dead_letter().await;
    let done = shop.submit("order-lamp", r#"{"name":"Aurora"}"#).await;
    shop.api.at_rest(done).await;
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    tab.open(&shop.url("/ui/tasks")).await;
    let rows = "document.querySelectorAll('table.tasks tbody tr').length";
    tab.until("both are there", &format!("{rows} === 2")).await;
    tab.follow("nav.states a[href*='dead_lettered']").await;
    tab.until("one is left", &format!("{rows} === 1")).await;
    tab.until(
        "the address has it",
        "location.search.includes('status%3Adead_lettered')",
    )
    .await;
    // The list that is left is the one that is kept up to date.
    shop.dead_letter().await;
    tab.until("a second one by itself", &format!("{rows} === 2"))
        .await;
    tab.follow("#many a").await;
    tab.shows("2 tasks").await;
    tab.open(&shop.url(&format!("/ui/tasks?text={done}"))).await;
    tab.until(
        "an id leads to its task",
        "location.pathname.startsWith('/ui/tasks/')",
    )
    .await;
    shop.assert_own(&tab);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_paused_by_keyboard_alone() {
    let shop = Shop::open().await;
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    tab.open(&shop.url("/ui")).await;
    shop.tab_to(&tab, "Queues").await;
    tab.press("Enter").await;
    tab.until(
        "the queues are there",
        "document.title.startsWith('Queues')",
    )
    .await;
    shop.tab_to(&tab, "Pause lamps").await;
    tab.press("Enter").await;
    tab.until(
        "the preview is there",
        "document.activeElement?.id === 'note'",
    )
    .await;
    tab.fill("#note", "stocktaking").await;
    shop.tab_to(&tab, "Pause lamps").await;
    tab.press("Enter").await;
    tab.shows("paused").await;
    tab.shows("stocktaking").await;
    let task = shop.submit("order-lamp", r#"{"name":"Aurora"}"#).await;
    tab.open(&shop.url("/ui/tasks")).await;
    tab.shows("dispatched").await;
    tab.open(&shop.url("/ui/queues/lamps/resume")).await;
    tab.fill("#note", "counted").await;
    tab.follow("form button.primary").await;
    // Another page of it, which was open before, shows the end by itself.
    tab.open(&shop.url("/ui/tasks?status=completed")).await;
    tab.until(
        "it is completed",
        "document.querySelectorAll('table.tasks tbody tr').length === 1",
    )
    .await;
    assert_eq!(shop.api.task(task).await.status, TaskStatus::Completed);
    shop.assert_own(&tab);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_scripts_all_of_it_works_by_links_and_forms() {
    let shop = Shop::open().await;
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    let off = serde_json::json!({ "value": true });
    tab.call("Emulation.setScriptExecutionDisabled", off).await;
    tab.open(&shop.url("/ui/submit/order-lamp")).await;
    tab.fill("#request", r#"{"name":"Aurora","is_large":true}"#)
        .await;
    tab.follow("button.primary").await;
    tab.shows("OrderLamp").await;
    tab.follow("a[href*='/decide/cancel']").await;
    tab.follow("form button.primary").await;
    tab.shows("The cancel is accepted.").await;
    shop.assert_own(&tab);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_signs_in_with_a_key_and_sees_what_it_may() {
    let shop = Shop::locked().await;
    let (reader, operator) = (shop.key("read"), shop.key("operate"));
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    tab.open(&shop.url("/ui/parked")).await;
    tab.fill("#credential", "cs_no_key").await;
    tab.follow("button.primary").await;
    tab.shows("does not accept this key").await;
    tab.fill("#credential", &reader).await;
    tab.follow("button.primary").await;
    tab.until(
        "it is where it wanted to go",
        "location.pathname === '/ui/parked'",
    )
    .await;
    let links = tab.eval("document.querySelector('header').innerText").await;
    let links = links.as_str().unwrap().to_owned();
    assert!(
        links.contains("read") && !links.contains("Queues"),
        "{links}"
    );
    assert_eq!(
        tab.eval("document.cookie").await,
        "",
        "no script reads the key"
    );
    tab.follow("header form button").await;
    tab.fill("#credential", &operator).await;
    tab.follow("button.primary").await;
    tab.shows("operate").await;
    shop.assert_own(&tab);
}
