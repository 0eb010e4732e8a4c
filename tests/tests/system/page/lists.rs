//! Lists in a real browser: they change by themselves without losing the focus, and on a phone what scrolls sideways shows that it
//! does.

use super::barriers::{self, NARROW};
use super::shop::Shop;
use counterstep_tests::browser::Browser;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn parked_tasks_come_and_leave_while_their_page_is_open_and_the_focus_stays() {
    let shop = Shop::open().await;
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    tab.open(&shop.url("/ui/parked")).await;
    tab.shows("Nothing waits for a person.").await;
    let rows = "document.querySelectorAll('#letters ~ .scroll tbody tr').length";
    let group = "document.querySelector('.group .count b')?.innerText";
    let mut letters = Vec::new();
    for (count, key) in [(1, "j"), (2, "")] {
        letters.push(shop.dead_letter().await.to_string());
        tab.until("it is in the list", &format!("{rows} === {count}"))
            .await;
        tab.until("it is counted", &format!("{group} === '{count}'"))
            .await;
        if !key.is_empty() {
            tab.press(key).await;
        }
        let focus = "!!document.activeElement.closest('.group')";
        assert_eq!(tab.eval(focus).await, json!(true), "{count}");
    }
    // The row that has the focus leaves: the one in its place gets it.
    tab.press("j").await;
    let row = "(document.activeElement.closest('tr')?.id ?? '')";
    let first = tab.eval(row).await;
    let first = first.as_str().and_then(|it| it.strip_prefix("t-"));
    let first = first.expect("a row has the focus").to_owned();
    letters.sort_by_key(|it| *it != first);
    assert_eq!(letters[0], first);
    for (count, letter) in [(1, &letters[0]), (0, &letters[1])] {
        let settled = json!({ "as": "not_needed", "note": "counted by hand" });
        shop.changed(&format!("/api/tasks/{letter}/resolve"), &settled)
            .await;
        tab.until("it has left the list", &format!("{rows} === {count}"))
            .await;
        if count > 0 {
            let other = format!("{row} === {}", json!(format!("t-{}", letters[1])));
            tab.until("the other row has the focus", &other).await;
            tab.until("it is not counted", &format!("{group} === '{count}'"))
                .await;
        }
    }
    tab.shows("Nothing waits for a person.").await;
    shop.assert_own(&tab);
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_workers_types_and_schedules_show_what_others_change_while_their_page_is_open() {
    let shop = Shop::open().await;
    let worker = shop.worker().await;
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    let of_worker = format!("worker-{}", worker.id);
    let pause_worker = format!("/api/workers/{}/pause", worker.machine);
    for (page, row, change, shown) in [
        (
            "/ui/schedules",
            "schedule-nightly",
            "/api/schedules/nightly/pause",
            "paused",
        ),
        (
            "/ui/types",
            "type-CheckStock",
            "/api/task-types/check-stock/disable",
            "disabled",
        ),
        (
            "/ui/queues",
            "queue-lamps",
            "/api/queues/lamps/pause",
            "stocktaking",
        ),
        (
            "/ui/workers",
            of_worker.as_str(),
            pause_worker.as_str(),
            "stocktaking",
        ),
    ] {
        tab.open(&shop.url(page)).await;
        let row_text = format!("document.getElementById({}).innerText", json!(row));
        let has = format!("{row_text}.includes({})", json!(shown));
        assert_eq!(tab.eval(&has).await, json!(false), "{page}: not yet");
        // To the row, where the focus stays.
        let focused = format!(
            "document.activeElement.closest('tr')?.id === {}",
            json!(row)
        );
        for _ in 0..10 {
            tab.press("j").await;
            if tab.eval(&focused).await == json!(true) {
                break;
            }
        }
        assert_eq!(tab.eval(&focused).await, json!(true), "{page}: the row");
        let mut body = json!({ "note": "stocktaking" });
        if page == "/ui/workers" {
            body["role"] = json!(worker.role);
        }
        shop.changed(change, &body).await;
        tab.until(&format!("{page} shows it"), &has).await;
        assert_eq!(tab.eval(&focused).await, json!(true), "{page}: the focus");
    }
    shop.assert_own(&tab);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_phone_what_scrolls_sideways_shows_it_and_is_reached_by_keyboard() {
    let shop = Shop::open().await;
    let pages = barriers::pages(&shop).await;
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    tab.look(NARROW).await;
    let mut many = 0;
    for (name, path) in pages {
        tab.open(&shop.url(&path)).await;
        // Text boxes scroll as a person types.
        let found = "(() => {
            const style = (it) => getComputedStyle(it);
            const all = [...document.querySelectorAll('body *:not(input, textarea, select)')].filter((it) =>
              it.scrollWidth > it.clientWidth + 1 && ['auto', 'scroll'].includes(style(it).overflowX));
            const shows = (it) => style(it).backgroundAttachment.includes('local');
            const reached = (it) => it.tabIndex === 0 || !!it.querySelector('a[href]');
            const named = (it) => it.tagName === 'PRE' || !!it.ariaLabel;
            const odd = all.filter((it) => !shows(it) || !reached(it) || !named(it));
            return { many: all.length, odd: odd.map((it) => it.outerHTML.slice(0, 120)) };
          })()";
        let found = tab.eval(found).await;
        assert_eq!(found["odd"], json!([]), "{name}");
        many += found["many"].as_u64().expect("a number");
        if name == "task-completed" {
            let long = "(() => {
                const it = document.querySelector('details[open] pre');
                it.textContent = 'a line\\n'.repeat(99);
                return it.clientHeight > 1000 && it.scrollHeight <= it.clientHeight + 1;
              })()";
            assert_eq!(tab.eval(long).await, json!(true), "a long text is whole");
        }
    }
    assert!(many > 0, "something scrolls on a phone");
    shop.assert_own(&tab);
}
