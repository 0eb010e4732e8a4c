//! Over all decisions of the pages: what a page shows is what its button does, and what was entered survives a
//! refusal. The interface behind the pages is one that writes down what it is sent.

use crate::port::{Api, ApiRequest, SignIn, Ui};
use crate::routes;
use crate::shell::TOKEN;
use actix_web::body::to_bytes;
use actix_web::http::{Method, StatusCode};
use actix_web::test::{TestRequest, call_service, init_service};
use actix_web::web::{self, Bytes};
use actix_web::{App, HttpResponse};
use counterstep_contracts::{Problem, ProblemCode};
use futures::TryStreamExt;
use futures::future::LocalBoxFuture;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

const ID: &str = "01930d2c-6c4b-7d5e-8f00-0123456789ab";
const TIME: &str = "2026-01-01T00:00:00Z";

/// A decision, on a page that offers it.
struct Case {
    /// Its address, as [`routes::all_decisions`] has it.
    decision: &'static str,
    page: &'static str,
    /// Another value for each field of its form.
    changed: &'static [(&'static str, &'static str)],
    /// A part of its preview.
    says: &'static str,
}

const fn case(
    decision: &'static str,
    page: &'static str,
    says: &'static str,
    changed: &'static [(&'static str, &'static str)],
) -> Case {
    Case {
        decision,
        page,
        changed,
        says,
    }
}

const NOTE: (&str, &str) = ("note", "it's \"so\" <now>");
const PATCH: (&str, &str) = (
    "patch",
    r#"{"amount": 12, "to": {"city": "Bonn", "old": {}}, "x": null}"#,
);

