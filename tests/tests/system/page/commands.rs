//! The command line and the HTTP request that each button shows: the program takes the one, and the interface
//! has the other.

use super::shop::Shop;
use counterstep_tests::command::{to_its_end, without_settings};
use std::collections::BTreeSet;

/// No server listens there.
const NOWHERE: &str = "http://127.0.0.1:9";

#[tokio::test(flavor = "multi_thread")]
async fn each_command_line_of_a_button_is_one_that_the_program_takes() {
    let shop = Shop::open().await;
    let parked = shop.parked_undo().await;
    let dead = shop.dead_letter().await;
    let waits = shop
        .submit("order-lamp", r#"{"name":"Daybreak","is_large":true}"#)
        .await;
    let mut pages = vec![
        "/ui/submit/order-lamp".to_owned(),
        "/ui/types/order-lamp/disable".to_owned(),
        "/ui/types/order-lamp/enable".to_owned(),
        "/ui/schedules/nightly/pause".to_owned(),
        "/ui/schedules/nightly/run".to_owned(),
        "/ui/queues/lamps/pause".to_owned(),
        "/ui/limits/carrier/set".to_owned(),
        "/ui/limits/carrier/reset".to_owned(),
        "/ui/bulk/new?action=resolve&amp;type=CheckStock&amp;status=dead_lettered".to_owned(),
        "/ui/bulk/new?action=redrive&amp;label=order%3D1&amp;failure_text=shelf".to_owned(),
        "/ui/bulk/new?action=cancel&amp;type=CheckStock&amp;status=submitted".to_owned(),
        "/ui/bulk/new?action=run-again&amp;type=CheckStock&amp;status=completed".to_owned(),
    ];
    let done = shop.submit("order-lamp", r#"{"name":"Aurora"}"#).await;
    shop.api.at_rest(done).await;
    for task in [parked, dead, waits, done] {
        let page = text(&shop, &format!("/ui/tasks/{task}")).await;
        pages.extend(
            between(&page, "href=\"", "\"")
                .filter(|it| it.contains("/decide/") || it.contains("/bulk/new")),
        );
    }
    let page = text(&shop, "/ui/parked").await;
    pages.extend(between(&page, "href=\"", "\"").filter(|it| it.contains("/bulk/new")));
    let mut commands = BTreeSet::new();
    for path in &pages {
        let page = text(&shop, &path.replace("&amp;", "&")).await;
        let shown: Vec<_> = between(&page, "<code>counterstep ", "</code>").collect();
        assert_eq!(shown.len(), 1, "{path}: {page}");
        commands.extend(shown);
        let curl = between(&page, "<code>curl ", "</code>")
            .next()
            .expect("a request");
        assert!(curl.contains(&format!("{}/api/", shop.api.url())), "{curl}");
    }
    assert!(commands.len() >= 15, "{commands:#?}");
    for command in &commands {
        let plain = command
            .replace("&quot;", "\"")
            .replace("&#39;", "'")
            .replace("&amp;", "&");
        std::fs::write(shop.place.path().join("request.json"), "{}").expect("a file");
        let program = env!("CARGO_BIN_EXE_lamps");
        let mut shell = without_settings("sh");
        shell
            .arg("-c")
            .arg(format!("{program} {plain} --url {NOWHERE}"));
        let ended = to_its_end(shop.place.path(), shell);
        // It was understood, and nothing answers.
        assert_eq!(ended.code, Some(69), "{plain}: {ended:?}");
    }
}

async fn text(shop: &Shop, path: &str) -> String {
    let request = shop.api.request(reqwest::Method::GET, path);
    let answer = request.send().await.expect("an answer");
    assert_eq!(answer.status(), 200, "{path}");
    answer.text().await.expect("a text")
}

fn between<'a>(text: &'a str, begin: &'a str, end: &'a str) -> impl Iterator<Item = String> + 'a {
    let parts = text.split(begin).skip(1);
    parts.map(move |part| part.split(end).next().unwrap_or_default().to_owned())
}
