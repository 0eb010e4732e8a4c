//! What people type to find tasks: by id, ending, label, type, state, time and text; views that are saved; and what completes a search.

use crate::access::{ask, key, locked};
use crate::labels::{send, sent};
use crate::reply::Reply;
use crate::site::Site;
use counterstep_contracts::access::Role;
use counterstep_contracts::bulk::BulkPreview;
use counterstep_contracts::commands::segment;
use counterstep_contracts::http::{Accepted, Page};
use counterstep_contracts::search::{FoundTasks, ReadAs, SearchedTerm, Suggestion};
use counterstep_contracts::view::SavedView;
use counterstep_contracts::{TaskId, TaskStatus};
use serde_json::json;

fn path(q: &str, more: &str) -> String {
    format!("/api/tasks?q={}{more}", segment(q))
}

async fn found(site: &Site, q: &str) -> (Vec<TaskId>, Vec<SearchedTerm>) {
    let page: FoundTasks = site.get(&path(q, "")).await.json(200);
    assert_eq!(page.next_cursor, None, "{q}");
    let tasks = page.items.iter().map(|task| task.task_id).collect();
    (tasks, page.search.expect("how it was read").terms)
}

async fn tasks(site: &Site, q: &str) -> Vec<TaskId> {
    found(site, q).await.0
}

