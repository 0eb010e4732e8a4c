//! The part of a type's page that has how long its tasks took.

use super::Desk;

#[actix_web::test]
async fn the_page_of_a_type_has_durations_as_a_chart_and_as_a_table() {
    let page = Desk::new()
        .get("/types/order-lamp?range=7d&step=ship")
        .await;
    assert_eq!(page.status, 200, "{}", page.html);
    for part in [
        "How long attempts at ship took",
        "<figure class=\"hours\" tabindex=\"0\"",
        "?range=24h&amp;step=ship#durations\"",
        "OrderLamp, whole tasks",
        "Ended or parked: ",
        "dead lettered</span> 2",
        "1 min 1 s",
        "Why tasks failed",
    ] {
        assert!(page.html.contains(part), "{part}: {}", page.html);
    }
    // Of three hours the last two do not follow each other.
    let lines = page.html.split("<g class=\"line0\">").nth(1);
    let line = lines
        .and_then(|it| it.split("<path d=\"").nth(1))
        .expect("a line");
    let line = line.split('"').next().unwrap_or_default();
    assert_eq!(
        (line.matches('M').count(), line.matches('L').count()),
        (2, 1),
        "{line}"
    );
    let odd = Desk::new().get("/types/order-lamp?range=1000y").await;
    assert!(odd.html.contains("How long tasks that completed took"));
}

#[actix_web::test]
async fn the_page_of_a_type_has_durations_by_a_label() {
    let page = Desk::new().get("/types/order-lamp").await.html;
    for part in ["value=\"customer=\"", "placeholder=\"customer=\""] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("All tasks"), "{page}");
    let page = Desk::new()
        .get("/types/order-lamp?label=customer%3D4711")
        .await
        .html;
    for part in [
        "How long tasks with customer=4711 that completed took",
        "<option value=\"customer=4711\">",
        "?range=7d&amp;label=customer%3D4711#durations\"",
        "?range=24h#durations\">All tasks",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let odd = Desk::new()
        .get("/types/order-lamp?label=order%3D7")
        .await
        .html;
    for part in [
        "Tasks are not counted by <code>order=7</code>: enter",
        "How long tasks that completed took",
    ] {
        assert!(odd.contains(part), "{part}: {odd}");
    }
}
