//! Tasks on queues of the program's own: each is brought to a worker by its message, none is found by polling.

use super::{Deployment, submit_json};
use crate::api::Api;
use counterstep_contracts::TaskStatus;
use serde_json::json;
use std::time::Instant;

/// Tasks on all queues together.
const TASKS: usize = 50;

/// The figure of tasks that polling has found.
const POLLED: &str = "counterstep_found_by_polling_total{";

/// Completes tasks one after another, and compares the figures of the processes behind these addresses.
///
/// # Panics
/// When a task does not complete, or polling has found one.
pub(super) async fn serve_without_polling(deployment: &Deployment, api: &Api, pages: &[String]) {
    let routes = deployment.own_queues;
    if routes.is_empty() {
        return;
    }
    let began = Instant::now();
    for number in 0..TASKS {
        let route = routes[number % routes.len()];
        let body = json!({ "number": number.to_string() });
        let task = submit_json(api, route, &body).await;
        let ended = api.at_rest(task).await;
        assert_eq!(ended.status, TaskStatus::Completed, "{route}: {ended:?}");
    }
    let each = began.elapsed() / u32::try_from(TASKS).expect("few");
    println!("{TASKS} tasks on queues of the program's own, one after another: {each:?} each");

    let mut series = 0;
    for page in pages {
        let text = reqwest::get(format!("http://{page}/metrics")).await;
        let text = text.expect("an answer").text().await.expect("a page");
        for line in text.lines().filter(|line| line.starts_with(POLLED)) {
            assert!(line.ends_with("} 0"), "{page}: {line}");
            series += 1;
        }
    }
    assert!(series >= routes.len(), "no figures of polling: {pages:?}");
}