async fn refused(site: &Site, q: &str, words: &str) {
    let problem = site.get(&path(q, "")).await.problem(422, "invalid-request");
    assert_eq!(problem["pointer"], "q", "{q}");
    let detail = problem["detail"].as_str().expect("a text");
    assert!(detail.contains(words), "{q}: {detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_found_by_its_id_its_ending_and_the_value_of_a_label() {
    let site = Site::start().await;
    let order = sent(&site, 1, &["order=4715"]).await;
    let customer = sent(&site, 2, &["customer=4715"]).await;
    let other = sent(&site, 3, &["order=47150"]).await;

    let (by_id, terms) = found(&site, &other.to_string()).await;
    assert_eq!((by_id, terms[0].read_as), (vec![other], ReadAs::Id));
    let whole = other.0.as_simple().to_string();
    for ending in [&whole[24..], &whole[16..].to_uppercase()] {
        let (by_ending, terms) = found(&site, ending).await;
        assert_eq!((by_ending, terms[0].read_as), (vec![other], ReadAs::Ending));
        assert_eq!(terms[0].fits, [other.to_string()]);
        let far = terms[0].looked_at.as_deref().expect("how far was looked");
        assert!(
            far.contains("the newest 1000 tasks and all that are open"),
            "{far}"
        );
    }
    // Two names have the value: both are found, and named.
    let (by_value, terms) = found(&site, "4715").await;
    // Of two that were submitted in one millisecond either may be the newer one.
    let mut both = [order, customer];
    both.sort();
    let [older, newer] = both;
    assert_eq!(by_value, [newer, older]);
    assert_eq!(terms[0].read_as, ReadAs::Several);
    assert_eq!(terms[0].fits, ["customer=4715", "order=4715"]);
    assert_eq!(tasks(&site, "order=4715").await, [order]);
    assert_eq!(tasks(&site, "47150").await, [other]);
    assert_eq!(tasks(&site, "4715 parcel=1").await, [order]);
    assert_eq!(tasks(&site, "4715 47150").await, []);
    // An id of another system is no task's, and the value of a label.
    let parcel = "0b3f5a52-9f1e-4d3a-8a52-aabbccddeeff";
    let labelled = sent(&site, 4, &[&format!("ship={parcel}")]).await;
    let (by_id, terms) = found(&site, parcel).await;
    assert_eq!((by_id, terms[0].read_as), (vec![labelled], ReadAs::Several));
    // The order, and pages of several lists.
    assert_eq!(tasks(&site, "4715 sort:oldest").await, both);
    let first: FoundTasks = site.get(&path("4715", "&limit=1")).await.json(200);
    assert_eq!(first.items[0].task_id, newer);
    let next = first.next_cursor.expect("a further page");
    let more = format!("&limit=1&cursor={next}");
    let second: FoundTasks = site.get(&path("4715", &more)).await.json(200);
    assert_eq!((second.items[0].task_id, second.next_cursor), (older, None));
    site.get(&path("4715 sort:oldest", &more))
        .await
        .problem(400, "malformed-parameter");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_word_is_a_state_a_type_or_a_text_of_a_failure() {
    let site = Site::start().await;
    site.run_worker();
    let body = json!({ "number": 7, "to": null, "lost": true });
    let lost = send(&site, &body, &[]).await;
    let lost = lost
        .json::<counterstep_contracts::http::Accepted>(202)
        .task_id;
    site.until(lost, TaskStatus::DeadLettered).await;
    let done = sent(&site, 8, &["order=1"]).await;
    site.until(done, TaskStatus::Completed).await;
    let note = site.submit("/api/tasks/write-note").await;
    site.until(note, TaskStatus::Completed).await;

    for q in [
        "parked",
        "dead-lettered",
        "status:parked",
        "parcel open",
        "Parcel \"is lost\"",
    ] {
        assert_eq!(tasks(&site, q).await, [lost], "{q}");
    }
    assert_eq!(tasks(&site, "parcel completed").await, [done]);
    assert_eq!(tasks(&site, "type:write-note").await, [note]);
    assert_eq!(tasks(&site, "completed parked parcel").await, [done, lost]);
    // Words that nothing has are one text, where something bounds the tasks that are looked at.
    assert_eq!(tasks(&site, "7 is lost since:1h").await, [lost]);
    refused(&site, "is lost", "add `type:NAME` or `since:7d`").await;
    refused(&site, "status:lost", "a state is one of").await;
    refused(&site, "parcel type:WriteNote", "one type").await;
    refused(&site, "since:1h since:2h", "stands twice").await;
    refused(&site, "sort:size", "in the order of submission").await;
    refused(&site, "\"open", "not closed").await;
    refused(&site, "order=\0", "control characters").await;
    let endings = "0badcaf1 0badcaf2 0badcaf3";
    refused(&site, endings, "endings of ids").await;
    let twice = site.get(&path("parcel", "&type=parcel")).await;
    assert_eq!(twice.problem(422, "invalid-request")["pointer"], "q");
    // An ending that no id has is no text.
    let (none, terms) = found(&site, "0badcafe").await;
    assert_eq!((none, terms[0].fits.len()), (vec![], 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_another_tenant_is_found_or_suggested() {
    let site = locked().await;
    let (own, _) = key(&site, "acme", Role::Admin).await;
    let (other, _) = key(&site, "umbra", Role::Admin).await;
    let request = site
        .request("POST", "/api/tasks/parcel")
        .bearer_auth(&own)
        .header("content-type", "application/json")
        .header("counterstep-label", "order=4715");
    let accepted = site.send(request.body(r#"{"number":1,"to":null}"#)).await;
    let task = accepted.json::<Accepted>(202).task_id;
    let view = json!({ "q": "order=4715" }).to_string();
    let saved = ask(&site, &own, "PUT", "/api/views/mine", &view).await;
    saved.json::<SavedView>(200);

    let whole = task.0.as_simple().to_string();
    for q in [&task.to_string(), &whole[20..], "4715", "order=4715"] {
        for (key, expected) in [(&own, vec![task]), (&other, vec![])] {
            let page = ask(&site, key, "GET", &path(q, ""), "").await;
            // A value that no label of the tenant has is a text, which asks for a bound.
            if expected.is_empty() && q == "4715" {
                page.problem(422, "invalid-request");
                continue;
            }
            let page: FoundTasks = page.json(200);
            let tasks: Vec<_> = page.items.iter().map(|it| it.task_id).collect();
            assert_eq!(tasks, expected, "{q}");
        }
    }
    let of_view = path("view:mine", "");
    ask(&site, &other, "GET", &of_view, "")
        .await
        .problem(404, "no-such-view");
    for (key, count) in [(&own, 1), (&other, 0)] {
        let offered = ask(&site, key, "GET", "/api/searches/suggestions?q=ord", "").await;
        let offered: Page<Suggestion> = offered.json(200);
        let orders = offered.items.iter().filter(|it| it.q.contains("order"));
        assert_eq!(orders.count(), count);
    }
}

async fn put(site: &Site, name: &str, body: &serde_json::Value) -> Reply {
    let request = site.request("PUT", &format!("/api/views/{name}"));
    let request = request.header("content-type", "application/json");
    site.send(request.body(body.to_string())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_saved_view_is_a_term_of_a_search_and_completes_one() {
    let site = Site::start().await;
    let order = sent(&site, 1, &["order=4715"]).await;
    sent(&site, 2, &["order=4716"]).await;
    let spec = json!({"q": "order=4715", "columns": "order,changed"});
    let saved: SavedView = put(&site, "mine", &spec).await.json(200);
    assert_eq!((&*saved.name, &*saved.q), ("mine", "order=4715"));
    let listed: Page<SavedView> = site.get("/api/views").await.json(200);
    assert_eq!(listed.items, [saved]);
    assert_eq!(tasks(&site, "view:mine").await, [order]);
    assert_eq!(tasks(&site, "view:mine completed").await, []);
    site.get(&path("view:other", ""))
        .await
        .problem(404, "no-such-view");
    for (name, q) in [
        ("a%20b", "open"),
        ("x", "view:mine"),
        ("x", "status:lost"),
        ("x", " "),
    ] {
        put(&site, name, &json!({"q": q}))
            .await
            .problem(422, "invalid-request");
    }
    let completed = |q: &str| {
        let path = format!("/api/searches/suggestions?q={}", segment(q));
        let site = &site;
        async move {
            let page: Page<Suggestion> = site.get(&path).await.json(200);
            page.items.into_iter().map(|it| it.q).collect::<Vec<_>>()
        }
    };
    for columns in ["", "a b", &"a".repeat(201)] {
        let refused = put(&site, "x", &json!({"q": "open", "columns": columns})).await;
        let problem = refused.problem(422, "invalid-request");
        assert_eq!(problem["pointer"], "columns");
    }
    let terms = "open ".repeat(31);
    put(&site, "long", &json!({"q": terms}))
        .await
        .assert_status(200);
    refused(&site, "open view:long open", "at most 32 terms").await;
    let nul = site.get("/api/searches/suggestions?q=order=%00").await;
    nul.problem(422, "invalid-request");
    assert_eq!(completed("open ord").await, ["open order="]);
    assert_eq!(completed("order=47").await, ["order=4715", "order=4716"]);
    assert_eq!(completed("mi").await, ["view:mine"]);
    assert_eq!(completed("write").await, ["WriteNote"]);
    assert_eq!(completed("type:wr").await, ["type:WriteNote"]);
    assert_eq!(completed("open comple").await, ["open completed"]);
    assert_eq!(completed("text:\"a b").await, [] as [&str; 0]);
    let deleted = site.request("DELETE", "/api/views/mine");
    site.send(deleted).await.assert_status(204);
    let deleted = site.request("DELETE", "/api/views/mine");
    site.send(deleted).await.problem(404, "no-such-view");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_on_many_takes_a_search_each_term_of_which_means_one_thing() {
    let site = Site::start().await;
    sent(&site, 1, &["order=4715"]).await;
    sent(&site, 2, &["customer=4715"]).await;
    let preview = |q: &str| {
        let body = json!({"action": "cancel", "filter": {"q": q}, "note": "x", "preview": true});
        site.post("/api/bulk-operations", body.to_string())
    };
    let counted: BulkPreview = preview("order=4715 parcel").await.json(200);
    assert_eq!(counted.count, 1);
    let filter = counted.filter.expect("what it was read as");
    assert_eq!(
        json!(filter),
        json!({"type": "Parcel", "labels": {"order": "4715"}})
    );
    // An empty variable of a script is not all tasks.
    for none in ["", " ", "sort:oldest"] {
        let all = preview(none).await.problem(422, "invalid-request");
        assert_eq!(all["pointer"], "filter.q");
        let detail = all["detail"].as_str().unwrap();
        assert!(detail.contains("no condition"), "{detail}");
    }
    // Nor is a list in place of the object.
    let list = json!({"action": "cancel", "filter": [], "note": "x", "preview": true});
    let list = site.post("/api/bulk-operations", list.to_string()).await;
    list.problem(422, "invalid-request");
    let several = preview("4715").await.problem(422, "invalid-request");
    assert_eq!(several["pointer"], "filter.q");
    assert!(
        several["detail"].as_str().unwrap().contains("`4715`"),
        "{several}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn words_that_fit_many_labels_together_are_refused_before_a_list_is_read() {
    let site = Site::start().await;
    let names: Vec<String> = (0..15).map(|no| format!("n{no}=a,m{no}=b")).collect();
    for (number, both) in names.iter().enumerate() {
        let (one, other) = both.split_once(',').expect("two");
        sent(&site, 10 + u32::try_from(number).unwrap(), &[one, other]).await;
    }
    let (all, terms) = found(&site, "a a a a").await;
    assert_eq!((all.len(), terms.len(), terms[0].fits.len()), (15, 1, 15));
    refused(&site, "a b", "225 lists").await;
    // A value with a space is offered as it is to be written.
    let spaced = sent(&site, 99, &["customer=Ada Lovelace"]).await;
    let (one, terms) = found(&site, "\"Ada Lovelace\"").await;
    assert_eq!(one, [spaced]);
    assert_eq!(terms[0].fits, ["customer=\"Ada Lovelace\""]);
}
