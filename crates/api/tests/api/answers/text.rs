//! Answers as a text that is the same each time: what differs from run to run has a placeholder, and long JSON stands in
//! lines. Otherwise a body is shown byte by byte, its fields in the order in which they were sent.

use super::calls::Call;
use crate::reply::Reply;
use crate::site::Site;
use counterstep_api::RouteView;
use std::collections::BTreeMap;
use std::fmt::Write;

/// JSON that is longer is broken into lines.
const WIDTH: usize = 120;

/// Of an array with more items, the first are shown: of the types of all tests there are more with each new test.
const MANY: usize = 12;
const FIRST: usize = 2;

/// Headers that each answer has, which is checked apart, and those of a connection.
const UNSHOWN_HEADERS: [&str; 7] = [
    "connection",
    "content-length",
    "content-type",
    "date",
    "transfer-encoding",
    "x-content-type-options",
    "x-request-id",
];

/// Bodies that other files or tests hold.
const UNSHOWN_BODIES: [&str; 3] = ["/api/openapi.json", "/docs", "/metrics"];

/// A route, with what its calls were answered.
pub(super) fn section(site: &Site, route: RouteView, answered: &[(String, Call, Reply)]) -> String {
    let mut text = format!("## {} {}\n\n", route.method, route.path);
    for (what, call, reply) in answered {
        let _ = write!(text, "{what}: {} {}", call.method, call.path);
        if let Some(body) = &call.body {
            let _ = write!(text, " {body}");
        }
        let content_type = reply.header("content-type").unwrap_or("nothing");
        let _ = writeln!(text, "\n{} {content_type}", reply.status);
        let headers = reply
            .headers()
            .filter(|(name, _)| !UNSHOWN_HEADERS.contains(name));
        for (name, value) in headers.collect::<BTreeMap<_, _>>() {
            let _ = writeln!(text, "{name}: {value}");
        }
        let body = String::from_utf8_lossy(&reply.body);
        if reply.status < 300 && UNSHOWN_BODIES.contains(&route.path) {
            text += "(the body is held elsewhere)\n";
        } else if content_type == "application/json" {
            in_lines(&without_millis(&body), 0, &mut text);
            text.push('\n');
        } else if !body.is_empty() {
            text += &format!("{body}\n");
        }
        text.push('\n');
    }
    with_placeholders(&text.replace(&*site.engine.id, "PROCESS"))
}

/// JSON with a placeholder for how long something took.
fn without_millis(json: &str) -> String {
    let mut parts = json.split("_ms\":");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let rest = part.trim_start_matches(|it: char| it.is_ascii_digit());
        format!("{text}_ms\":MILLISECONDS{rest}")
    })
}

/// Adds JSON as it is, with line breaks and indents where a value is too long for a line.
fn in_lines(json: &str, indent: usize, text: &mut String) {
    let is_nested = json.starts_with(['{', '[']);
    if !is_nested || indent + json.len() <= WIDTH {
        text.push_str(json);
        return;
    }
    let (open, rest) = json.split_at(1);
    let (inner, close) = rest.split_at(rest.len() - 1);
    let parts = split(inner, ',');
    let pad = " ".repeat(indent + 2);
    text.push_str(open);
    let is_cut = open == "[" && parts.len() > MANY;
    let shown = if is_cut { FIRST } else { parts.len() };
    for (at, part) in parts.iter().take(shown).enumerate() {
        let _ = write!(text, "\n{pad}");
        let value = split(part, ':');
        if let [key, value] = value[..]
            && open == "{"
        {
            let _ = write!(text, "{key}:");
            in_lines(value, indent + 2, text);
        } else {
            in_lines(part, indent + 2, text);
        }
        if at + 1 < parts.len() {
            text.push(',');
        }
    }
    if is_cut {
        let _ = write!(text, "\n{pad}...");
    }
    let _ = write!(text, "\n{}{close}", " ".repeat(indent));
}

/// Splits JSON at a sign that stands in no text, array or object.
fn split(json: &str, sign: char) -> Vec<&str> {
    let (mut depth, mut is_text, mut is_escaped) = (0, false, false);
    let is_split = |found: char| {
        let is_inside = is_text || depth > 0;
        match found {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = is_text,
            '"' => is_text = !is_text,
            '{' | '[' if !is_text => depth += 1,
            '}' | ']' if !is_text => depth -= 1,
            _ => {}
        }
        found == sign && !is_inside
    };
    json.split(is_split).collect()
}

