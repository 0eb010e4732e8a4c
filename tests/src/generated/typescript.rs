//! The calls of the TypeScript client, as data, and their types.

use super::{Answer, Call, Field, Groups, Kind, Sent, Types, capitalized, wrapped};

const HEAD: &str =
    "// Generated from docs/openapi.json by a test; CONTRIBUTING.md says how. Do not edit.\n";

/// `run-again` as `runAgain`.
fn name(words: &str) -> String {
    let capitalized = capitalized(words);
    let (first, rest) = capitalized.split_at(capitalized.len().min(1));
    first.to_lowercase() + rest
}

fn kind(of: &Kind) -> String {
    match of {
        Kind::Any => "any".to_owned(),
        Kind::Null => "null".to_owned(),
        Kind::Text => "string".to_owned(),
        Kind::Number { .. } => "number".to_owned(),
        Kind::Bool => "boolean".to_owned(),
        Kind::Words(words) => {
            let words: Vec<_> = words.iter().map(|it| format!("{it:?}")).collect();
            words.join(" | ")
        }
        Kind::Named(name) => name.clone(),
        Kind::List(of) => match &**of {
            Kind::Words(_) | Kind::OneOf(_) => format!("({})[]", kind(of)),
            of => format!("{}[]", kind(of)),
        },
        Kind::Map(of) => format!("Record<string, {}>", kind(of)),
        Kind::OneOf(some) => {
            let mut kinds: Vec<_> = some.iter().map(kind).collect();
            kinds.dedup();
            kinds.join(" | ")
        }
        Kind::Fields(fields) => {
            let fields: Vec<_> = fields.iter().map(field).collect();
            format!("{{ {} }}", fields.join("; "))
        }
    }
}

fn field(of: &Field) -> String {
    let optional = if of.is_required { "" } else { "?" };
    format!("{}{optional}: {}", of.name, kind(&of.kind))
}

fn comment(text: &str, indent: &str) -> String {
    let text = text.replace("*/", "* /");
    match &wrapped(&text, 112 - indent.len())[..] {
        [] => String::new(),
        [line] if line.is_empty() => String::new(),
        [line] => format!("{indent}/** {line} */\n"),
        lines => {
            let lines: String = lines
                .iter()
                .map(|it| format!("{indent} * {it}\n"))
                .collect();
            format!("{indent}/**\n{lines}{indent} */\n")
        }
    }
}

/// What a method does, as data.
pub(super) fn operations(groups: &Groups) -> String {
    let mut text = format!(
        "{HEAD}\n/** @type {{Record<string, Record<string, import(\"./operations.js\").Asked>>}} */\nexport const OPERATIONS = {{\n"
    );
    for (group, calls) in groups {
        text += &format!("  {}: {{\n", name(group));
        for call in calls {
            let sends = match call.sent {
                Sent::Nothing => "",
                Sent::Query(_) => ", sends: \"query\"",
                Sent::Body(..) => ", sends: \"body\"",
            };
            let answer = match call.answer {
                Answer::Nothing => "nothing",
                Answer::Value(_) => "json",
                Answer::Items(_) => "items",
            };
            text += &format!(
                "    {}: {{ method: {:?}, path: {:?}{sends}, answer: {answer:?} }},\n",
                name(&call.word),
                call.method,
                call.path
            );
        }
        text += "  },\n";
    }
    text + "};\n"
}

pub(super) fn declarations(groups: &Groups, types: &Types) -> String {
    let mut text = format!(
        "{HEAD}// Bodies have the keys of the JSON; times in them are texts of RFC 3339 in UTC.\n\
         // A later version of the API may add keys, and words to those of a type.\n\n\
         export interface CallOptions {{\n  signal?: AbortSignal;\n}}\n\n\
         /** How a method asks, for the client itself. */\nexport interface Asked {{\n  method: string;\n  path: string;\n  sends?: \"query\" | \"body\";\n  \
         answer: \"json\" | \"items\" | \"nothing\";\n}}\n\nexport const OPERATIONS: Record<string, Record<string, Asked>>;\n"
    );
    for (name, (about, of)) in types {
        text += &format!("\n{}", comment(about, ""));
        match of {
            Kind::Fields(fields) => {
                text += &format!("export interface {name} {{\n");
                for it in fields {
                    text += &format!("{}  {};\n", comment(&it.about, "  "), field(it));
                }
                text += "}\n";
            }
            Kind::Words(words) => {
                let words: String = words.iter().map(|it| format!("  | {it:?}\n")).collect();
                text += &format!("export type {name} =\n{words}  | (string & {{}});\n");
            }
            of => text += &format!("export type {name} = {};\n", kind(of)),
        }
    }
    for (group, calls) in groups {
        text += &format!("\nexport interface {}Calls {{\n", capitalized(group));
        calls.iter().for_each(|it| text += &method(it));
        text += "}\n";
    }
    text += "\n/** The operations of the API, grouped as the commands of the program are. */\nexport interface Operations {\n";
    for group in groups.keys() {
        text += &format!("  readonly {}: {}Calls;\n", name(group), capitalized(group));
    }
    text + "}\n"
}

fn method(call: &Call) -> String {
    let mut taken: Vec<_> = call
        .target
        .iter()
        .map(|it| format!("{}: string", name(&it.name)))
        .collect();
    match &call.sent {
        Sent::Nothing => {}
        Sent::Query(fields) => {
            let kind = kind(&Kind::Fields(fields.clone()));
            taken.push(
                format!("query?: {kind}")
                    .replace("since?: string", "since?: string | Date")
                    .replace("until?: string", "until?: string | Date"),
            );
        }
        Sent::Body(of, fields) => {
            let may_be_missing =
                fields.iter().flatten().all(|it| !it.is_required) && fields.is_some();
            taken.push(format!(
                "body{}: {}",
                if may_be_missing { "?" } else { "" },
                kind(of)
            ));
        }
    }
    taken.push(match call.takes_key {
        true => "options?: CallOptions & { key?: string }".to_owned(),
        false => "options?: CallOptions".to_owned(),
    });
    let answer = match &call.answer {
        Answer::Nothing => "Promise<void>".to_owned(),
        Answer::Value(of) => format!("Promise<{}>", kind(of)),
        Answer::Items(of) => format!("AsyncGenerator<{}, void, undefined>", kind(of)),
    };
    let mut line = format!("  {}({}): {answer};\n", name(&call.word), taken.join(", "));
    if line.len() > 120 {
        let taken: String = taken.iter().map(|it| format!("    {it},\n")).collect();
        line = format!("  {}(\n{taken}  ): {answer};\n", name(&call.word));
    }
    comment(&call.about, "  ") + &line
}
