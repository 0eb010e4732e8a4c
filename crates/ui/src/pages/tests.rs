//! Over all decisions of the pages: what a page shows is what its button does, and what was entered survives a
//! refusal. The interface behind the pages is one that writes down what it is sent.

mod cases;
mod frame;
mod notebook;
mod searches;
mod shown;
mod type_durations;

use crate::port::{SignIn, Ui};
use crate::routes;
use crate::shell::TOKEN;
use actix_web::App;
use actix_web::body::to_bytes;
use actix_web::dev::ServiceResponse;
use actix_web::http::header::{HeaderMap, LOCATION, SET_COOKIE};
use actix_web::test::{TestRequest, call_service, init_service};
use actix_web::web;
use cases::CASES;
use counterstep_contracts::ProblemCode;
use counterstep_contracts::installation::Installation;
use counterstep_contracts::operation::ALL;
use notebook::{Notebook, Sent};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A page, or the answer to its form.
struct Page {
    status: u16,
    html: String,
    /// The address that it leads to, and the cookies that it sets.
    location: Option<String>,
    cookies: Vec<String>,
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

    /// Whether it cannot be sent as it is opened: a field of a declared type is required and empty.
    fn is_to_be_filled(&self) -> bool {
        let typed = self.html.split_once("<fieldset class=\"typed\">");
        typed.is_some_and(|(_, fields)| fields.contains("value=\"\" required"))
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
    installation: Installation,
}

impl Desk {
    fn new() -> Self {
        Self {
            notebook: Rc::default(),
            installation: Installation::default(),
        }
    }

    async fn send(&self, request: TestRequest) -> Page {
        let answer = self.answer(request).await;
        let status = answer.status().as_u16();
        let values = |name| {
            let all = answer.headers().get_all(name);
            let all = all.map(|it| it.to_str().expect("a text").to_owned());
            all.collect::<Vec<_>>()
        };
        let (location, cookies) = (values(LOCATION).pop(), values(SET_COOKIE));
        let body = to_bytes(answer.into_body()).await.expect("a body");
        Page {
            status,
            html: String::from_utf8(body.to_vec()).expect("a text"),
            location,
            cookies,
        }
    }

    /// What is answered, with its headers.
    async fn raw(&self, page: &str) -> (u16, HeaderMap, String) {
        let request = TestRequest::get().uri(&format!("/ui{page}"));
        let answer = self.answer(request).await;
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let body = to_bytes(answer.into_body()).await.expect("a body");
        let text = String::from_utf8(body.to_vec()).expect("a text");
        (status, headers, text)
    }

    async fn answer(&self, request: TestRequest) -> ServiceResponse {
        let ui = Ui {
            api: Rc::new(self.notebook.clone()),
            sign_in: SignIn::None,
            address: |_| String::new(),
            operations: ALL.to_vec(),
            installation: self.installation.clone(),
        };
        let pages = |config: &mut web::ServiceConfig| crate::configure(config, ui);
        let app = init_service(App::new().service(web::scope("/ui").configure(pages))).await;
        let request = request.append_header((
            "cookie",
            "counterstep_forms=0123456789abcdef0123456789abcdef",
        ));
        call_service(&app, request.to_request()).await
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

/// What the interface offers of a task, in each state of which a page is a case.
#[actix_web::test]
async fn a_page_of_a_task_leads_to_what_the_interface_offers_of_it_and_each_is_a_case_here() {
    let of_tasks = CASES.iter().map(|case| case.page.strip_prefix("/tasks/"));
    let of_tasks: BTreeSet<_> = of_tasks.flatten().collect();
    let states = of_tasks.iter().filter_map(|page| page.split('/').next());
    let mut offered = BTreeSet::new();
    for state in states.collect::<BTreeSet<_>>() {
        let page = Desk::new().get(&format!("/tasks/{state}")).await;
        assert_eq!(page.status, 200, "{state}: {}", page.html);
        let links = page.html.split("href=\"/ui/tasks/").skip(1);
        let links = links.filter_map(|it| it.split('"').next()?.strip_prefix(notebook::ID));
        let links = links.filter(|it| it.starts_with("/decide/"));
        offered.extend(links.map(|it| format!("{state}{it}")));
    }
    let offered: BTreeSet<_> = offered.iter().map(String::as_str).collect();
    assert_eq!(offered, of_tasks);
    // What is not offered has no page.
    let page = Desk::new().get("/tasks/completed/decide/cancel").await;
    assert_eq!(page.status, 409, "{}", page.html);
    let page = Desk::new().get("/tasks/running/decide/resume-queue").await;
    assert_eq!(page.status, 409, "{}", page.html);
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
        if page.is_to_be_filled() {
            assert_eq!((sent, answer.status), (None, 422), "{}", answer.html);
            continue;
        }
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
            .filter(|name| ![TOKEN, "seen"].contains(name))
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

#[actix_web::test]
async fn the_page_of_a_task_says_how_long_others_of_its_type_took() {
    let running = Desk::new().get("/tasks/running").await.html;
    assert!(running.contains("overdue"), "{running}");
    let parked = Desk::new().get("/tasks/dead_lettered").await.html;
    assert!(!parked.contains("Expected end"), "{parked}");
}
