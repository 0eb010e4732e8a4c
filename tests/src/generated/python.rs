//! The calls and types of the Python client.

use super::{Answer, Call, Field, Groups, Kind, Sent, Types, capitalized, wrapped};

const HEAD: &str =
    "# Generated from docs/openapi.json by a test; CONTRIBUTING.md says how. Do not edit.\n";

/// What no name of Python may be.
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

fn name(of: &str) -> String {
    let name = of.replace('-', "_");
    if KEYWORDS.contains(&&*name) {
        return name + "_";
    }
    name
}

fn kind(of: &Kind) -> String {
    match of {
        Kind::Any => "Any".to_owned(),
        Kind::Null => "None".to_owned(),
        Kind::Text => "str".to_owned(),
        Kind::Number { whole: true } => "int".to_owned(),
        Kind::Number { whole: false } => "float".to_owned(),
        Kind::Bool => "bool".to_owned(),
        Kind::Words(words) => {
            let words: Vec<_> = words.iter().map(|it| format!("{it:?}")).collect();
            format!("Literal[{}]", words.join(", "))
        }
        Kind::Named(name) => name.clone(),
        Kind::List(of) => format!("List[{}]", kind(of)),
        Kind::Map(of) => format!("Dict[str, {}]", kind(of)),
        Kind::Fields(_) => "Dict[str, Any]".to_owned(),
        Kind::OneOf(some) => {
            let is_null = |it: &Kind| matches!(it, Kind::Null);
            let mut kinds: Vec<_> = some.iter().filter(|it| !is_null(it)).map(kind).collect();
            kinds.dedup();
            let one = match &kinds[..] {
                [one] => one.clone(),
                kinds => format!("Union[{}]", kinds.join(", ")),
            };
            match some.iter().any(is_null) {
                true => format!("Optional[{one}]"),
                false => one,
            }
        }
    }
}

fn comment(text: &str, indent: &str) -> String {
    let lines = wrapped(text, 112 - indent.len())
        .into_iter()
        .filter(|it| !it.is_empty());
    lines.map(|it| format!("{indent}#: {it}\n")).collect()
}

fn docstring(text: &str, indent: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "'");
    let (first, rest) = text
        .split_once(". ")
        .unwrap_or((text.trim_end_matches('.'), ""));
    let mut lines = wrapped(&format!("{first}."), 108);
    if !rest.is_empty() {
        lines.push(String::new());
        lines.extend(wrapped(rest, 112));
    }
    let end = if lines.len() > 1 {
        format!("\n{indent}")
    } else {
        String::new()
    };
    let lines = lines
        .join(&format!("\n{indent}"))
        .replace(&format!("\n{indent}\n"), "\n\n");
    format!("{indent}\"\"\"{lines}{end}\"\"\"\n")
}

/// The types, each after those that it needs when Python reads it.
pub(super) fn types(types: &Types) -> String {
    let mut text = format!(
        "{HEAD}\"\"\"Bodies of the HTTP interface, with the keys of the JSON. Times are texts of RFC 3339 in UTC.\n\n\
         A later version of the API may add keys, and words to a `Literal`.\n\"\"\"\n\n\
         from __future__ import annotations\n\n\
         from typing import Any, Dict, List, Literal, Optional, TypedDict, Union\n"
    );
    let (mut objects, mut unions) = (String::new(), String::new());
    for (name, (about, of)) in types {
        match of {
            Kind::Fields(fields) => objects += &object(name, about, fields),
            Kind::OneOf(_) => unions += &format!("\n{}{name} = {}\n", comment(about, ""), kind(of)),
            of => text += &format!("\n{}{name} = {}\n", comment(about, ""), kind(of)),
        }
    }
    text + &objects + "\n" + &unions
}

