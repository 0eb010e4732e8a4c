//! The document as a page for people: HTML without scripts and without anything from another address. Must
//! not know more than the document.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use counterstep_contracts::commands::segment;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::fmt::Write;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
    code,pre{font:14px/1.4 ui-monospace,monospace}pre{background:#8881;padding:.5rem;overflow:auto}\
    section{border-top:1px solid #8886;padding:.5rem 0}h2{margin-top:3rem}h3{margin:.5rem 0}\
    table{border-collapse:collapse}td,th{text-align:left;vertical-align:top;padding:.2rem 1rem .2rem 0}\
    b.method{display:inline-block;min-width:4.5rem}:root{color-scheme:light dark}td{white-space:pre-line}";

/// Maximum length of what a chapter shows whole: the operations of many task types have a line each.
const LONGEST: usize = 50_000;

/// A page, and what a browser may do with it.
pub(crate) struct Page {
    pub(crate) html: String,
    /// For `Content-Security-Policy`.
    pub(crate) policy: String,
}

/// What a page shows of a document.
pub(crate) enum Part<'a> {
    /// The chapters with their operations, and the names of the schemas.
    Index,
    /// The operations of a chapter: those that are too many for a page by their pages.
    Chapter(&'a str),
    /// An operation.
    Operation(&'a str),
    /// A schema.
    Schema(&'a str),
    /// The operations and schemas with these words.
    Search(&'a str),
}

/// The page of a part of a document; `None`: it has no such part.
pub(crate) fn page(document: &Value, part: &Part<'_>) -> Option<Page> {
    let mut html = String::new();
    // A text takes whatever is written to it.
    let _ = head(&mut html, document);
    match *part {
        Part::Index => drop(index(&mut html, document)),
        Part::Chapter(name) => {
            let tag = tags(document).iter().find(|tag| tag["name"] == name)?;
            let _ = chapter(&mut html, tag, document);
        }
        Part::Operation(id) => {
            let mut all = operations(document);
            let (path, method, of) = all.find(|(.., of)| of["operationId"] == id)?;
            let _ = operation(&mut html, path, method, of, document);
        }
        Part::Schema(name) => {
            let schema = document["components"]["schemas"].get(name)?;
            let (name, shown) = (escaped(name), linked(schema));
            html += &format!("<h2><code>{name}</code></h2><pre>{shown}</pre>");
        }
        Part::Search(words) => drop(found(&mut html, document, words)),
    }
    html.push_str("</html>");
    let style = STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    );
    Some(Page { html, policy })
}

fn head(html: &mut String, document: &Value) -> std::fmt::Result {
    let info = &document["info"];
    let title = text(&info["title"]);
    write!(
        html,
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\
         <title>{title} API</title><style>{STYLE}</style><h1><a href=\"docs\">{title} {}</a></h1>\
         <form action=\"docs\"><label>Search <input name=q required></label> <button>Search</button></form>",
        text(&info["version"]),
    )
}

fn tags(document: &Value) -> &[Value] {
    document["tags"].as_array().map_or(&[][..], Vec::as_slice)
}

/// The operations of a document, each with its path and method.
fn operations(document: &Value) -> impl Iterator<Item = (&String, &String, &Value)> {
    fields(&document["paths"])
        .flat_map(|(path, methods)| fields(methods).map(move |(method, of)| (path, method, of)))
}

fn index(html: &mut String, document: &Value) -> std::fmt::Result {
    write!(
        html,
        "<p>{}</p><p>As OpenAPI {}: <a href=\"api/openapi.json\">openapi.json</a></p>",
        text(&document["info"]["description"]),
        text(&document["openapi"]),
    )?;
    for tag in tags(document) {
        let name = text(&tag["name"]);
        write!(
            html,
            "<h2><a href=\"docs?chapter={}\">{name}</a></h2><p>{}</p><ul>",
            encoded(&tag["name"]),
            text(&tag["description"]),
        )?;
        for (path, method, of) in operations(document) {
            if of["tags"][0] == tag["name"] {
                line(html, path, method, of)?;
            }
        }
        html.push_str("</ul>");
    }
    html.push_str("<h2>schemas</h2><p>");
    for (name, _) in fields(&document["components"]["schemas"]) {
        write!(html, "{} ", of_schema(&escaped(name), &escaped(name)))?;
    }
    html.push_str("</p>");
    Ok(())
}

/// A line that leads to an operation.
fn line(html: &mut String, path: &str, method: &str, of: &Value) -> std::fmt::Result {
    write!(
        html,
        "<li><b class=method>{}</b> <a href=\"docs?operation={}\"><code>{}</code></a>: {}",
        escaped(&method.to_uppercase()),
        encoded(&of["operationId"]),
        escaped(path),
        text(&of["summary"]),
    )
}

fn chapter(html: &mut String, tag: &Value, document: &Value) -> std::fmt::Result {
    write!(
        html,
        "<h2>{}</h2><p>{}</p>",
        text(&tag["name"]),
        text(&tag["description"])
    )?;
    for (path, method, of) in operations(document) {
        if of["tags"][0] == tag["name"] {
            let mut whole = String::new();
            operation(&mut whole, path, method, of, document)?;
            match html.len() + whole.len() < LONGEST {
                true => html.push_str(&whole),
                false => line(html, path, method, of)?,
            }
        }
    }
    Ok(())
}

fn found(html: &mut String, document: &Value, words: &str) -> std::fmt::Result {
    let wanted: Vec<_> = words.split_whitespace().map(str::to_lowercase).collect();
    let has = |text: String| {
        let text = text.to_lowercase();
        wanted.iter().all(|word| text.contains(word))
    };
    write!(html, "<h2>With {}</h2><ul>", escaped(words))?;
    let mut none = true;
    for (path, method, of) in operations(document) {
        let texts = [&of["operationId"], &of["summary"], &of["description"]];
        let texts = texts
            .map(|text| text.as_str().unwrap_or_default())
            .join(" ");
        if has(format!("{method} {path} {texts} {}", of["parameters"])) {
            line(html, path, method, of)?;
            none = false;
        }
    }
    for (name, schema) in fields(&document["components"]["schemas"]) {
        if has(format!("{name} {schema}")) {
            write!(html, "<li>{}", of_schema(&escaped(name), &escaped(name)))?;
            none = false;
        }
    }
    html.push_str("</ul>");
    if none {
        html.push_str("<p>Nothing has all of these words.</p>");
    }
    Ok(())
}

/// A link to a schema.
fn of_schema(name: &str, shown: &str) -> String {
    format!("<a href=\"docs?schema={name}\">{shown}</a>")
}

/// A text in the query of an address.
fn encoded(text: &Value) -> String {
    escaped(&segment(text.as_str().unwrap_or_default()))
}

fn operation(
    html: &mut String,
    path: &str,
    method: &str,
    of: &Value,
    document: &Value,
) -> std::fmt::Result {
    write!(
        html,
        "<section id=\"{}\"><h3><b class=method>{}</b> <code>{}</code></h3><p>{}. {}</p>",
        text(&of["operationId"]),
        escaped(&method.to_uppercase()),
        escaped(path),
        text(&of["summary"]),
        text(&of["description"]),
    )?;
    let parameters = of["parameters"].as_array().map_or(&[][..], Vec::as_slice);
    if !parameters.is_empty() {
        html.push_str("<table><tr><th>parameter<th>in<th>schema<th>");
        for parameter in parameters {
            write!(
                html,
                "<tr><td><code>{}</code><td>{}<td><code>{}</code><td>{}",
                text(&parameter["name"]),
                text(&parameter["in"]),
                escaped(&parameter["schema"].to_string()),
                text(&parameter["description"]),
            )?;
        }
        html.push_str("</table>");
    }
    content(html, "Request", &of["requestBody"]["content"])?;
    html.push_str("<table><tr><th>status<th>");
    for (status, response) in fields(&of["responses"]) {
        let answer = resolved(response, document);
        write!(
            html,
            "<tr><td>{}<td>{}",
            escaped(status),
            text(&answer["description"])
        )?;
    }
    html.push_str("</table>");
    for (status, response) in fields(&of["responses"]) {
        if status.starts_with('2') {
            content(html, &format!("Answer {status}"), &response["content"])?;
        }
    }
    html.push_str("</section>");
    Ok(())
}

fn content(html: &mut String, what: &str, of: &Value) -> std::fmt::Result {
    for (media_type, content) in fields(of) {
        let what = escaped(what);
        write!(
            html,
            "<details><summary>{what}: <code>{}</code></summary>",
            escaped(media_type)
        )?;
        write!(html, "<pre>{}</pre>", linked(&content["schema"]))?;
        match &content["example"] {
            Value::Null => {}
            Value::String(example) => write!(html, "Example<pre>{}</pre>", escaped(example))?,
            example => write!(
                html,
                "Example<pre>{}</pre>",
                escaped(&format!("{example:#}"))
            )?,
        }
        html.push_str("</details>");
    }
    Ok(())
}

/// A schema, whose references lead to the pages of those.
fn linked(schema: &Value) -> String {
    const REFERENCE: &str = "#/components/schemas/";
    let shown = escaped(&format!("{schema:#}"));
    let mut parts = shown.split(REFERENCE);
    let mut html = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find('&').unwrap_or(part.len());
        let (name, rest) = part.split_at(end);
        html += &of_schema(name, &format!("{REFERENCE}{name}"));
        html += rest;
    }
    html
}

/// An answer, or that which it refers to.
fn resolved<'a>(answer: &'a Value, document: &'a Value) -> &'a Value {
    let reference = answer["$ref"].as_str().and_then(|it| it.strip_prefix('#'));
    let found = reference.and_then(|pointer| document.pointer(pointer));
    found.unwrap_or(answer)
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn text(value: &Value) -> String {
    escaped(value.as_str().unwrap_or_default())
}

/// A text as it may stand in HTML, within quotes too.
fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            sign => html.push(sign),
        }
    }
    html
}
