//! Where links of the list of tasks lead while a saved view is searched for, and what former addresses of the list search for.

use super::notebook::ID;
use super::{Desk, attribute, between, plain};

/// The links of this class that have this text.
fn links(html: &str, class: &str, text: &str) -> Vec<String> {
    let begin = format!("<a class=\"{class}\"");
    let links = html.split(&begin).skip(1);
    let of_text = links.filter(|it| between(it, ">", "</a>") == text);
    of_text.filter_map(|it| attribute(it, "href")).collect()
}

/// What stands in the box.
fn searched(html: &str) -> String {
    plain(between(html, "name=\"q\" value=\"", "\""))
}

#[actix_web::test]
async fn links_of_a_saved_view_keep_its_terms_once() {
    let desk = Desk::new();
    for (page, class, text, expected) in [
        (
            "q=view:late",
            "label",
            "order=4711",
            "view%3Alate+order%3D4711",
        ),
        (
            "view=late",
            "label",
            "order=4711",
            "view%3Alate+order%3D4711",
        ),
        (
            "q=view:late+order%3D4711",
            "label",
            "order=4711",
            "view%3Alate+order%3D4711",
        ),
        ("q=parked", "label", "order=4711", "order%3D4711"),
        // The view has this state, and not that one.
        ("q=view:late", "check", "open", "until%3A2h"),
        ("q=view:late+status:open", "check", "open", "until%3A2h"),
        (
            "q=view:late",
            "check",
            "failed",
            "view%3Alate+status%3Afailed",
        ),
        (
            "q=view:late+status:failed",
            "check",
            "failed",
            "view%3Alate",
        ),
        ("q=until:2h", "check", "open", "until%3A2h+status%3Aopen"),
    ] {
        let html = desk.get(&format!("/tasks?{page}")).await.html;
        let expected = format!("/ui/tasks?q={expected}");
        assert_eq!(links(&html, class, text), [expected], "{page}: {html}");
    }
    let html = desk.get("/tasks?q=view:late").await.html;
    let mut states = html.split("<a class=\"check\"");
    let open = states.find(|it| between(it, ">", "</a>") == "open");
    let current = attribute(open.expect("a link"), "aria-current");
    assert_eq!(current.as_deref(), Some("true"));
}

#[actix_web::test]
async fn a_former_address_searches_for_its_text_as_a_text() {
    let desk = Desk::new();
    for (page, expected) in [
        ("text=parked", "text:parked since:7d"),
        ("text=order%3D1", "text:order=1 since:7d"),
        ("text=status:open&since=1h", "since:1h text:status:open"),
        ("text=a+b&type=OrderLamp", "type:OrderLamp text:\"a b\""),
        (
            "status=failed&text=OrderLamp",
            "status:failed text:OrderLamp since:7d",
        ),
    ] {
        let html = desk.get(&format!("/tasks?{page}")).await.html;
        assert_eq!(searched(&html), expected, "{page}");
    }
    let of_id = desk.get(&format!("/tasks?text={ID}")).await;
    assert_eq!(of_id.location, Some(format!("/ui/tasks/{ID}")));
}
