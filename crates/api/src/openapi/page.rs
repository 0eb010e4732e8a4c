//! The document as a page for people: HTML without scripts and without anything from another address. Must
//! not know more than the document.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::fmt::Write;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
    code,pre{font:14px/1.4 ui-monospace,monospace}pre{background:#8881;padding:.5rem;overflow:auto}\
    section{border-top:1px solid #8886;padding:.5rem 0}h2{margin-top:3rem}h3{margin:.5rem 0}\
    table{border-collapse:collapse}td,th{text-align:left;vertical-align:top;padding:.2rem 1rem .2rem 0}\
    b.method{display:inline-block;min-width:4.5rem}:root{color-scheme:light dark}td{white-space:pre-line}";

/// A page, and what a browser may do with it.
pub(crate) struct Page {
    pub(crate) html: String,
    /// For `Content-Security-Policy`.
    pub(crate) policy: String,
}

/// The page of a document.
pub(crate) fn page(document: &Value) -> Page {
    let mut html = String::new();
    // A text takes whatever is written to it.
    let _ = write(&mut html, document);
    let style = STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    Page { html, policy }
}

fn write(html: &mut String, document: &Value) -> std::fmt::Result {
    let info = &document["info"];
    let title = text(&info["title"]);
    write!(
        html,
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\
         <title>{title} API</title><style>{STYLE}</style><h1>{title} {}</h1><p>{}</p>\
         <p>As OpenAPI {}: <a href=\"api/openapi.json\">openapi.json</a></p><nav><ul>",
        text(&info["version"]),
        text(&info["description"]),
        text(&document["openapi"]),
    )?;
    let tags = document["tags"].as_array().map_or(&[][..], Vec::as_slice);
    for tag in tags {
        let name = text(&tag["name"]);
        write!(
            html,
            "<li><a href=\"#{}\">{name}</a>: {}",
            anchor(&name),
            text(&tag["description"])
        )?;
    }
    html.push_str("<li><a href=\"#schemas\">schemas</a></ul></nav>");
    for tag in tags {
        let name = text(&tag["name"]);
        write!(html, "<h2 id=\"{}\">{name}</h2>", anchor(&name))?;
        for (path, methods) in fields(&document["paths"]) {
            for (method, operation) in fields(methods) {
                if operation["tags"][0] == tag["name"] {
                    self::operation(html, path, method, operation, document)?;
                }
            }
        }
    }
    html.push_str("<h2 id=schemas>schemas</h2>");
    for (name, schema) in fields(&document["components"]["schemas"]) {
        let name = escaped(name);
        write!(
            html,
            "<section id=\"schema-{name}\"><h3><code>{name}</code></h3>"
        )?;
        write!(html, "<pre>{}</pre></section>", linked(schema))?;
    }
    html.push_str("</html>");
    Ok(())
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

/// A schema, whose references lead to those of this page.
fn linked(schema: &Value) -> String {
    const REFERENCE: &str = "#/components/schemas/";
    let shown = escaped(&format!("{schema:#}"));
    let mut parts = shown.split(REFERENCE);
    let mut html = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find('&').unwrap_or(part.len());
        let (name, rest) = part.split_at(end);
        // A text takes whatever is written to it.
        let _ = write!(
            html,
            "<a href=\"#schema-{name}\">{REFERENCE}{name}</a>{rest}"
        );
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

fn anchor(name: &str) -> String {
    name.replace(' ', "-")
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
