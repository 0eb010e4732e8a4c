//! What a person fills in on the page, and what it shows as JSON: schedules by keyboard and without scripts, a signal by its declared
//! fields, JSON that is copied and raw, and lists without rows that say what makes the first.

use super::shop::Shop;
use counterstep_contracts::TaskStatus;
use counterstep_tests::browser::{Browser, Tab};
use reqwest::{Method, Response};
use serde_json::{Value, json};

async fn asked(shop: &Shop, path: &str) -> Response {
    let answer = shop.api.request(Method::GET, path).send().await;
    answer.expect("an answer")
}

async fn read(shop: &Shop, path: &str) -> Value {
    let answer = asked(shop, path).await;
    assert_eq!(answer.status(), 200, "{path}");
    answer.json().await.expect("JSON")
}

/// Waits for a page of this path.
async fn at(tab: &Tab, path: &str) {
    let is_there = format!("location.pathname === {}", json!(path));
    tab.until(
        path,
        &format!("{is_there} && document.readyState === 'complete'"),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_made_edited_and_deleted_by_keyboard_and_a_refused_one_comes_back_as_entered()
{
    let shop = Shop::open().await;
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    tab.open(&shop.url("/ui/schedules")).await;
    shop.tab_to(&tab, "New schedule").await;
    tab.press("Enter").await;
    at(&tab, "/ui/schedules/new").await;
    shop.tab_to(&tab, "CheckStock").await;
    tab.press("Enter").await;
    tab.until("the form is there", "!!document.querySelector('#cron')")
        .await;
    tab.fill("#name", "hourly").await;
    tab.fill("#cron", "every hour").await;
    tab.fill("[name='request.name']", "all of \"them\"").await;
    tab.eval("document.querySelector('#overlap').value = 'queue'")
        .await;
    shop.tab_to(&tab, "Make the schedule").await;
    tab.press("Enter").await;
    tab.until(
        "it is refused at its field",
        "document.querySelector('p.wrong')?.innerText.includes('(cron)') === true",
    )
    .await;
    let entered = tab
        .eval(
            "['name', 'cron', 'request.name', 'overlap'].map(it => document.querySelector(`[name='${it}']`).value)",
        )
        .await;
    assert_eq!(
        entered,
        json!(["hourly", "every hour", "all of \"them\"", "queue"])
    );
    tab.fill("#cron", "0 * * * *").await;
    tab.fill("#zone", "Europe/Berlin").await;
    shop.tab_to(&tab, "Make the schedule").await;
    tab.press("Enter").await;
    tab.shows("The schedule is set.").await;
    let made = read(&shop, "/api/schedules/hourly").await;
    assert_eq!(
        [
            &made["cron"],
            &made["zone"],
            &made["overlap"],
            &made["request"]["name"]
        ],
        ["0 * * * *", "Europe/Berlin", "queue", "all of \"them\""],
        "{made}"
    );

    shop.tab_to(&tab, "Edit hourly").await;
    tab.press("Enter").await;
    at(&tab, "/ui/schedules/hourly/edit").await;
    tab.shows("Next due times").await;
    tab.fill("#cron", "30 * * * *").await;
    shop.tab_to(&tab, "Change hourly").await;
    tab.press("Enter").await;
    tab.shows("The schedule is set.").await;
    let changed = read(&shop, "/api/schedules/hourly").await;
    assert_eq!(changed["cron"], "30 * * * *");
    for same in ["zone", "overlap", "request", "grace"] {
        assert_eq!(changed[same], made[same], "{same}");
    }

    shop.tab_to(&tab, "Delete hourly").await;
    tab.press("Enter").await;
    at(&tab, "/ui/schedules/hourly/delete").await;
    shop.tab_to(&tab, "Delete hourly").await;
    tab.press("Enter").await;
    tab.shows("Deleted.").await;
    assert_eq!(asked(&shop, "/api/schedules/hourly").await.status(), 404);
    // The browser names an answer that is a refusal.
    let errors = tab.errors();
    assert!(errors.iter().all(|it| it.contains("422")), "{errors:?}");
    shop.assert_asks_own(&tab);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_scripts_a_schedule_is_made_paused_edited_and_deleted() {
    let shop = Shop::open().await;
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    let off = json!({ "value": true });
    tab.call("Emulation.setScriptExecutionDisabled", off).await;
    tab.open(&shop.url("/ui/schedules")).await;
    tab.follow(".head a.button.primary").await;
    tab.follow("a[href$='?type=order-lamp']").await;
    tab.fill("#name", "weekly").await;
    tab.fill("#cron", "0 4 * * mon").await;
    tab.fill("[name='request.name']", "Aurora").await;
    tab.follow("form button.primary").await;
    tab.shows("The schedule is set.").await;
    tab.follow("a[href$='/schedules/weekly/pause']").await;
    tab.follow("form button.primary").await;
    tab.shows("Paused.").await;
    tab.follow("a[href$='/schedules/weekly/edit']").await;
    tab.fill("[name='request.name']", "Borealis").await;
    tab.follow("form button.primary").await;
    tab.shows("The schedule is set.").await;
    let changed = read(&shop, "/api/schedules/weekly").await;
    assert_eq!(
        (&changed["request"]["name"], &changed["paused"]),
        (&json!("Borealis"), &json!(true)),
        "{changed}"
    );
    // Another one of the name would take its place.
    tab.open(&shop.url("/ui/schedules/new?type=check-stock"))
        .await;
    tab.fill("#name", "weekly").await;
    tab.fill("[name='request.name']", "Aurora").await;
    tab.follow("form button.primary").await;
    tab.shows("a schedule `weekly` exists").await;
    tab.open(&shop.url("/ui/schedules")).await;
    tab.follow("a[href$='/schedules/weekly/delete']").await;
    tab.follow("form button.primary").await;
    tab.shows("Deleted.").await;
    assert_eq!(asked(&shop, "/api/schedules/weekly").await.status(), 404);
    // What the program declares is paused here, and changed there.
    let edit = "document.querySelector(\"a[href$='/schedules/nightly/edit']\")";
    assert_eq!(tab.eval(edit).await, Value::Null);
    shop.assert_asks_own(&tab);
}

async fn set(shop: &Shop, path: &str, spec: &Value) -> Value {
    let put = shop.api.request(Method::PUT, path).json(spec);
    let answer = put.send().await.expect("an answer");
    assert!(answer.status().is_success(), "{path}: {answer:?}");
    read(shop, path).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_leaves_the_rest_as_it_was_and_does_not_take_back_what_others_changed() {
    let shop = Shop::open().await;
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    let path = "/api/schedules/once";
    let request = json!({"name": "all", "fails_at": ""});
    let spec = json!({
        "type": "CheckStock", "run_at": "2099-12-24T18:00:00+01:00", "request": request, "misfire": "catch_up",
        "overlap": "allow", "catch_up_limit": 7, "grace": "5m",
    });
    let made = set(&shop, path, &spec).await;
    tab.open(&shop.url("/ui/schedules/once/edit")).await;
    tab.eval("document.querySelector('#overlap').value = 'queue'")
        .await;
    tab.follow("form button.primary").await;
    tab.shows("The schedule is set.").await;
    let edited = read(&shop, path).await;
    assert_eq!(edited["overlap"], "queue");
    for same in [
        "type",
        "cron",
        "zone",
        "run_at",
        "request",
        "misfire",
        "catch_up_limit",
        "grace",
    ] {
        assert_eq!(edited[same], made[same], "{same}");
    }

    // What fields hold becomes what they cannot hold, between the form and its button.
    let mut spec = spec;
    spec["request"] = json!({"name": "all"});
    set(&shop, path, &spec).await;
    tab.open(&shop.url("/ui/schedules/once/edit")).await;
    tab.fill("[name='request.name']", "some").await;
    tab.fill("#grace", "9m").await;
    spec["request"] = request;
    let changed = set(&shop, path, &spec).await;
    tab.follow("form button.primary").await;
    tab.shows("`once` was changed after this form was opened")
        .await;
    assert_eq!(read(&shop, path).await, changed);
    let entered =
        "['request.name', 'grace'].map(it => document.querySelector(`[name='${it}']`).value)";
    assert_eq!(tab.eval(entered).await, json!(["some", "9m"]));
    shop.assert_asks_own(&tab);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_is_sent_by_the_fields_of_its_declared_type() {
    let shop = Shop::open().await;
    let large = r#"{"name":"Daybreak","is_large":true}"#;
    let task = shop.submit("order-lamp", large).await;
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    tab.open(&shop.url(&format!("/ui/tasks/{task}"))).await;
    tab.follow("a[href*='/decide/signal']").await;
    let fields = "[...document.querySelectorAll('.decision form [name]')].map(it => it.name)";
    assert_eq!(tab.eval(fields).await, json!(["form_token", "body.by"]));
    tab.fill("[name='body.by']", "Kim").await;
    tab.follow("form button.primary").await;
    tab.shows("The signal is accepted.").await;
    let view = shop.api.at_rest(task).await;
    assert_eq!(view.status, TaskStatus::Completed);
    let payloads = read(&shop, &format!("/api/tasks/{task}/payloads")).await;
    let outputs = payloads["outputs"].as_array().expect("outputs");
    let approval = outputs.iter().find(|it| it["step"] == "approval");
    assert_eq!(approval.expect("an output")["output"], json!({"by": "Kim"}));
    shop.assert_own(&tab);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_request_of_a_task_is_open_copied_and_raw() {
    let shop = Shop::open().await;
    let task = shop
        .submit("order-lamp", r#"{"name":"<b>Aurora</b>"}"#)
        .await;
    shop.api.at_rest(task).await;
    let payloads = read(&shop, &format!("/api/tasks/{task}/payloads")).await;
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    tab.open(&shop.url(&format!("/ui/tasks/{task}"))).await;
    for part in [".payloads details", ".steps details"] {
        let all = format!("[...document.querySelectorAll('{part}')]");
        let are_open = format!("{all}.length > 0 && {all}.every(it => it.open)");
        assert_eq!(tab.eval(&are_open).await, json!(true), "{part}");
    }
    let button = "document.querySelector(\"button[aria-label='Copy the request']\")";
    tab.until("the button is there", &format!("{button}.hidden === false"))
        .await;
    let text = json!(format!("{:#}", payloads["request"]));
    for (clipboard, what, found) in [
        (
            "Promise.reject(new Error('no clipboard'))",
            "it is selected",
            "getSelection().toString().trim()",
        ),
        (
            "void (window.clipboardText = text)",
            "it is copied",
            "window.clipboardText",
        ),
    ] {
        let write = format!("navigator.clipboard.writeText = async (text) => {clipboard}; 0");
        tab.eval(&write).await;
        tab.click("button[aria-label='Copy the request']").await;
        tab.until(what, &format!("{found} === {text}")).await;
    }

    let link = "document.querySelector(\"a[aria-label='Raw JSON of the request']\").pathname";
    let path = format!("/ui/tasks/{task}/raw/request");
    assert_eq!(tab.eval(link).await, json!(path));
    let no = "document.querySelector(\"a[aria-label='Raw JSON of the output of ship']\").pathname";
    let output = tab.eval(no).await;
    let output = output.as_str().expect("a path");
    let shipped = payloads["outputs"].as_array().expect("outputs");
    let shipped = shipped.iter().find(|it| it["step"] == "ship");
    let shipped = shipped.expect("an output")["output"].clone();
    for (path, expected) in [
        (path.as_str(), payloads["request"].clone()),
        (output, shipped),
    ] {
        let answer = asked(&shop, path).await;
        let header = |name: &str| answer.headers()[name].to_str().expect("a text").to_owned();
        assert_eq!(answer.status(), 200, "{path}");
        assert_eq!(header("content-type"), "application/json");
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(header("content-disposition"), "inline");
        assert_eq!(header("cache-control"), "no-store");
        assert_eq!(
            answer.json::<Value>().await.expect("JSON"),
            expected,
            "{path}"
        );
    }
    shop.assert_own(&tab);
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_json_is_for_those_who_may_see_it() {
    let mut shop = Shop::locked().await;
    let (reader, stranger) = (shop.key("read"), shop.key_in("acme", "admin"));
    shop.api = shop.api.clone().with_key(&shop.key("submit"));
    let task = shop.submit("order-lamp", r#"{"name":"Aurora"}"#).await;
    shop.api.at_rest(task).await;
    let payloads = read(&shop, &format!("/api/tasks/{task}/payloads")).await;
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    let raw = format!("/ui/tasks/{task}/raw/request");
    tab.open(&shop.url(&raw)).await;
    at(&tab, "/ui/sign-in").await;
    tab.fill("#credential", &stranger).await;
    tab.follow("button.primary").await;
    at(&tab, &raw).await;
    tab.shows("no-such-task").await;
    let answered = format!(
        "fetch({}).then(async (it) => [it.status, it.ok ? await it.json() : null])",
        json!(raw)
    );
    assert_eq!(tab.eval(&answered).await, json!([404, null]));
    tab.follow("header form button").await;
    tab.fill("#credential", &reader).await;
    tab.follow("button.primary").await;
    assert_eq!(tab.eval(&answered).await, json!([200, payloads["request"]]));
    shop.assert_asks_own(&tab);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_of_an_empty_installation_each_teach_what_makes_their_first_row() {
    let shop = Shop::open().await;
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    for (path, what, way) in [
        ("/ui", "A task is one run of a task type", "/ui/submit"),
        (
            "/ui/tasks",
            "A task is one run of a task type",
            "/ui/submit",
        ),
        ("/ui/parked", "A task is parked where", "/ui/types"),
        ("/ui/parked", "An operation retries", "/ui/tasks"),
        ("/ui/effects", "An effect is open", "/ui/parked"),
        (
            "/ui/types/order-lamp",
            "Nothing was measured",
            "/ui/submit/order-lamp",
        ),
    ] {
        tab.open(&shop.url(path)).await;
        let teaches = format!(
            "[...document.querySelectorAll('.empty')].some(it => it.innerText.includes({}) \
             && it.querySelector('a').pathname === {} && it.querySelector('code').innerText.startsWith('counterstep '))",
            json!(what),
            json!(way)
        );
        assert_eq!(tab.eval(&teaches).await, json!(true), "{path}: {what}");
    }
    // The first row takes its place, without a look anew.
    tab.open(&shop.url("/ui/tasks")).await;
    shop.submit("order-lamp", r#"{"name":"Aurora"}"#).await;
    tab.until(
        "a task is there in its place",
        "!!document.querySelector('#list tbody tr') && !document.querySelector('#list .empty')",
    )
    .await;
    shop.assert_own(&tab);
}
