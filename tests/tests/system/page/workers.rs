//! The page of a process in a real browser: what it shows of the tasks that ran there, a pause with its preview and back, with the
//! keyboard and without scripts, and that a phone has room for lists of processes and queues.

use super::shop::Shop;
use counterstep_tests::browser::{Browser, View};
use serde_json::json;

/// A shop whose process has ended turns, one of them with a failed attempt, and the address of its page.
async fn worked() -> (Shop, String) {
    let shop = Shop::open().await;
    shop.dead_letter().await;
    let done = shop.submit("order-lamp", r#"{"name":"Aurora"}"#).await;
    shop.api.at_rest(done).await;
    let page = shop.worker_page().await;
    (shop, page)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_is_paused_from_its_page_by_keyboard_after_a_preview_and_resumed() {
    let (shop, page) = worked().await;
    let machine = shop.worker().await.machine;
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    tab.open(&shop.url("/ui/workers")).await;
    shop.tab_to(&tab, &shop.worker().await.id).await;
    tab.press("Enter").await;
    let at_its_page = format!("location.pathname === {}", json!(page));
    tab.until("its page is open", &at_its_page).await;
    for shown in [
        "It runs no task.",
        "had a failed attempt",
        "No other process that is alive ran tasks of the same types.",
        "OrderLamp",
        "CheckStock",
        "dead lettered",
        "MiB",
    ] {
        tab.shows(shown).await;
    }
    shop.tab_to(&tab, &format!("Pause {machine}")).await;
    tab.press("Enter").await;
    tab.until(
        "the preview is there",
        "document.activeElement?.id === 'note'",
    )
    .await;
    tab.shows("No other process takes tasks from: lamps").await;
    tab.shows("Tasks that they run, and that go on").await;
    tab.fill("#note", "stocktaking").await;
    shop.tab_to(&tab, &format!("Pause {machine}")).await;
    tab.press("Enter").await;
    tab.until("it leads back", &at_its_page).await;
    tab.shows("stocktaking").await;
    shop.tab_to(&tab, &format!("Resume {machine}")).await;
    tab.press("Enter").await;
    tab.fill("#note", "counted").await;
    tab.follow("form button.primary").await;
    tab.until(
        "it is not paused",
        "!document.querySelector('.standing').innerText.includes('paused')",
    )
    .await;
    assert!(shop.worker().await.paused.is_none());
    shop.assert_own(&tab);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_scripts_a_process_is_paused_from_its_page() {
    let (shop, page) = worked().await;
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    let off = json!({ "value": true });
    tab.call("Emulation.setScriptExecutionDisabled", off).await;
    tab.open(&shop.url("/ui/workers")).await;
    tab.follow("td.what a.id").await;
    tab.shows("Its last turns").await;
    tab.follow(".head a.button").await;
    tab.fill("#note", "stocktaking").await;
    tab.follow("form button.primary").await;
    tab.shows("stocktaking").await;
    let path = tab.eval("location.pathname").await;
    assert_eq!(path, json!(page));
    assert!(shop.worker().await.paused.is_some());
    shop.assert_own(&tab);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_phone_no_part_of_a_process_or_a_queue_is_beside_the_screen() {
    let (shop, page) = worked().await;
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    tab.look(View {
        width: 390,
        height: 844,
        is_dark: false,
    })
    .await;
    for path in ["/ui/queues", "/ui/workers", &page] {
        tab.open(&shop.url(path)).await;
        let hidden =
            "[...document.querySelectorAll('.scroll')].map(it => it.scrollWidth - it.clientWidth)";
        let hidden = tab.eval(hidden).await;
        let hidden = hidden.as_array().expect("tables");
        assert!(
            !hidden.is_empty() && hidden.iter().all(|it| *it == json!(0)),
            "{path}: {hidden:?}"
        );
    }
    tab.open(&shop.url("/ui/queues")).await;
    let said =
        "getComputedStyle(document.querySelector('td[data-head=Depth]'), '::before').content";
    assert_eq!(tab.eval(said).await, json!("\"Depth\""));
    shop.assert_own(&tab);
}