const CASES: &[Case] = &[
    case(
        "/tasks/{id}/decide/cancel",
        "/tasks/running/decide/cancel",
        "told to stop",
        &[],
    ),
    case(
        "/tasks/{id}/decide/retry",
        "/tasks/dead_lettered/decide/retry",
        "tried again",
        &[PATCH, NOTE],
    ),
    case(
        "/tasks/{id}/decide/retry",
        "/tasks/compensation_failed/decide/retry",
        "tried again",
        &[NOTE],
    ),
    case(
        "/tasks/{id}/decide/undo",
        "/tasks/dead_lettered/decide/undo",
        "is undone",
        &[NOTE],
    ),
    case(
        "/tasks/{id}/decide/step-done",
        "/tasks/dead_lettered/decide/step-done?step=ship",
        "gets an output",
        &[("output", r#"{"parcel": [1, 2.5]}"#), NOTE],
    ),
    case(
        "/tasks/{id}/decide/step-undone",
        "/tasks/compensation_failed/decide/step-undone?step=ship",
        "counts as undone",
        &[NOTE],
    ),
    case(
        "/tasks/{id}/decide/step-skipped",
        "/tasks/compensation_failed/decide/step-skipped?step=ship",
        "effects stay",
        &[NOTE],
    ),
    case(
        "/tasks/{id}/decide/settle-undone",
        "/tasks/dead_lettered/decide/settle-undone",
        "ends as resolved",
        &[NOTE],
    ),
    case(
        "/tasks/{id}/decide/settle-done",
        "/tasks/dead_lettered/decide/settle-done",
        "ends as resolved",
        &[NOTE],
    ),
    case(
        "/tasks/{id}/decide/settle-skipped",
        "/tasks/dead_lettered/decide/settle-skipped",
        "effects left",
        &[NOTE],
    ),
    case(
        "/tasks/{id}/decide/settle-not-needed",
        "/tasks/dead_lettered/decide/settle-not-needed",
        "effects left",
        &[NOTE],
    ),
    case(
        "/tasks/{id}/decide/signal",
        "/tasks/waiting/decide/signal?step=ship",
        "gets this answer",
        &[("body", r#"{"by": "Kim"}"#)],
    ),
    case(
        "/tasks/{id}/decide/recount",
        "/tasks/running/decide/recount",
        "counts as the first",
        &[NOTE],
    ),
    case(
        "/tasks/{id}/decide/run-again",
        "/tasks/completed/decide/run-again",
        "A new task",
        &[("from", "ship"), PATCH, NOTE],
    ),
    case(
        "/submit/{type}",
        "/submit/order-lamp",
        "",
        &[
            ("request", r#"{"name": "Daybreak", "price": 1.50}"#),
            ("key", "k-1"),
            ("label", "order=4711, urgent=yes"),
        ],
    ),
    case(
        "/bulk/new?action=redrive",
        "/bulk/new?action=redrive&group=g1",
        "with its retries anew",
        &[NOTE],
    ),
    case(
        "/bulk/new?action=resolve",
        "/bulk/new?action=resolve&type=OrderLamp&failure_text=a+b",
        "Nothing more runs",
        &[("as", "done"), NOTE],
    ),
    case(
        "/bulk/new?action=cancel",
        "/bulk/new?action=cancel&label=a%3Db&label=c%3Dd%3De",
        "what it has done is undone",
        &[NOTE],
    ),
    case(
        "/bulk/new?action=run-again",
        "/bulk/new?action=run-again&status=completed&failure_class=timed_out",
        "a new task",
        &[NOTE],
    ),
    case(
        "/bulk/{id}/stop",
        "/bulk/b1/stop",
        "No further task is begun",
        &[],
    ),
    case(
        "/types/{type}/disable",
        "/types/order-lamp/disable",
        "are refused",
        &[NOTE],
    ),
    case(
        "/types/{type}/enable",
        "/types/order-lamp/enable",
        "takes submissions again",
        &[NOTE],
    ),
    case(
        "/schedules/{name}/pause",
        "/schedules/nightly/pause",
        "are not made up for",
        &[],
    ),
    case(
        "/schedules/{name}/resume",
        "/schedules/nightly/resume",
        "are not made up for",
        &[],
    ),
    case(
        "/schedules/{name}/run",
        "/schedules/nightly/run",
        "is submitted now",
        &[],
    ),
    case(
        "/queues/{name}/pause",
        "/queues/lamps/pause",
        "no process claims",
        &[NOTE],
    ),
    case(
        "/queues/{name}/resume",
        "/queues/lamps/resume",
        "claimed again",
        &[NOTE],
    ),
    case(
        "/limits/{name}/set",
        "/limits/carrier/set",
        "20 at once, 500/1s started",
        &[("at_once", "7"), ("rate", "50/2s"), NOTE],
    ),
    case(
        "/limits/{name}/set",
        "/limits/free/set",
        "counts in all processes",
        &[("at_once", "7"), ("rate", "50/2s"), NOTE],
    ),
    case(
        "/limits/{name}/reset",
        "/limits/carrier/reset",
        "as it is declared",
        &[NOTE],
    ),
];

/// What the interface was sent.
#[derive(Debug, Clone, PartialEq)]
struct Sent {
    method: String,
    path: String,
    headers: BTreeMap<String, String>,
    body: String,
}

/// An interface that writes down what would change anything.
#[derive(Default)]
struct Notebook {
    sent: RefCell<Vec<Sent>>,
    refuses: Cell<Option<ProblemCode>>,
}

impl Api for Rc<Notebook> {
    fn call(&self, request: ApiRequest) -> LocalBoxFuture<'static, HttpResponse> {
        let book = self.clone();
        Box::pin(async move {
            let path = request.target.to_string();
            if request.method == Method::GET {
                return known(&path);
            }
            let chunks = request.body.try_collect::<Vec<Bytes>>().await;
            let body = String::from_utf8(chunks.expect("a body").concat()).expect("a text");
            let value: Value = serde_json::from_str(&body).unwrap_or_default();
            if value["preview"] == true {
                return HttpResponse::Ok()
                    .json(json!({"count": 3, "complete": true, "tasks": [ID]}));
            }
            let of_people = ["content-type", "idempotency-key", "counterstep-label"];
            let headers = request.headers.iter().filter_map(|(name, value)| {
                let is_shown = of_people.contains(&name.as_str());
                is_shown.then(|| (name.to_string(), value.to_str().expect("a text").to_owned()))
            });
            book.sent.borrow_mut().push(Sent {
                method: request.method.to_string(),
                path,
                headers: headers.collect(),
                body,
            });
            match book.refuses.get() {
                Some(code) => refusal(code),
                None => HttpResponse::Accepted()
                    .json(json!({"task_id": ID, "status": "submitted", "id": "b1"})),
            }
        })
    }
}

fn refusal(code: ProblemCode) -> HttpResponse {
    let problem = Problem::new(code, "the reason of the interface");
    let status = StatusCode::from_u16(problem.status).expect("a status");
    HttpResponse::build(status).json(problem)
}

/// What stands behind the pages.
fn known(path: &str) -> HttpResponse {
    let parts: Vec<_> = path.split(['/', '?']).skip(1).collect();
    let of = |body: Value| HttpResponse::Ok().json(body);
    match parts.as_slice() {
        ["api", "caller"] => {
            of(json!({"tenant": "default", "role": "admin", "is_of_installation": true}))
        }
        ["api", "tasks", status] => of(task(status)),
        ["api", "tasks", _, "audit"] => of(json!({"task_id": ID, "entries": [], "attempts": []})),
        ["api", "limits"] => of(json!({"items": [
            {"name": "carrier", "declared": {"at_once": 20, "rate": {"starts": 500, "per": "1s"}, "scope": "all"}, "uses": []},
            {"name": "free", "uses": []},
        ]})),
        ["api", "queues"] => of(json!({"items": [{"name": "lamps", "tasks": {}}]})),
        ["api", "schedules", ..] => of(json!({
            "name": "nightly", "type": "OrderLamp", "cron": "0 3 * * *", "origin": "code", "paused": false,
            "revision": 1, "created_at": TIME, "updated_at": TIME,
        })),
        ["api", "task-types"] => {
            of(json!({"items": [{"name": "OrderLamp", "version": 1, "steps": []}]}))
        }
        ["api", "bulk-operations", _] => of(json!({
            "id": "b1", "action": "redrive", "filter": {}, "note": "", "actor": "kim", "status": "running",
            "done": 0, "failed": 0, "skipped": 0, "created_at": TIME, "updated_at": TIME,
        })),
        ["api", "openapi.json"] => of(document()),
        _ => HttpResponse::NotFound().json(Problem::new(ProblemCode::NoSuchRoute, "not here")),
    }
}

fn task(status: &str) -> Value {
    let step = |no: u32, name: &str, status: &str| json!({"no": no, "name": name, "status": status, "attempts": 1, "undo_attempts": 0});
    let (of_ship, waits) = match status {
        "dead_lettered" => ("failed", None),
        "compensation_failed" => ("compensation_failed", None),
        "waiting" => ("waiting", Some("signal")),
        "running" => ("running", None),
        _ => ("completed", None),
    };
    json!({
        "task_id": ID, "task_type": "OrderLamp", "version": 1, "status": status, "waiting_for": waits,
        "cancel_requested": false, "residue": false, "revision": 1, "created_at": TIME, "updated_at": TIME,
        "recovery_attempts": 1, "progress": {"done": 1, "total": 2},
        "steps": [step(1, "reserve", "completed"), step(2, "ship", of_ship)],
    })
}

/// Of a type that takes JSON, and of one that takes files.
fn document() -> Value {
    let example = json!({"name": "Aurora", "price": 2.5});
    let form = json!({"required": ["title", "files"], "properties": {
        "title": {"type": "string"}, "count": {"type": "integer"},
        "files": {"type": "array", "items": {"type": "string", "format": "binary"}},
        "cover": {"type": "string", "format": "binary"},
    }});
    json!({"paths": {
        "/api/tasks/order-lamp": {"post": {"requestBody": {"content": {"application/json": {"example": example}}}}},
        "/api/tasks/zip": {"post": {"requestBody": {"content": {"multipart/form-data": {"schema": form}}}}},
    }})
}

/// A page, or the answer to its form.
struct Page {
    status: u16,
    html: String,
}

impl Page {
    /// Its form, by name, as it is filled in.
    fn fields(&self) -> BTreeMap<String, String> {
        let form = between(&self.html, "<section class=\"sheet decision\">", "</form>");
        let mut fields = BTreeMap::new();
        for tag in form.split('<').skip(1) {
            let (head, text) = tag.split_once('>').unwrap_or((tag, ""));
            let kind = head.split(' ').next().unwrap_or_default();
            let value = attribute(head, "value");
            match (kind, attribute(head, "name")) {
                ("textarea", Some(name)) => {
                    drop(fields.insert(name, plain(text.strip_prefix('\n').unwrap_or(text))))
                }
                ("input", Some(name)) => drop(fields.insert(name, value.unwrap_or_default())),
                // A select has its first option unless another one is selected.
                ("select", Some(name)) => {
                    let options = between(form, head, "</select>");
                    let all: Vec<_> = options.split("<option").skip(1).collect();
                    let chosen = all.iter().find(|it| {
                        it.split('>')
                            .next()
                            .unwrap_or_default()
                            .contains(" selected")
                    });
                    let chosen = chosen.or(all.first()).expect("an option");
                    fields.insert(name, attribute(chosen, "value").unwrap_or_default());
                }
                _ => {}
            }
        }
        fields
    }

    /// The words of a line that can be copied.
    fn words(&self, program: &str) -> Vec<String> {
        let lines = self
            .html
            .split("<code>")
            .skip(1)
            .map(|it| plain(it.split("</code>").next().unwrap_or_default()));
        let mut lines = lines.filter(|line| words(line).iter().any(|word| word == program));
        let line = lines
            .next()
            .unwrap_or_else(|| panic!("no {program}: {}", self.html));
        words(&line)
    }

    /// What the request to copy sends.
    fn curl(&self) -> Sent {
        let mut words = self.words("curl").into_iter().skip(1);
        let mut sent = Sent {
            method: "GET".to_owned(),
            path: String::new(),
            headers: BTreeMap::new(),
            body: String::new(),
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().expect("a value");
            match word.as_str() {
                "-X" => sent.method = value(),
                "-d" | "--data-raw" => sent.body = value(),
                "-H" => {
                    let header = value();
                    let (name, value) = header.split_once(": ").expect("a header");
                    sent.headers.insert(name.to_owned(), value.to_owned());
                }
                url => {
                    let path = url.find("/api/").expect("the interface");
                    url[path..].clone_into(&mut sent.path);
                }
            }
        }
        sent
    }
}

fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let (_, rest) = text
        .split_once(begin)
        .unwrap_or_else(|| panic!("no {begin} in {text}"));
    rest.split(end).next().unwrap_or_default()
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, rest) = tag.split('>').next()?.split_once(&format!(" {name}=\""))?;
    Some(plain(rest.split('"').next()?))
}

fn plain(html: &str) -> String {
    html.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&amp;", "&")
}

/// As a shell takes them apart.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut quote, mut signs) = (vec![String::new()], None, line.chars());
    while let Some(sign) = signs.next() {
        let last = words.last_mut().expect("a word");
        match (sign, quote) {
            (' ', None) => words.push(String::new()),
            ('\\', None) => last.extend(signs.next()),
            ('\'' | '"', None) => quote = Some(sign),
            (sign, Some(begun)) if sign == begun => quote = None,
            (sign, _) => last.push(sign),
        }
    }
    words
}

/// A browser without scripts, before an interface that writes down.
struct Desk {
    notebook: Rc<Notebook>,
}

impl Desk {
    fn new() -> Self {
        Self {
            notebook: Rc::default(),
        }
    }

    async fn send(&self, request: TestRequest) -> Page {
        let ui = Ui {
            api: Rc::new(self.notebook.clone()),
            sign_in: SignIn::None,
            address: |_| String::new(),
        };
        let pages = |config: &mut web::ServiceConfig| crate::configure(config, ui);
        let app = init_service(App::new().service(web::scope("/ui").configure(pages))).await;
        let request = request.insert_header((
            "cookie",
            "counterstep_forms=0123456789abcdef0123456789abcdef",
        ));
        let answer = call_service(&app, request.to_request()).await;
        let status = answer.status().as_u16();
        let body = to_bytes(answer.into_body()).await.expect("a body");
        Page {
            status,
            html: String::from_utf8(body.to_vec()).expect("a text"),
        }
    }

    async fn get(&self, page: &str) -> Page {
        self.send(TestRequest::get().uri(&format!("/ui{page}")))
            .await
    }

    /// What the button of a page with these fields sends, and what is answered.
    async fn press(
        &self,
        page: &str,
        fields: &BTreeMap<String, String>,
        refuses: Option<ProblemCode>,
    ) -> (Option<Sent>, Page) {
        self.notebook.refuses.set(refuses);
        let request = TestRequest::post()
            .uri(&format!("/ui{page}"))
            .set_form(fields);
        let answer = self.send(request).await;
        (self.notebook.sent.borrow_mut().pop(), answer)
    }
}

/// Headers that say the same, and the body as JSON: `2.5` stays apart from `2.50`.
fn assert_same(page: &str, shown: &Sent, sent: &Sent) {
    let value = |body: &str| match body {
        "" => None,
        body => Some(
            serde_json::from_str::<Value>(body)
                .unwrap_or_else(|error| panic!("{page}: {error}: {body}")),
        ),
    };
    assert_eq!(
        (&shown.method, &shown.path),
        (&sent.method, &sent.path),
        "{page}"
    );
    assert_eq!(shown.headers, sent.headers, "{page}");
    assert_eq!(value(&shown.body), value(&sent.body), "{page}");
}

#[test]
fn each_decision_of_the_pages_is_a_case_here() {
    let cases: BTreeSet<_> = CASES.iter().map(|case| case.decision.to_owned()).collect();
    assert_eq!(cases, routes::all_decisions().collect::<BTreeSet<_>>());
}

#[actix_web::test]
async fn the_request_that_a_page_shows_is_what_its_button_sends() {
    for case in CASES {
        let desk = Desk::new();
        let page = desk.get(case.page).await;
        assert_eq!(page.status, 200, "{}: {}", case.page, page.html);
        assert!(
            page.html.contains(case.says),
            "{}: {}",
            case.page,
            page.html
        );
        let mut fields = page.fields();
        if let Some(note) = fields.get_mut("note") {
            assert_eq!(note, "", "{}", case.page);
            "why".clone_into(note);
        }
        let (sent, answer) = desk.press(case.page, &fields, None).await;
        assert_eq!(answer.status, 303, "{}: {}", case.page, answer.html);
        assert_same(case.page, &page.curl(), &sent.expect("a call"));
    }
}

#[actix_web::test]
async fn each_field_survives_a_refusal_and_stands_in_what_is_shown() {
    for case in CASES {
        let desk = Desk::new();
        let mut fields = desk.get(case.page).await.fields();
        let names: BTreeSet<_> = fields
            .keys()
            .map(String::as_str)
            .filter(|name| *name != TOKEN)
            .collect();
        let changed: BTreeSet<_> = case.changed.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, changed, "{}", case.page);
        for (name, value) in case.changed {
            assert_ne!(
                fields
                    .insert((*name).to_owned(), (*value).to_owned())
                    .as_deref(),
                Some(*value),
                "{name}"
            );
        }
        let unavailable = Some(ProblemCode::Unavailable);
        let (_, answer) = desk.press(case.page, &fields, unavailable).await;
        assert_eq!(answer.status, 503, "{}: {}", case.page, answer.html);
        assert_eq!(answer.fields(), fields, "{}", case.page);
        let invalid = Some(ProblemCode::InvalidRequest);
        let (sent, answer) = desk.press(case.page, &fields, invalid).await;
        assert_eq!(answer.status, 422, "{}: {}", case.page, answer.html);
        assert!(
            answer.html.contains("the reason of the interface"),
            "{}",
            case.page
        );
        assert_eq!(answer.fields(), fields, "{}", case.page);
        assert_same(case.page, &answer.curl(), &sent.expect("a call"));
        let command = answer.words("counterstep").join(" ");
        let texts = case.changed.iter().map(|(_, value)| *value);
        for word in texts.flat_map(|text| text.split(|sign| "{}[]:,\" ".contains(sign))) {
            assert!(command.contains(word), "{}: {word}: {command}", case.page);
        }
    }
}

