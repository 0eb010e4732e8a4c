//! What all pages have around them: the colours that a person has chosen, the keys, the name of the installation;
//! and that a list which keeps itself up to date is the one of its page.

use super::Desk;
use actix_web::body::MessageBody;
use actix_web::test::TestRequest;
use counterstep_contracts::ProblemCode;
use counterstep_contracts::installation::{BarColor, Installation};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;

const STYLE: &str = include_str!("../../../assets/ui.css");

/// The form token of a page.
async fn token(desk: &Desk) -> String {
    let page = desk.get("/queues").await;
    assert_eq!(page.status, 200, "{}", page.html);
    let token = super::between(&page.html, "name=\"form_token\" value=\"", "\"");
    token.to_owned()
}

/// Where the form of the foot leads back to.
fn back(html: &str) -> String {
    super::plain(super::between(html, "name=\"back\" value=\"", "\""))
}

/// What a form of the foot is answered.
async fn chosen(desk: &Desk, fields: &[(&str, &str)]) -> super::Page {
    let token = token(desk).await;
    let mut all = vec![("form_token", token.as_str())];
    all.extend(fields);
    let request = TestRequest::post().uri("/ui/preferences").set_form(all);
    desk.send(request).await
}

#[actix_web::test]
async fn a_choice_is_kept_for_a_year_in_a_cookie_and_pages_are_so_from_the_first_byte() {
    let desk = Desk::new();
    let plain = desk.get("/queues?did=pauseQueue").await.html;
    assert!(plain.contains("<html lang=\"en\">"), "{plain}");
    let kept = "; Path=/ui; HttpOnly; SameSite=Strict; Max-Age=";
    for (field, value, cookie) in [
        ("theme", "dark", "counterstep_theme=dark; … 31536000"),
        ("theme", "light", "counterstep_theme=light; … 31536000"),
        ("theme", "system", "counterstep_theme=; … 0"),
        ("shortcuts", "off", "counterstep_shortcuts=off; … 31536000"),
        ("shortcuts", "on", "counterstep_shortcuts=; … 0"),
    ] {
        let answer = chosen(&desk, &[(field, value), ("back", "/queues")]).await;
        assert_eq!(answer.status, 303, "{}", answer.html);
        assert_eq!(answer.location.as_deref(), Some("/ui/queues"));
        assert_eq!(answer.cookies, [cookie.replace("; … ", kept)]);
    }
    let dark = TestRequest::get().uri("/ui/queues");
    let dark = dark.append_header(("cookie", "counterstep_theme=dark"));
    let dark = desk.send(dark).await.html;
    assert!(
        dark.contains("<html lang=\"en\" data-theme=\"dark\">"),
        "{dark}"
    );
    assert!(dark.contains("name=\"color-scheme\" content=\"dark\""));
}

#[actix_web::test]
async fn what_is_no_choice_is_ignored_and_a_form_of_another_site_refused() {
    let desk = Desk::new();
    for (field, value) in [("theme", "pink"), ("shortcuts", "maybe"), ("other", "dark")] {
        let fields = [(field, value), ("back", "https://evil.example")];
        let answer = chosen(&desk, &fields).await;
        assert_eq!(answer.status, 303, "{}", answer.html);
        assert_eq!(answer.location.as_deref(), Some("/ui/"));
        assert_eq!(answer.cookies, [] as [String; 0], "{value}");
    }
    let forged = TestRequest::post().uri("/ui/preferences");
    let answer = desk.send(forged.set_form([("theme", "dark")])).await;
    assert_eq!((answer.status, answer.cookies), (403, Vec::new()));
}

#[actix_web::test]
async fn a_choice_leads_back_to_the_page_where_it_was_also_to_one_that_came_as_a_refusal() {
    let desk = Desk::new();
    for (page, expected) in [
        ("/queues", "/queues"),
        ("/queues?did=pauseQueue", "/queues"),
        ("/parked?cursor=a+b&did=sent&x=1", "/parked?cursor=a+b&x=1"),
    ] {
        assert_eq!(back(&desk.get(page).await.html), expected);
    }
    for (page, status, expected) in [
        ("/queues/lamps/pause?a=1", 422, "/queues/lamps/pause?a=1"),
        // Refused for its token: it stays in no address.
        ("/submit/zip?form_token=old", 403, "/submit/zip"),
        // Where there is no page.
        ("/preferences", 403, "/"),
        ("/sign-out", 403, "/"),
    ] {
        let mut fields = BTreeMap::new();
        if status == 422 {
            fields = desk.get(page).await.fields();
        }
        let invalid = Some(ProblemCode::InvalidRequest);
        let (_, answer) = desk.press(page, &fields, invalid).await;
        assert_eq!(answer.status, status, "{page}: {}", answer.html);
        assert_eq!(back(&answer.html), expected);
    }
}

