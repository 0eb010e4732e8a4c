//! What pages show beside decisions: JSON that is open where it is short, copied and raw, lists that say what makes their first row,
//! and what a new schedule may be of.

use super::notebook::{ID, payloads};
use super::{Desk, attribute, plain};
use actix_web::http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use serde_json::{Value, json};

/// What a button of this name copies: the text of the element right before it.
fn copied(html: &str, name: &str) -> Option<String> {
    let parts: Vec<_> = html.split("<button").collect();
    let is_it = |it: &&str| attribute(it, "aria-label").as_deref() == Some(name);
    let at = parts.iter().skip(1).position(is_it)?;
    let text = parts[at].strip_suffix("</pre>")?;
    Some(plain(text.rsplit('>').next()?))
}

#[actix_web::test]
async fn short_json_is_open_and_each_is_copied_and_has_a_link_to_itself() {
    let page = Desk::new().get("/tasks/completed").await.html;
    let request = payloads()["request"].clone();
    let text = copied(&page, "Copy the request").expect("a button");
    assert_eq!(text, format!("{request:#}"));
    assert_eq!(
        plain(&page).matches(&text).count(),
        1,
        "it stands there once"
    );
    assert!(
        page.contains("<details open><summary>Request</summary>"),
        "{page}"
    );
    assert!(
        page.contains("<details><summary>Output of <code>reserve</code>"),
        "{page}"
    );
    let raw = format!("href=\"/ui/tasks/{ID}/raw/steps/1/output\"");
    assert!(page.contains(&raw), "{page}");
    // What is erased, or nothing, is shown as it is.
    assert!(
        page.contains("<summary>Output of <code>ship</code>"),
        "{page}"
    );
    assert_eq!(copied(&page, "Copy the output of ship"), None);
    assert!(!page.contains("/raw/steps/2/"), "{page}");
}