#[actix_web::test]
async fn what_is_no_json_is_not_sent_and_comes_back_with_all_else() {
    for case in CASES {
        for json in ["patch", "output", "body"] {
            let mut fields: BTreeMap<_, _> = case
                .changed
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            if fields
                .insert(json.to_owned(), "{\"amount\":".to_owned())
                .is_none()
            {
                continue;
            }
            let desk = Desk::new();
            let page = desk.get(case.page).await;
            fields.insert(TOKEN.to_owned(), page.fields()[TOKEN].clone());
            let (sent, answer) = desk.press(case.page, &fields, None).await;
            assert_eq!(
                (sent, answer.status),
                (None, 400),
                "{}: {}",
                case.page,
                answer.html
            );
            assert_eq!(answer.fields(), fields, "{}", case.page);
        }
    }
}

#[actix_web::test]
async fn a_page_for_many_tasks_refuses_a_label_that_it_cannot_ask_for() {
    for labels in [
        "label=urgent",
        "label=a%3D1&label=a%3D2",
        "label=a%3D1&label=urgent",
    ] {
        let page = Desk::new()
            .get(&format!("/bulk/new?action=cancel&type=OrderLamp&{labels}"))
            .await;
        assert_eq!(page.status, 422, "{labels}: {}", page.html);
        assert!(page.html.contains("label"), "{}", page.html);
    }
}