#[actix_web::test]
async fn the_script_has_the_address_of_the_search_only_where_keys_are_on() {
    let desk = Desk::new();
    let on = desk.get("/queues").await.html;
    assert!(on.contains("data-search=\"/ui/tasks#q\""), "{on}");
    let off = TestRequest::get().uri("/ui/queues");
    let off = off.append_header(("cookie", "counterstep_shortcuts=off"));
    let off = desk.send(off).await.html;
    assert!(!off.contains("data-search"), "{off}");
    assert!(off.contains("aria-checked=\"false\""), "{off}");
}

#[actix_web::test]
async fn the_name_of_the_installation_is_a_text_of_each_page_and_its_title() {
    let none = Desk::new().get("/queues").await.html;
    assert!(none.contains(">Queues · Counterstep</title>"), "{none}");
    assert!(!none.contains("class=\"bar"), "{none}");
    let desk = Desk {
        installation: Installation {
            name: Some("staging <2>".to_owned()),
            color: BarColor::Orange,
        },
        ..Desk::new()
    };
    for path in ["/queues", "/no-such-page"] {
        let html = desk.get(path).await.html;
        for part in [
            " · staging &lt;2&gt; · Counterstep</title>",
            "<span class=\"installation\">staging &lt;2&gt;</span>",
            "<div class=\"bar orange\" aria-hidden=\"true\"></div>",
        ] {
            assert!(html.contains(part), "{path}: {part}: {html}");
        }
    }
}

/// The two colours of a variable, for light and dark.
fn pair<'a>(rule: &'a str, name: &str) -> [&'a str; 2] {
    let pair = super::between(rule, &format!("{name}: light-dark("), ")");
    let (light, dark) = pair.split_once(", ").expect("two colours");
    [light, dark]
}

/// As WCAG has it.
fn luminance(color: &str) -> f64 {
    let part = |at: usize| {
        let part = u8::from_str_radix(&color[at..at + 2], 16).expect("a colour");
        let part = f64::from(part) / 255.0;
        if part <= 0.040_45 {
            part / 12.92
        } else {
            ((part + 0.055) / 1.055).powf(2.4)
        }
    };
    0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
}

#[test]
fn each_bar_can_be_seen_in_light_and_dark() {
    for color in BarColor::ALL.iter().filter(|it| **it != BarColor::None) {
        let rule = super::between(STYLE, &format!(".bar.{color} {{"), "}");
        for ground in ["--sheet", "--ground"] {
            for (bar, ground) in pair(rule, "--bar").into_iter().zip(pair(STYLE, ground)) {
                let (one, other) = (luminance(bar), luminance(ground));
                let contrast = (one.max(other) + 0.05) / (one.min(other) + 0.05);
                assert!(contrast >= 3.0, "{color}: {contrast} on {ground}");
            }
        }
    }
}

/// The first part of a stream.
async fn part(desk: &Desk, path: &str) -> String {
    let answer = desk.answer(TestRequest::get().uri(path)).await;
    assert_eq!(answer.status(), 200, "{path}");
    let mut body = pin!(answer.into_body());
    let chunk = poll_fn(|context| body.as_mut().poll_next(context)).await;
    let chunk = chunk.expect("a part").expect("a part").to_vec();
    let chunk = String::from_utf8(chunk).expect("a text");
    assert!(chunk.contains("event: part\n"), "{path}: {chunk}");
    let lines = chunk.lines().filter_map(|it| it.strip_prefix("data: "));
    lines.collect::<Vec<_>>().join("\n")
}

#[actix_web::test]
async fn a_list_that_keeps_itself_up_to_date_is_the_one_of_its_page() {
    let desk = Desk::new();
    for (page, shown) in [
        ("/parked", "no lamp #"),
        ("/parked?cursor=abc", "no lamp #"),
        ("/types", "OrderLamp"),
        ("/schedules", "There is none: a program declares them"),
        ("/queues", "lamps"),
        ("/workers", "worker:1"),
    ] {
        let html = desk.get(page).await.html;
        let live = super::between(&html, "data-live=\"", "\"");
        assert_eq!(live, format!("/ui/live{page}"));
        let part = part(&desk, live).await;
        assert!(part.contains(shown), "{page}: {part}");
        assert!(html.contains(&part), "{page}: {part}: {html}");
    }
}