#[actix_web::test]
async fn raw_json_is_nothing_else() {
    let desk = Desk::new();
    let (request, output) = (
        payloads()["request"].clone(),
        payloads()["outputs"][0]["output"].clone(),
    );
    for (path, expected) in [("request", request), ("steps/1/output", output)] {
        let (status, headers, body) = desk.raw(&format!("/tasks/completed/raw/{path}")).await;
        assert_eq!(status, 200, "{path}: {body}");
        assert_eq!(
            serde_json::from_str::<Value>(&body).expect("JSON"),
            expected
        );
        for (name, value) in [
            (CONTENT_TYPE, "application/json"),
            (CONTENT_DISPOSITION, "inline"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (CACHE_CONTROL, "no-store"),
        ] {
            assert_eq!(
                headers.get(&name).and_then(|it| it.to_str().ok()),
                Some(value),
                "{name}"
            );
        }
    }
    // No output, no such step, no response, and payloads that this caller cannot read.
    for path in [
        "completed/raw/steps/2/output",
        "completed/raw/steps/x/output",
        "completed/raw/response",
        "running/raw/request",
    ] {
        let (status, ..) = desk.raw(&format!("/tasks/{path}")).await;
        assert_eq!(status, 404, "{path}");
    }
}

#[actix_web::test]
async fn each_list_without_a_row_says_what_makes_the_first() {
    let desk = Desk::new();
    desk.notebook.is_new.set(true);
    for (page, what, command) in [
        ("/tasks", "A task is one run of a task type", "tasks submit"),
        ("/", "A task is one run of a task type", "tasks submit"),
        ("/parked", "A task is parked where", "dead-letters groups"),
        ("/parked", "An operation retries", "dead-letters redrive"),
        ("/effects", "An effect is open", "effects list"),
        ("/types", "A task type declares", "new shop"),
        ("/submit", "A task type declares", "new shop"),
        ("/schedules", "A schedule submits", "schedules set"),
        ("/queues", "A queue holds", "queues list"),
        ("/limits", "A limit bounds", "limits list"),
        ("/workers", "have a row here", "worker"),
    ] {
        let found = desk.get(page).await;
        assert_eq!(found.status, 200, "{page}: {}", found.html);
        let taught = found.html.split("<div class=\"empty\">").skip(1);
        let mut taught = taught.filter_map(|it| it.split("</div>").next());
        let own = taught.find(|it| it.contains(what));
        let own = own.unwrap_or_else(|| panic!("{page}: {}", found.html));
        assert!(
            own.contains(&format!("<code>counterstep {command}")),
            "{page}: {own}"
        );
    }
    desk.notebook.is_new.set(false);
    let page = desk.get("/parked").await;
    assert!(page.html.contains("no lamp #"), "{}", page.html);
    assert!(page.html.contains(" by program 0.9.1"), "{}", page.html);
    assert!(
        !page.html.contains("A task is parked where"),
        "{}",
        page.html
    );
}

#[actix_web::test]
async fn a_new_schedule_is_of_a_type_without_files_and_of_no_name_that_there_is() {
    let desk = Desk::new();
    let page = desk.get("/schedules/new").await.html;
    assert!(page.contains("/schedules/new?type=order-lamp\""), "{page}");
    assert!(!page.contains("type=zip\""), "{page}");
    let page = desk.get("/schedules/new?type=zip").await;
    assert_eq!(page.status, 422, "{}", page.html);
    let page = desk.get("/schedules/new?type=unknown").await;
    assert_eq!(page.status, 404, "{}", page.html);
    let address = "/schedules/new?type=order-lamp";
    for (name, why) in [
        ("nightly", "exists"),
        ("a/b", "1 to 100 characters"),
        ("", "1 to 100 characters"),
    ] {
        let mut fields = desk.get(address).await.fields();
        fields.insert("name".to_owned(), name.to_owned());
        let (sent, answer) = desk.press(address, &fields, None).await;
        assert_eq!(
            (sent, answer.status),
            (None, 422),
            "{name}: {}",
            answer.html
        );
        assert!(answer.html.contains("`name`"), "{}", answer.html);
        assert!(answer.html.contains(why), "{}", answer.html);
        assert_eq!(answer.fields(), fields, "{name}");
    }
}

#[actix_web::test]
async fn an_edit_of_a_schedule_that_was_changed_meanwhile_is_refused_and_comes_back_as_entered() {
    let desk = Desk::new();
    let address = "/schedules/nightly/edit";
    let mut fields = desk.get(address).await.fields();
    fields.insert("request.title".to_owned(), "some".to_owned());
    let change = |name: &str, value: Value| {
        let mut nightly = desk.notebook.nightly.borrow_mut();
        nightly.insert(name.to_owned(), value);
    };
    // A firing changes nothing of what is sent.
    change("revision", json!(2));
    let (sent, answer) = desk.press(address, &fields, None).await;
    assert_eq!((sent.is_some(), answer.status), (true, 303));
    change("request", json!({"title": "all", "later": 1}));
    // It is refused once more where its button is pressed once more: the form still does not show the change.
    for _ in 0..2 {
        let (sent, answer) = desk.press(address, &fields, None).await;
        assert_eq!((sent, answer.status), (None, 422), "{}", answer.html);
        let why = "`nightly` was changed after this form was opened";
        assert!(answer.html.contains(why), "{}", answer.html);
        assert_eq!(answer.fields(), fields);
        fields = answer.fields();
    }
    let fields = desk.get(address).await.fields();
    // Its request has now what fields cannot hold.
    assert!(fields["request"].contains("\"later\": 1"), "{fields:?}");
    let (sent, answer) = desk.press(address, &fields, None).await;
    assert_eq!(answer.status, 303, "{}", answer.html);
    let body: Value = serde_json::from_str(&sent.expect("a call").body).expect("JSON");
    assert_eq!(body["request"]["later"], 1, "{body}");
}

#[actix_web::test]
async fn what_a_schedule_cannot_do_without_is_not_sent_empty() {
    let desk = Desk::new();
    for (page, name) in [
        ("/schedules/nightly/edit", "grace"),
        ("/schedules/nightly/edit", "catch_up_limit"),
        ("/schedules/nightly/edit", "request.title"),
        ("/schedules/new?type=order-lamp", "request"),
    ] {
        let mut fields = desk.get(page).await.fields();
        fields.insert(name.to_owned(), String::new());
        let (sent, answer) = desk.press(page, &fields, None).await;
        assert_eq!((sent, answer.status), (None, 422), "{}", answer.html);
        let why = format!("`{name}` is missing; expected");
        assert!(answer.html.contains(&why), "{name}: {}", answer.html);
    }
}