/// A `TypedDict`; of keys that may be missing and others one has to be made of two, for Python before 3.11.
fn object(name: &str, about: &str, fields: &[Field]) -> String {
    let (must, may): (Vec<_>, Vec<_>) = fields.iter().partition(|it| it.is_required);
    let is_name = |it: &&Field| self::name(&it.name) == it.name;
    let body = |fields: &[&Field]| -> String {
        let field = |it: &&Field| {
            let about = comment(&it.about, "    ");
            format!("{about}    {}: {}\n", it.name, kind(&it.kind))
        };
        fields.iter().map(field).collect()
    };
    let parts = [(must, "Must", true), (may, "May", false)];
    let parts: Vec<_> = parts.into_iter().filter(|it| !it.0.is_empty()).collect();
    if let [(fields, _, total)] = &parts[..]
        && fields.iter().all(is_name)
    {
        let total = if *total { "" } else { ", total=False" };
        let about = docstring(about, "    ");
        return format!(
            "\n\nclass {name}(TypedDict{total}):\n{about}\n{}",
            body(fields)
        );
    }
    let mut text = String::new();
    let mut bases = Vec::new();
    for (fields, suffix, total) in &parts {
        let base = format!("_{name}{suffix}");
        let total = if *total { "" } else { ", total=False" };
        if fields.iter().all(is_name) {
            text += &format!("\n\nclass {base}(TypedDict{total}):\n{}", body(fields));
        } else {
            let field = |it: &&Field| {
                format!(
                    "{}        {:?}: {:?},\n",
                    comment(&it.about, "        "),
                    it.name,
                    kind(&it.kind)
                )
            };
            let fields: String = fields.iter().map(field).collect();
            text += &format!(
                "\n\n{base} = TypedDict(\n    {base:?},\n    {{\n{fields}    }}{total},\n)\n"
            );
        }
        bases.push(base);
    }
    text + &format!(
        "\n\nclass {name}({}):\n{}",
        bases.join(", "),
        docstring(about, "    ")
    )
}

/// How the methods are called, and what they are called by.
pub(super) struct Style {
    /// Before the names of classes.
    prefix: &'static str,
    imports: &'static str,
    define: &'static str,
    wait: &'static str,
    iterator: &'static str,
}

/// Methods that return when there is an answer.
pub(super) const PLAIN: Style = Style {
    prefix: "",
    imports: "from ._calls import NOT_GIVEN, Calls\nfrom ._http import Transport\n",
    define: "def",
    wait: "",
    iterator: "Iterator",
};

/// Methods to be awaited, of asyncio.
pub(super) const ASYNC: Style = Style {
    prefix: "Async",
    imports: "from ._async_http import AsyncCalls, AsyncTransport\nfrom ._calls import NOT_GIVEN\n",
    define: "async def",
    wait: "await ",
    iterator: "AsyncIterator",
};

/// A class for each group, and one that has them all.
pub(super) fn operations(groups: &Groups, style: &Style) -> String {
    let Style {
        prefix,
        imports,
        iterator,
        ..
    } = style;
    let mut typing = [
        "Any", "Dict", "Iterable", iterator, "List", "Literal", "Optional", "Union", "cast",
    ];
    typing.sort_unstable();
    let mut text = format!(
        "{HEAD}\"\"\"The operations of the API, grouped as the commands of the program are.\"\"\"\n\n\
         from __future__ import annotations\n\n\
         from datetime import datetime\n\
         from typing import {}\n\n\
         {imports}from . import _types as types\n",
        typing.join(", ")
    );
    for (group, calls) in groups {
        text += &format!(
            "\n\nclass {}:\n    def __init__(self, calls: {prefix}Calls) -> None:\n        self._calls = calls\n",
            capitalized(group)
        );
        calls.iter().for_each(|it| text += &method(it, style));
    }
    text += &format!(
        "\n\nclass {prefix}Operations:\n    def __init__(self, http: {prefix}Transport) -> None:\n        calls = {prefix}Calls(http)\n"
    );
    for group in groups.keys() {
        text += &format!(
            "        self.{} = {}(calls)\n",
            name(group),
            capitalized(group)
        );
    }
    text
}