/// With placeholders for what is another one each time. The same id gets the same one.
fn with_placeholders(text: &str) -> String {
    let mut found: Vec<(&str, String)> = Vec::new();
    let mut shown = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let begins = !shown.ends_with(|it: char| it.is_ascii_alphanumeric());
        let Some((length, kind)) = token(rest).filter(|_| begins) else {
            shown.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        let token = &rest[..length];
        rest = &rest[length..];
        if !NUMBERED.contains(&kind) {
            shown.push_str(kind);
            continue;
        }
        let known = found.iter().find(|(it, _)| *it == token);
        let placeholder = known.map(|(_, placeholder)| placeholder.clone());
        let placeholder = placeholder.unwrap_or_else(|| {
            let of_kind = found.iter().filter(|(_, it)| it.starts_with(kind));
            let new = format!("{kind}-{}", of_kind.count() + 1);
            found.push((token, new.clone()));
            new
        });
        shown.push_str(&placeholder);
    }
    shown
}

/// Kinds whose placeholders are numbered.
const NUMBERED: [&str; 2] = ["ID", "HASH"];

/// What begins here and is another one each time: its length, and its kind.
fn token(rest: &str) -> Option<(usize, &'static str)> {
    let fits = |pattern: &str| {
        let mut pairs = pattern.bytes().zip(rest.bytes());
        rest.len() >= pattern.len()
            && pairs.all(|(wanted, found)| match wanted {
                b'x' => found.is_ascii_hexdigit(),
                b'9' => found.is_ascii_digit(),
                _ => wanted == found,
            })
    };
    let while_in = |more: &str| {
        let is_in = |it: char| it.is_ascii_alphanumeric() || more.contains(it);
        rest.find(|it| !is_in(it)).unwrap_or(rest.len())
    };
    if fits("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx") {
        return Some((36, "ID"));
    }
    if fits("9999-99-99T99:99:99") {
        return Some((rest.find('Z')? + 1, "TIME"));
    }
    for (name, placeholder) in [
        ("signature=", "signature=SIGNATURE"),
        ("whsec_", "whsec_SECRET"),
    ] {
        if rest.starts_with(name) {
            return Some((while_in("-_=."), placeholder));
        }
    }
    if fits("127.0.0.1:9") {
        return Some((while_in(".:"), "ADDRESS"));
    }
    const WAITED: &str = "waited for a person for ";
    if let Some(time) = rest.strip_prefix(WAITED) {
        let end = WAITED.len() + time.find(':')?;
        return Some((end, "waited for a person for A MOMENT"));
    }
    let word = &rest[..while_in("")];
    let is_hex = word.bytes().all(|it| it.is_ascii_hexdigit());
    let is_number = word.bytes().all(|it| it.is_ascii_digit());
    match word.len() {
        10 if is_number => Some((10, "SECONDS")),
        // A revision that is drawn.
        11.. if is_number => Some((word.len(), "ID")),
        16 if is_hex => Some((16, "ID")),
        32 | 64 if is_hex => Some((word.len(), "HASH")),
        _ => None,
    }
}

#[test]
fn what_differs_each_time_has_a_placeholder_and_all_else_stays() {
    let text = concat!(
        r#"{"z":"01930d2c-6c4b-7d5e-8f00-0123456789ab","a":"2026-01-02T03:04:05.678Z","of":["#,
        r#""0123456789abcdef","01930d2c-6c4b-7d5e-8f00-0123456789ab"],"s":"a, {\"b: c","n":1234567}"#
    );
    let mut shown = String::new();
    in_lines(text, 0, &mut shown);
    let expected = concat!(
        "{\n  \"z\":\"ID-1\",\n  \"a\":\"TIME\",\n  \"of\":[\"ID-2\",\"ID-1\"],\n",
        "  \"s\":\"a, {\\\"b: c\",\n  \"n\":1234567\n}"
    );
    assert_eq!(with_placeholders(&shown), expected);
}
