//! How fast pages come with very many tasks, and what a long session leaves behind. By hand: it takes minutes,
//! and a figure is of one machine.

use super::shop::Shop;
use counterstep_contracts::TaskStatus;
use counterstep_contracts::workers::WorkersView;
use counterstep_tests::browser::{Browser, Tab};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const ALL: usize = 100_000;
const LIVE: usize = 2_000;

/// Looks of a page, after one that is not counted.
const LOOKS: usize = 20;

/// What a list that is looked at for an hour gets at most.
const UPDATES: usize = 3_600;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it takes minutes: cargo test -p counterstep-tests --test system figures -- --ignored --nocapture"]
async fn figures() {
    let shop = Shop::open().await;
    let begun = Instant::now();
    let closed: Vec<_> = (0..1_000)
        .map(|_| json!({ "request": { "name": "all" } }))
        .collect();
    for _ in 0..(ALL - LIVE) / 1_000 {
        submit(&shop, "check-stock", &closed).await;
    }
    let live = json!({ "request": { "name": "Aurora", "is_large": true } });
    for _ in 0..LIVE / 1_000 {
        submit(&shop, "order-lamp", &vec![live.clone(); 1_000]).await;
    }
    while open(&shop).await > LIVE as u64 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    println!(
        "{ALL} tasks, {LIVE} of them live, after {:?}",
        begun.elapsed()
    );
    let list = text(&shop, "/ui/tasks").await;
    let task = list
        .split("href=\"/ui/tasks/")
        .nth(1)
        .and_then(|it| it.split('"').next());
    let task = format!("/ui/tasks/{}", task.expect("a task"));
    for path in [
        "/ui",
        "/ui/tasks",
        "/ui/tasks?status=waiting",
        "/ui/tasks?type=OrderLamp&label=a=b",
        "/ui/parked",
        &task,
    ] {
        let times = times(&shop, path).await;
        println!(
            "{path}: median {:?}, worst of {LOOKS} {:?}",
            times[LOOKS / 2],
            times[LOOKS - 1]
        );
        assert!(
            times[LOOKS / 2] < Duration::from_millis(200),
            "{path}: {times:?}"
        );
    }
    session(&shop, &list).await;
}

async fn submit(shop: &Shop, route: &str, batch: &[Value]) {
    let path = format!("/api/tasks/{route}/batch");
    let request = shop.api.request(reqwest::Method::POST, &path);
    let answer = request.json(batch).send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
}

async fn open(shop: &Shop) -> u64 {
    let answer = shop
        .api
        .request(reqwest::Method::GET, "/api/workers")
        .send()
        .await;
    let view: WorkersView = answer.expect("an answer").json().await.expect("a view");
    let tasks = view.status.tasks.iter();
    let (waiting, other): (Vec<_>, Vec<_>) = tasks.partition(|it| it.status == TaskStatus::Waiting);
    let sum = |of: &[&counterstep_contracts::workers::TaskCountView]| {
        of.iter().map(|it| it.count).sum::<u64>()
    };
    match sum(&other) {
        0 => sum(&waiting),
        // Some are under way.
        _ => u64::MAX,
    }
}

async fn text(shop: &Shop, path: &str) -> String {
    let answer = shop.api.request(reqwest::Method::GET, path).send().await;
    answer.expect("an answer").text().await.expect("a page")
}

async fn times(shop: &Shop, path: &str) -> Vec<Duration> {
    text(shop, path).await;
    let mut times = Vec::new();
    for _ in 0..LOOKS {
        let begun = Instant::now();
        text(shop, path).await;
        times.push(begun.elapsed());
    }
    times.sort();
    times
}

/// An hour of updates of a list in a tab, and as many looks at it of the process.
async fn session(shop: &Shop, list: &str) {
    let browser = Browser::start().await;
    let tab = browser.tab().await;
    tab.call("Performance.enable", json!({})).await;
    tab.open(&shop.url("/ui/tasks")).await;
    tab.until(
        "it is live",
        "document.getElementById('live-state').dataset.state === 'live'",
    )
    .await;
    let part = list
        .split("<section id=\"list\"")
        .nth(1)
        .and_then(|it| it.split("</section>").next());
    let part = format!("<section id=\"list\"{}</section>", part.expect("a list"));
    // Two states of the list by turns, as the stream sends them.
    let other = part
        .replace("waiting", "running")
        .replace("completed", "failed");
    let play = |updates: usize| {
        let (a, b) = (json!(part), json!(other));
        format!(
            "(async () => {{ const source = window.lastSource; for (let at = 0; at < {updates}; at++) {{
             source.dispatchEvent(new MessageEvent('part', {{ data: at % 2 ? {a} : {b} }}));
             if (at % 50 === 0) await new Promise(requestAnimationFrame); }} }})()"
        )
    };
    // The page's own stream, which the browser hands out to no one: the next one is caught as it is made.
    tab.eval("(() => { const Real = EventSource; window.EventSource = class extends Real { constructor(url) { super(url); window.lastSource = this; } }; })()").await;
    tab.eval("document.dispatchEvent(new Event('visibilitychange')); 0")
        .await;
    tab.eval("(() => { Object.defineProperty(document, 'hidden', { configurable: true, value: true }); document.dispatchEvent(new Event('visibilitychange')); delete document.hidden; document.dispatchEvent(new Event('visibilitychange')); })()").await;
    tab.until("the stream is caught", "!!window.lastSource")
        .await;
    tab.eval(&play(400)).await;
    let (before, memory) = (heap(&tab).await, resident(shop));
    let begun = Instant::now();
    tab.eval(&play(UPDATES)).await;
    let took = begun.elapsed();
    for _ in 0..UPDATES {
        text(shop, "/ui/tasks").await;
    }
    let (after, then) = (heap(&tab).await, resident(shop));
    println!(
        "a tab, {UPDATES} updates in {took:?}: heap {before} to {after} kB, nodes and listeners as before"
    );
    println!("the process, {UPDATES} lists: {memory} to {then} kB");
    assert!(after < before + 2_000, "{before} to {after} kB");
    assert!(then < memory + 50_000, "{memory} to {then} kB");
}

/// What scripts of a tab hold, in kB, after what is not used was thrown away.
async fn heap(tab: &Tab) -> u64 {
    tab.call("HeapProfiler.collectGarbage", json!({})).await;
    let metrics = tab.call("Performance.getMetrics", json!({})).await;
    let all = metrics["metrics"].as_array().expect("metrics");
    let used = all.iter().find(|it| it["name"] == "JSHeapUsedSize");
    let used = used.and_then(|it| it["value"].as_f64()).expect("a size");
    let nodes = all
        .iter()
        .find(|it| it["name"] == "Nodes")
        .map(|it| it["value"].clone());
    println!("nodes {}", nodes.unwrap_or_default());
    (used / 1_000.0) as u64
}

/// What the process holds in memory, in kB.
fn resident(shop: &Shop) -> u64 {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", shop.pid())).expect("a process");
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .expect("a size");
    let digits: String = line.chars().filter(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}