/// As a browser sends a form with files.
fn multipart(parts: &[(&str, &str)]) -> String {
    let parts = parts.iter().map(|(name, value)| {
        format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    });
    let file = "Content-Disposition: form-data; name=\"files\"; filename=\"a.txt\"\r\n\r\nA\r\n";
    format!("{}--b\r\n{file}--b--\r\n", parts.collect::<String>())
}

#[actix_web::test]
async fn the_texts_of_a_form_with_files_survive_a_refusal_and_stand_in_what_is_shown() {
    let desk = Desk::new();
    let page = desk.get("/submit/zip").await;
    let shown = page.words("counterstep").join(" ");
    let flags = "counterstep tasks submit zip --request - --file cover=PATH --file files=PATH";
    assert!(shown.ends_with(flags), "{shown}");
    let names: Vec<_> = page.fields().into_keys().collect();
    assert_eq!(
        names,
        ["count", "cover", "files", "title"],
        "no field that the type does not know"
    );
    let (_, token) = page
        .html
        .split_once("/submit/zip?form_token=")
        .expect("an address");
    let to = format!(
        "/ui/submit/zip?form_token={}",
        token.split('"').next().unwrap_or_default()
    );
    let body = multipart(&[("count", "3"), ("title", "a \"b\"")]);
    let request = || {
        let request = TestRequest::post().uri(&to).set_payload(body.clone());
        request.insert_header(("content-type", "multipart/form-data; boundary=b"))
    };
    desk.notebook.refuses.set(Some(ProblemCode::InvalidRequest));
    let answer = desk.send(request()).await;
    assert_eq!(answer.status, 422, "{}", answer.html);
    let fields = answer.fields();
    assert_eq!(
        (fields["count"].as_str(), fields["title"].as_str()),
        ("3", "a \"b\"")
    );
    let shown = answer.words("counterstep").join(" ");
    assert!(
        shown.contains(r#"{"count":3,"title":"a \"b\""}"#),
        "{shown}"
    );
    let shown = answer.words("curl").join(" ");
    assert!(
        shown.contains("--form-string count=3 --form-string title=a \"b\" -F cover=@PATH"),
        "{shown}"
    );
    desk.notebook.refuses.set(None);
    let answer = desk.send(request()).await;
    assert_eq!(answer.status, 303, "{}", answer.html);
    for sent in desk.notebook.sent.borrow().iter() {
        assert_eq!((sent.path.as_str(), &sent.body), ("/api/tasks/zip", &body));
    }
}
