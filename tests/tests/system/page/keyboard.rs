//! What is around each page, in a real browser: keys that lead through lists and to the search, and that can be switched off;
//! colours that are chosen without a script; and the name and the colour of an installation.

use super::barriers::{DARK, NARROW, WIDE};
use super::shop::Shop;
use counterstep_tests::browser::{Browser, Tab};
use serde_json::json;

/// The id of the row that has the focus.
const ROW: &str = "(document.activeElement?.closest('tr')?.id ?? '')";

const IS_OPEN: &str = "document.getElementById('shortcuts').open";

async fn at_row(tab: &Tab, id: &str) {
    tab.until(id, &format!("{ROW} === {}", json!(id))).await;
}

/// Presses a key that does nothing: nothing gets the focus, and nothing opens. A key has had its effect once it is pressed.
async fn is_dead(tab: &Tab, key: &str) {
    tab.eval("document.activeElement.blur()").await;
    tab.press(key).await;
    let nothing = format!("document.activeElement === document.body && !{IS_OPEN}");
    assert_eq!(tab.eval(&nothing).await, json!(true), "{key}");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_lead_through_a_list_into_a_task_and_to_the_search_from_there() {
    let shop = Shop::open().await;
    let older = shop.dead_letter().await;
    let newer = shop.submit("order-lamp", r#"{"name":"Aurora"}"#).await;
    shop.api.at_rest(newer).await;
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    tab.open(&shop.url("/ui/tasks")).await;
    let (older, newer) = (format!("t-{older}"), format!("t-{newer}"));
    for (key, row) in [
        ("j", &newer),
        ("j", &older),
        // Behind the last row there is none.
        ("j", &older),
        ("k", &newer),
        ("k", &newer),
    ] {
        tab.press(key).await;
        at_row(&tab, row).await;
    }
    let outline = "getComputedStyle(document.activeElement).outlineStyle";
    assert_ne!(tab.eval(outline).await, "none", "the selection can be seen");
    tab.press("j").await;
    tab.press("Enter").await;
    let path = format!("/ui/tasks/{}", &older[2..]);
    tab.until(
        "its page is open",
        &format!(
            "location.pathname === {} && document.readyState === 'complete'",
            json!(path)
        ),
    )
    .await;
    tab.press("/").await;
    let in_box = "location.pathname === '/ui/tasks' && document.activeElement?.id === 'q'";
    tab.until("the search has the focus", in_box).await;
    assert_eq!(tab.eval("document.getElementById('q').value").await, "");
    tab.eval("document.activeElement.blur()").await;
    for modifier in [1, 2, 4] {
        let event = json!({ "type": "keyDown", "key": "j", "modifiers": modifier });
        tab.call("Input.dispatchKeyEvent", event).await;
        assert_eq!(tab.eval(ROW).await, "", "{modifier}");
    }
    tab.press("j").await;
    at_row(&tab, &newer).await;
    // On a page with the box it is there already.
    tab.press("/").await;
    tab.until("the search has the focus", in_box).await;
    // There each key is a character of the search, and has no other effect.
    for (key, typed) in [("j", "j"), ("?", "j?"), ("/", "j?/")] {
        tab.press(key).await;
        let still = format!("document.activeElement?.id === 'q' && !{IS_OPEN}");
        assert_eq!(tab.eval(&still).await, json!(true), "{key}");
        assert_eq!(tab.eval("document.getElementById('q').value").await, typed);
    }
    shop.assert_own(&tab);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panel_lists_the_keys_and_switches_them_off_on_all_pages_and_on_again() {
    let shop = Shop::open().await;
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    tab.open(&shop.url("/ui/workers")).await;
    tab.press("?").await;
    tab.until("the panel is open", IS_OPEN).await;
    tab.shows("Next row of the list").await;
    tab.press("Escape").await;
    tab.until("the panel is closed", &format!("!{IS_OPEN}"))
        .await;
    // It is no secret of those who know the key.
    tab.click("button[data-opens]").await;
    tab.until("the panel is open", IS_OPEN).await;
    tab.follow("#shortcuts [role=switch]").await;
    tab.shows("Keys: off").await;
    for path in ["/ui/workers", "/ui/tasks"] {
        tab.open(&shop.url(path)).await;
        for key in ["j", "k", "/", "?"] {
            is_dead(&tab, key).await;
        }
        assert_eq!(tab.eval("location.pathname").await, path);
    }
    assert_eq!(tab.eval("document.cookie").await, "", "no script reads it");
    tab.open(&shop.url("/ui/workers")).await;
    tab.click("button[data-opens]").await;
    tab.follow("#shortcuts [role=switch]").await;
    tab.press("j").await;
    at_row(&tab, &format!("worker-{}", shop.worker().await.id)).await;
    shop.assert_own(&tab);
}

#[tokio::test(flavor = "multi_thread")]
async fn colours_are_chosen_without_a_script_and_kept_on_the_next_page() {
    let shop = Shop::open().await;
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    let off = json!({ "value": true });
    tab.call("Emulation.setScriptExecutionDisabled", off).await;
    let ground = "getComputedStyle(document.body).backgroundColor";
    let (light, dark) = ("rgb(246, 247, 248)", "rgb(20, 23, 26)");
    for (system, chosen, expected) in [(WIDE, "dark", dark), (DARK, "light", light)] {
        tab.look(system).await;
        tab.open(&shop.url("/ui/queues")).await;
        tab.follow(&format!("footer button[value={chosen}]")).await;
        assert_eq!(tab.eval("location.pathname").await, "/ui/queues");
        for path in ["/ui/queues", "/ui/tasks"] {
            tab.open(&shop.url(path)).await;
            assert_eq!(tab.eval(ground).await, expected, "{path}");
            let pressed = "document.querySelector('footer [aria-pressed=true]').value";
            assert_eq!(tab.eval(pressed).await, chosen, "{path}");
        }
    }
    tab.follow("footer button[value=system]").await;
    assert_eq!(tab.eval(ground).await, dark, "as the system is set");
    // Without a script there are no keys.
    let button = "getComputedStyle(document.querySelector('button[data-opens]')).display";
    assert_eq!(tab.eval(button).await, "none");
    shop.assert_own(&tab);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_is_told_from_others_by_its_name_and_a_colour_in_light_dark_and_on_a_phone()
{
    let shop = Shop::named("staging", "orange").await;
    let task = shop.submit("order-lamp", r#"{"name":"Aurora"}"#).await;
    shop.api.at_rest(task).await;
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    // The title of a task is the script's.
    for path in ["/ui/tasks".to_owned(), format!("/ui/tasks/{task}")] {
        for (view, color) in [
            (WIDE, "rgb(194, 87, 12)"),
            (DARK, "rgb(255, 176, 102)"),
            (NARROW, "rgb(194, 87, 12)"),
        ] {
            tab.look(view).await;
            tab.open(&shop.url(&path)).await;
            let title = tab.eval("document.title").await;
            let title = title.as_str().expect("a text");
            assert!(title.ends_with(" · staging · Counterstep"), "{title}");
            let name = "(() => { const it = document.querySelector('.installation'); return it.offsetWidth > 0 && it.innerText; })()";
            assert_eq!(tab.eval(name).await, "staging");
            let bar = "getComputedStyle(document.querySelector('.bar')).backgroundColor";
            assert_eq!(tab.eval(bar).await, color);
            let high = "document.querySelector('.bar').offsetHeight >= 4";
            assert_eq!(tab.eval(high).await, json!(true));
        }
    }
    shop.assert_own(&tab);
    for (flags, said) in [
        (&["--ui-color", "red"][..], "set `ui_name` too"),
        (
            &["--ui-name", "a", "--ui-color", "pink"],
            "invalid setting `ui_color`: `pink`",
        ),
        (&["--ui-name", " "], "invalid setting `ui_name`"),
    ] {
        Shop::refused(flags).assert_code(78).assert_says(said);
    }
}
