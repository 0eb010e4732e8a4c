//! Each page as axe-core sees it, in light, dark and on a phone; and pictures of each for the documentation.

use super::shop::Shop;
use counterstep_tests::browser::{Browser, Tab, View};
use counterstep_tests::program::target_folder;
use counterstep_tests::rows::add_hours;
use std::path::{Path, PathBuf};

/// Set, the pictures of `docs/ui` are taken anew.
const BLESS: &str = "COUNTERSTEP_BLESS";

pub(super) const WIDE: View = View {
    width: 1240,
    height: 860,
    is_dark: false,
};
pub(super) const DARK: View = View {
    is_dark: true,
    ..WIDE
};
pub(super) const NARROW: View = View {
    width: 390,
    height: 844,
    is_dark: false,
};

/// No picture is higher.
const MOST: f64 = 1500.0;

#[tokio::test(flavor = "multi_thread")]
async fn no_page_has_a_barrier_that_can_be_found_in_light_dark_and_on_a_phone() {
    let shop = Shop::open().await;
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    let mut barriers = Vec::new();
    for (name, path) in pages(&shop).await {
        barriers.extend(looked_at(&tab, name, &shop.url(&path)).await);
    }
    for (kind, view) in [("light", WIDE), ("dark", DARK), ("narrow", NARROW)] {
        tab.look(view).await;
        tab.open(&shop.url("/ui/queues")).await;
        tab.press("?").await;
        tab.until(
            "the keys are shown",
            "!!document.querySelector('dialog[open]')",
        )
        .await;
        barriers.extend(found(&tab, &axe(), &format!("keys in {kind}")).await);
    }
    shop.assert_own(&tab);
    let locked = Shop::locked().await;
    let tab = browser.tab().await;
    barriers.extend(looked_at(&tab, "sign-in", &locked.url("/ui/sign-in")).await);
    locked.assert_own(&tab);
    assert_eq!(barriers, [] as [String; 0]);
}

/// Looks at a page in each view, and takes its pictures where they are asked for.
async fn looked_at(tab: &Tab, name: &str, url: &str) -> Vec<String> {
    let axe = axe();
    let mut barriers = Vec::new();
    for (kind, view) in [("light", WIDE), ("dark", DARK), ("narrow", NARROW)] {
        tab.look(view).await;
        tab.open(url).await;
        barriers.extend(found(tab, &axe, &format!("{name} in {kind}")).await);
        let wide = tab
            .eval("document.documentElement.scrollWidth - innerWidth")
            .await;
        if wide.as_f64().is_none_or(|wide| wide > 0.0) {
            barriers.push(format!("{name} in {kind} is too wide by {wide}"));
        }
        if std::env::var_os(BLESS).is_some() {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/ui");
            std::fs::create_dir_all(&folder).expect("a folder");
            tab.picture(&folder.join(format!("{name}-{kind}.png")), MOST)
                .await;
        }
    }
    barriers
}

/// The pages, each with its name and its address, with something to show on each.
pub(super) async fn pages(shop: &Shop) -> Vec<(&'static str, String)> {
    let parked = shop.parked_undo().await;
    for _ in 0..3 {
        shop.dead_letter().await;
    }
    std::fs::write(shop.place.path().join("bank"), "open").expect("a file");
    let undone = shop
        .submit(
            "order-lamp",
            r#"{"name":"Borealis","fails_at":"ship","polish_ms":300}"#,
        )
        .await;
    shop.api.at_rest(undone).await;
    let done = shop
        .submit("order-lamp", r#"{"name":"Corona","polish_ms":200}"#)
        .await;
    shop.api.at_rest(done).await;
    let waits = shop
        .submit("order-lamp", r#"{"name":"Daybreak","is_large":true}"#)
        .await;
    let view = shop
        .api
        .request(reqwest::Method::PUT, "/api/views/to-look-at")
        .header("content-type", "application/json")
        .body(r#"{"q":"parked sort:oldest"}"#);
    assert!(view.send().await.expect("an answer").status().is_success());
    add_hours(&shop.place, "OrderLamp", "polish", done);
    let operation = shop.started(r#"{"action":"redrive","filter":{"type":"CheckStock"},"note":"once more","pace":{"sample":1}}"#).await;
    let ending = parked.to_string()[24..].to_owned();
    [
        ("tasks", "/ui/tasks".to_owned()),
        (
            "search",
            format!("/ui/tasks?q=order-lamp+{ending}&columns=id&columns=changed"),
        ),
        ("task-parked", format!("/ui/tasks/{parked}")),
        ("task-undone", format!("/ui/tasks/{undone}")),
        ("task-completed", format!("/ui/tasks/{done}")),
        ("task-waiting", format!("/ui/tasks/{waits}")),
        (
            "decision",
            format!("/ui/tasks/{parked}/decide/step-undone?step=charge"),
        ),
        ("audit", format!("/ui/tasks/{undone}/audit")),
        ("past", format!("/ui/tasks/{undone}/at?seq=9")),
        ("compare", format!("/ui/compare?one={done}&other={undone}")),
        ("operation", format!("/ui/bulk/{operation}")),
        ("operation-tasks", format!("/ui/bulk/{operation}/tasks")),
        ("durations", "/ui/types/order-lamp?step=polish".to_owned()),
        ("submit-types", "/ui/submit".to_owned()),
        ("submit", "/ui/submit/order-lamp".to_owned()),
        ("parked", "/ui/parked".to_owned()),
        (
            "bulk",
            "/ui/bulk/new?action=redrive&type=CheckStock&status=dead_lettered".to_owned(),
        ),
        ("types", "/ui/types".to_owned()),
        ("type", "/ui/types/order-lamp".to_owned()),
        ("schedules", "/ui/schedules".to_owned()),
        ("schedule", "/ui/schedules/new?type=check-stock".to_owned()),
        (
            "signal",
            format!("/ui/tasks/{waits}/decide/signal?step=approval"),
        ),
        ("queues", "/ui/queues".to_owned()),
        ("limits", "/ui/limits".to_owned()),
        ("effects", "/ui/effects".to_owned()),
        ("workers", "/ui/workers".to_owned()),
        ("worker", shop.worker_page().await),
        // Last: its charts have something to show by then.
        ("overview", "/ui".to_owned()),
    ]
    .into()
}

fn axe() -> String {
    let file: PathBuf = target_folder().join("tools/axe-core/node_modules/axe-core/axe.min.js");
    std::fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("{}: {error}: cargo xtask test installs it", file.display()))
}

/// What axe-core finds on the page that is open, with all its rules for WCAG 2.2 AA and its best practices.
async fn found(tab: &Tab, axe: &str, what: &str) -> Vec<String> {
    tab.eval(&format!("{axe}; 0")).await;
    let found = tab
        .eval(
            "axe.run(document, { resultTypes: ['violations'] }).then(it => it.violations.map(v => \
             ({ id: v.id, help: v.help, nodes: v.nodes.map(n => n.html + ' | ' + n.failureSummary) })))",
        )
        .await;
    let found = found.as_array().cloned().unwrap_or_default();
    found.iter().map(|it| format!("{what}: {it:#}")).collect()
}