/// A type as an annotation, where the types are another module.
fn annotation(of: &Kind) -> String {
    match of {
        Kind::Named(name) => format!("types.{name}"),
        Kind::List(of) => format!("List[{}]", annotation(of)),
        Kind::Map(of) => format!("Dict[str, {}]", annotation(of)),
        Kind::OneOf(some) => {
            let some: Vec<_> = some.iter().map(annotation).collect();
            format!("Union[{}]", some.join(", "))
        }
        other => kind(other),
    }
}

/// A value of a query: a list may be one value, and a time one of Python.
fn of_query(field: &Field) -> String {
    match &field.kind {
        Kind::List(of) => format!("Union[{of}, Iterable[{of}]]", of = annotation(of)),
        Kind::Text if matches!(field.name.as_str(), "since" | "until") => {
            "Union[str, datetime]".to_owned()
        }
        other => annotation(other),
    }
}

fn method(call: &Call, style: &Style) -> String {
    let mut taken = vec!["self".to_owned()];
    let of_path = |it: &Field| format!("{}: str", name(&it.name));
    taken.extend(call.target.iter().map(of_path));
    let mut sent = String::new();
    let mut named = |fields: &[Field], what: &str, annotation: fn(&Field) -> String| {
        let mut keyed = Vec::new();
        taken.push("*".to_owned());
        for field in fields {
            let name = name(&field.name);
            assert!(
                !call.target.iter().any(|it| it.name == name),
                "{}: {name} is there twice",
                call.word
            );
            let default = if field.is_required {
                ""
            } else {
                " = NOT_GIVEN"
            };
            taken.push(format!("{name}: {}{default}", annotation(field)));
            keyed.push(format!("{:?}: {name}", field.name));
        }
        sent = format!(", {what}={{{}}}", keyed.join(", "));
    };
    match &call.sent {
        Sent::Nothing => {}
        Sent::Query(fields) => named(fields, "query", of_query),
        Sent::Body(_, Some(fields)) => named(fields, "body", |it| annotation(&it.kind)),
        Sent::Body(kind, None) => {
            taken.push(format!("body: {}", annotation(kind)));
            ", body=body".clone_into(&mut sent);
        }
    }
    if call.takes_key {
        taken.push("key: Optional[str] = None".to_owned());
        sent += ", key=key";
    }
    let (how, answer) = match &call.answer {
        Answer::Nothing => ("nothing", "None".to_owned()),
        Answer::Value(kind) => ("json", annotation(kind)),
        Answer::Items(kind) => ("items", format!("{}[{}]", style.iterator, annotation(kind))),
    };
    // An iterator is there at once, and reads when it is asked for an item.
    let (define, wait) = match call.answer {
        Answer::Items(_) => (PLAIN.define, PLAIN.wait),
        Answer::Nothing | Answer::Value(_) => (style.define, style.wait),
    };
    let path = call
        .path
        .split('/')
        .map(|it| if it.starts_with('{') { "{}" } else { it });
    let path = path.collect::<Vec<_>>().join("/");
    let target: String = call.target.iter().map(|it| name(&it.name) + ", ").collect();
    let asked = format!(
        "{wait}self._calls.{how}({:?}, {path:?}, ({}){sent})",
        call.method,
        target.trim_end()
    );
    let asked = match call.answer {
        Answer::Nothing => asked,
        Answer::Value(_) | Answer::Items(_) => {
            format!("return cast(\"{}\", {asked})", answer.replace('"', "'"))
        }
    };
    let mut head = format!(
        "    {define} {}({}) -> {answer}:\n",
        name(&call.word),
        taken.join(", ")
    );
    if head.len() > 120 {
        let taken: String = taken.iter().map(|it| format!("        {it},\n")).collect();
        head = format!(
            "    {define} {}(\n{taken}    ) -> {answer}:\n",
            name(&call.word)
        );
    }
    format!(
        "\n{head}{}        {asked}\n",
        docstring(&call.about, "        ")
    )
}
