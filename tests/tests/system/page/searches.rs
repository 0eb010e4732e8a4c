//! Tasks are found by what a person types, with scripts and without, and a search is saved for others.

use super::shop::Shop;
use counterstep_tests::browser::Browser;
use reqwest::Method;

async fn html(shop: &Shop, path: &str) -> String {
    let answer = shop.api.request(Method::GET, path).send().await;
    answer.expect("an answer").text().await.expect("a page")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_found_while_its_ending_is_typed_and_a_search_is_saved() {
    let shop = Shop::open().await;
    let letter = shop.dead_letter().await;
    let other = shop
        .submit("order-lamp", r#"{"name":"Borealis","polish_ms":40}"#)
        .await;
    shop.api.at_rest(other).await;
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    tab.open(&shop.url("/ui/tasks")).await;
    let is_one = |task| {
        format!(
            "document.querySelectorAll('#list tbody tr').length === 1 && !!document.getElementById('t-{task}')"
        )
    };
    let whole = letter.to_string();
    tab.fill("#q", &whole[24..]).await;
    tab.until("the ending is enough", &is_one(letter)).await;
    tab.shows("looked through the newest 1000 tasks and all that are open")
        .await;
    // What may follow comes along, and the address has the search.
    tab.fill("#q", "order-lamp comple").await;
    tab.until(
        "it is completed",
        "[...document.querySelectorAll('#suggestions option')].some(it => it.value === 'order-lamp completed')",
    )
    .await;
    tab.fill("#q", "order-lamp completed").await;
    tab.until("one has completed", &is_one(other)).await;
    tab.until(
        "the address has it",
        "new URLSearchParams(location.search).get('q') === 'order-lamp completed'",
    )
    .await;
    // A choice below the page leads back to the search that was typed.
    tab.follow("footer button[value=dark]").await;
    tab.until("the search is still there", &is_one(other)).await;
    let place = "location.pathname + location.search";
    assert_eq!(tab.eval(place).await, "/ui/tasks?q=order-lamp+completed");
    // A state is taken away by its link, and the rest stays.
    tab.until(
        "the state is marked",
        "document.querySelector('#narrow .states a[aria-current]').innerText === 'completed'",
    )
    .await;
    tab.fill("#view-name", "lamps-done").await;
    tab.follow("form.save button").await;
    tab.shows("What would happen if I set lamps-done?").await;
    tab.follow("form button.primary").await;
    tab.shows("Saved.").await;
    tab.follow(".views nav a").await;
    tab.until("the view has the same", &is_one(other)).await;
    tab.shows("Finds order-lamp completed").await;
    tab.open(&shop.url("/ui/tasks?q=no+such+text")).await;
    tab.shows("add `type:NAME` or `since:7d`").await;
    tab.follow("#list a.button").await;
    tab.shows("No task fits.").await;
    shop.assert_own(&tab);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_script_a_search_is_a_form_with_suggestions_and_chosen_columns() {
    let shop = Shop::open().await;
    let letter = shop.dead_letter().await;
    let page = html(&shop, "/ui/tasks?q=parked").await;
    assert!(page.contains(&format!("t-{letter}")), "{page}");
    assert!(
        page.contains("<form class=\"filters\" role=\"search\" method=\"get\""),
        "{page}"
    );
    let empty = html(&shop, "/ui/tasks").await;
    assert!(empty.contains("<option value=\"type:"), "{empty}");
    let page = html(&shop, "/ui/tasks?q=parked&columns=id&columns=order").await;
    assert!(page.contains(&format!("<code>{letter}</code>")), "{page}");
    assert!(page.contains("<th scope=\"col\">order</th>"), "{page}");
    assert!(!page.contains("<th scope=\"col\">Changed</th>"), "{page}");
    // Addresses of former pages lead to the same.
    let page = html(
        &shop,
        "/ui/tasks?type=check-stock&status=dead_lettered&since=24h",
    )
    .await;
    assert!(page.contains(&format!("t-{letter}")), "{page}");
    assert!(
        page.contains("value=\"type:check-stock status:dead_lettered since:24h\""),
        "{page}"
    );
}
